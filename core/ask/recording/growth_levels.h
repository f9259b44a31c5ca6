/* The loops that `leaks` examines. Internal to core/ask. */
#ifndef GM_ASK_GROWTH_LEVELS_H
#define GM_ASK_GROWTH_LEVELS_H

#include "ask/recording/after_steps.h"
#include "ask/recording/growth.h"

struct gm_levels {
	struct gm_level items[GM_LEAK_LOOPS_MAX]; /* the first: the steps */
	uint32_t count;
	struct gm_after_steps after;
};

/* The steps alone. device: SIZE_MAX: no events at all. */
struct gm_level gm_level_of_steps(const struct gm_model *model, size_t device);
struct gm_error *gm_levels_find(
        const struct gm_model *model, size_t device, struct gm_levels *ret_levels);
void gm_levels_deinit(struct gm_levels *levels);
/* The first event of the first step; GM_NO_EVENT: there is no step. */
uint32_t gm_first_of_steps(const struct gm_model *model);

#endif
