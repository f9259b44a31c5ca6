/* Why a block is of its category, in words. */
#ifndef GM_RENDER_CATEGORY_H
#define GM_RENDER_CATEGORY_H

#include "model/categories.h"
#include "model/model.h"

/* "backward allocated it and kept it, and it is as large as a parameter". The caller frees; NULL:
 * no memory. */
char *gm_category_reason_text(enum gm_category_reason reason);

#endif
