/* The first step that a GradScaler skipped. */
#ifndef GM_ASK_SKIPPED_H
#define GM_ASK_SKIPPED_H

#include "model/model.h"

struct gm_skipped {
	uint32_t count;             /* of all such steps; 0: there is none */
	uint32_t step, first, last; /* the first of them, and its events */
};
struct gm_error *gm_skipped_find(const struct gm_model *model, struct gm_skipped *ret_skipped);

#endif
