/*
 * What is read by modules that run without gradients: which blocks may be their input. Such a block
 * exists before they run. So does what a program keeps of an earlier evaluation (predictions in a
 * list, the best weights so far), which is no input. Internal to core/model.
 */
#ifndef GM_MODEL_EVALUATION_INPUTS_H
#define GM_MODEL_EVALUATION_INPUTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "model/types.h"

/* The latest blocks of a site: as many may wait for their turn, and no more (a prefetcher's). */
enum { GM_INPUTS_WAITING = 4 };

struct gm_inputs_of_site {
	uint32_t allocs[GM_INPUTS_WAITING], ends[GM_INPUTS_WAITING];
	uint32_t count;
	bool keeps; /* blocks of it stay while modules run for those that come after it */
};

struct gm_evaluation_inputs {
	GM_ARRAY(uint32_t)
	modules; /* events, ascending: allocations of modules without gradients */
	GM_ARRAY(uint32_t) backwards; /* events, ascending: a backward pass begins or goes on */
	struct gm_inputs_of_site *sites;
};

struct gm_model;

/* False: no memory. To be called before the others. */
bool gm_inputs_init(struct gm_evaluation_inputs *inputs, const struct gm_model *model);
void gm_inputs_deinit(struct gm_evaluation_inputs *inputs);
/* A module allocates without gradients; by ascending events. False: no memory. */
bool gm_inputs_see_module(struct gm_evaluation_inputs *inputs, uint32_t event);
/* Any other block that is allocated without gradients; by ascending allocations. */
void gm_inputs_see_block(
        struct gm_evaluation_inputs *inputs, const struct gm_block *block, uint32_t site);

enum gm_inputs_answer {
	GM_INPUTS_UNREAD,  /* no module runs while it exists */
	GM_INPUTS_READ,    /* a module of its own evaluation does */
	GM_INPUTS_OUTLIVES /* modules do, or may, but it is kept for something else */
};
enum gm_inputs_answer gm_inputs_of_block(
        const struct gm_evaluation_inputs *inputs, const struct gm_block *block, uint32_t site);

#endif
