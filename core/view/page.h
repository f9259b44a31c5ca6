/* The page around the columns; view/page/bundle.py makes page.c of the files next to it. */
#ifndef GM_VIEW_PAGE_H
#define GM_VIEW_PAGE_H

#include <stddef.h>

extern const char gm_view_page_begin[], gm_view_page_end[];
extern const size_t gm_view_page_begin_size, gm_view_page_end_size;

#endif
