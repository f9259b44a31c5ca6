/*
 * leaks: lines whose blocks pile up, step over step.
 *
 * A line leaks where blocks that it allocates in most of the steps, from the second on, are all still there at the
 * end. What is kept for a while and replaced (the last output, a window of the last ten losses) does not: of its
 * older blocks none is left. The last step's blocks never count, as the next step may free them.
 */
#ifndef GM_ASK_LEAKS_H
#define GM_ASK_LEAKS_H

#include "ask/context.h"
#include "ask/place.h"
#include "model/categories.h"
#include "model/model.h"

enum { GM_LEAK_STEPS_MIN = 3 }; /* steps in which a line must have left something */

struct gm_leak {
	uint32_t stack;            /* one of the Python stacks of the line */
	uint32_t block;            /* the latest block that it left */
	uint32_t steps;            /* in which it left something */
	uint64_t bytes, blocks;    /* left, in sum, from steps `from` to `to` of the answer */
	enum gm_category category; /* of the latest block */
};

struct gm_leaks {
	const struct gm_model *model;
	size_t device;         /* SIZE_MAX: no events at all */
	uint32_t from, to;     /* the steps looked at; from > to: too few */
	struct gm_leak *items; /* the fastest first; owned */
	size_t count;
};

struct gm_error *gm_ask_leaks(struct gm_context *context, struct gm_leaks *ret_leaks);
void gm_leaks_deinit(struct gm_leaks *leaks);

#endif
