/*
 * Growth: memory that the iterations of a loop leave behind, for each line. `leaks` examines the
 * steps and every loop around them, because memory that grows once per epoch does not grow with
 * each step; each of several loops that have steps by itself; and the loops after the steps
 * (growth_levels.h). Internal to core/ask.
 *
 * A line *piles up* if blocks that it allocates in iterations throughout the run are all still
 * alive at the end. It *joins* if it replaces its block by the concatenation of the old block and
 * another one: the new block is larger by exactly the size of a live block that was allocated in
 * between. If the operator is known to concatenate, that block may have another precision. A block
 * that grows with the inputs is no such sum.
 *
 * Gradients and optimizer state are bounded by the parameters: of each size there are only as many
 * as there are parameters of that size, even if some are trained later.
 */
#ifndef GM_ASK_GROWTH_H
#define GM_ASK_GROWTH_H

#include "ask/recording/leak.h"
#include "base/array.h"
#include "model/categories.h"
#include "model/model.h"

/* A block that an iteration left, and the line that made it. */
struct gm_share {
	uint64_t site; /* hash of file, line and function */
	uint32_t iteration, stack, block;
	uint64_t bytes;
	uint8_t phase; /* enum gm_phase, of the allocation */
};

/* The iterations of one loop. */
struct gm_level {
	struct gm_step_loop loop;
	enum gm_leak_loop_kind kind;
	bool of_steps;
	/* A package's own loop, as that of a trainer: the program's own line called all of it, so
	 * lines are those of packages. */
	bool in_packages;
	uint32_t from, to; /* those looked at, from 1; from > to: too few */
	uint32_t end;      /* the last event: what is freed later was kept until then */
	struct gm_model_iterations iterations; /* not of steps; owned */
};

struct gm_growth {
	const struct gm_model *model;
	size_t device;
	bool in_packages;                       /* as of the level */
	const struct gm_categories *categories; /* NULL: those of leaks are not asked for */
	uint64_t *known;                        /* sites of stacks, by id; owned */
	/* sizes of what was there before the first step and still is, in order: parameters, among
	 * others */
	GM_ARRAY(uint64_t) parameters;
};

void gm_growth_init(struct gm_growth *growth, const struct gm_model *model, size_t device);
void gm_growth_deinit(struct gm_growth *growth);
/* False: no memory. */
bool gm_growth_site(struct gm_growth *growth, uint32_t stack, uint64_t *ret_site);

/* The iteration that an event is in; 0: in none. What follows an iteration of a loop around the
 * steps belongs to it; other loops end where their last event is. */
uint32_t gm_level_iteration(
        const struct gm_level *level, const struct gm_model *model, uint32_t event);
/* Was something left in iterations all over the run, the early ones as well? */
bool gm_level_spreads(const struct gm_level *level, uint32_t count, uint32_t first, uint32_t last);

#endif
