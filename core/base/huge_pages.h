/* Huge pages for our own memory, where they cost nothing extra. */
#ifndef GM_BASE_HUGE_PAGES_H
#define GM_BASE_HUGE_PAGES_H

#include <stddef.h>

/*
 * Memory that will be filled from end to end: huge pages save the kernel hundreds of faults a
 * megabyte. But where it has no free huge page, a fault makes one: the kernel moves other pages
 * together, and that takes several times longer than the faults of small pages would. So this asks
 * for huge pages only as far as the machine has free ones. The first call counts these; each call
 * takes its share. Any thread may call it. Does nothing for less than one huge page.
 */
void gm_huge_pages_advise(void *memory, size_t bytes);

#endif
