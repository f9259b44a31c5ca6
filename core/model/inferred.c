/*
 * Categories inferred from sizes. A gradient has the size of its parameter, and there are as many
 * at once as there are parameters of that size. So a block that existed before the first step and
 * stays is a parameter if gradients of its size appear and the number of such blocks is not larger
 * than that of gradients. If recording began late, the optimizer's state is among these blocks too:
 * with N gradients and a multiple of N blocks, N are parameters and the others are the optimizer's.
 */
#include <stdlib.h>

#include "base/array.h"
#include "base/search.h"
#include "base/sort.h"
#include "model/internal.h"
#include "model/runs.h"
#include "model/reasons.h"

enum { STATES_MAX = 4 }; /* for each parameter, in the existing optimizers */

/* All of one size. */
struct of_size {
	uint64_t size;
	uint32_t gradients, states; /* maximum at one time */
	uint32_t known; /* parameters that are known otherwise, and live longer than start-up */
	uint32_t made;  /* before the first step, of unknown origin */
	uint32_t there; /* from before the recording to its end */
	uint32_t given; /* of these, parameters */
};

/*
 * One block more, or one fewer, from an event on, encoded as a number so that changes can be
 * sorted: the index of the size, the event, and 1 for one more. At the same event, the fewer comes
 * first. There are as many as blocks, so they are sorted by radix sort.
 */
typedef uint64_t change_t;

static change_t make_change(size_t size_index, uint32_t event, bool is_more)
{
	return (change_t)size_index << 33 | (change_t)event << 1 | is_more;
}

struct inferring {
	const struct gm_model *model;
	uint8_t *reasons;
	GM_ARRAY(struct of_size) sizes; /* ascending */
	GM_ARRAY(change_t) changes;
	GM_ARRAY(uint64_t) scratch; /* of a sort */
	bool no_memory;
};

static bool sort_numbers(struct inferring *inferring, uint64_t *items, size_t count)
{
	if (!gm_array_reserve(&inferring->scratch, count + 1))
		return false;
	gm_sort_by_address(items, inferring->scratch.items, count, sizeof(*items));
	return true;
}

static struct of_size *of_size(struct inferring *inferring, const struct gm_block *block)
{
	uint64_t size = gm_block_requested(block);
	struct of_size *items = inferring->sizes.items;
	size_t at = gm_partition_point(inferring->sizes.count, middle, items[middle].size < size);
	return at < inferring->sizes.count && items[at].size == size ? &items[at] : NULL;
}

/* The number of blocks with one reason that are live at once, by size; into `gradients` or
 * `states`. */
static void count_at_once(struct inferring *inferring, enum gm_category_reason reason, bool states)
{
	struct of_size *sizes = inferring->sizes.items;
	inferring->changes.count = 0;
	for (size_t i = 0; i < inferring->model->blocks.count; i++) {
		const struct gm_block *block = &inferring->model->blocks.items[i];
		if (inferring->reasons[i] != reason)
			continue;
		size_t index = (size_t)(of_size(inferring, block) - sizes);
		inferring->no_memory |=
		        !gm_array_push(
		                &inferring->changes, make_change(index, block->alloc, true)) ||
		        (gm_block_end(block) != GM_NO_EVENT &&
		                !gm_array_push(&inferring->changes,
		                        make_change(index, gm_block_end(block), false)));
	}
	const change_t *changes = inferring->changes.items;
	if (!sort_numbers(inferring, inferring->changes.items, inferring->changes.count))
		inferring->no_memory = true;
	if (inferring->no_memory)
		return;
	uint32_t now = 0;
	for (size_t i = 0; i < inferring->changes.count; i++) {
		now = i && changes[i] >> 33 == changes[i - 1] >> 33 ? now : 0;
		now = changes[i] & 1 ? now + 1 : now - 1;
		struct of_size *of = &sizes[changes[i] >> 33];
		uint32_t *most = states ? &of->states : &of->gradients;
		*most = now > *most ? now : *most;
	}
}

/* The sizes of gradients and states: nothing is inferred for others. */
static void gather_sizes(struct inferring *inferring)
{
	GM_ARRAY(uint64_t) all = {0};
	bool done = true;
	for (size_t i = 0; i < inferring->model->blocks.count && done; i++)
		if (inferring->reasons[i] == GM_REASON_GRADIENT_KEPT ||
		        inferring->reasons[i] == GM_REASON_OPTIMIZER_KEEPS)
			done = gm_array_push(
			        &all, gm_block_requested(&inferring->model->blocks.items[i]));
	done = done && sort_numbers(inferring, all.items, all.count);
	for (size_t i = 0; i < all.count && done; i++)
		if (i == 0 || all.items[i] != all.items[i - 1])
			done = gm_array_push(
			        &inferring->sizes, ((struct of_size){.size = all.items[i]}));
	inferring->no_memory |= !done;
	gm_array_deinit(&all);
}

/* Was it freed before the first step? */
static bool ends_in_init(const struct gm_model *model, const struct gm_block *block)
{
	uint32_t end = gm_block_end(block);
	return end != GM_NO_EVENT && gm_model_step(model, end) == 0 &&
	       gm_model_phase(model, end) == GM_PHASE_INIT;
}

/* Created before the first step with unknown origin, and live in it. */
static bool is_made(const struct inferring *inferring, size_t index)
{
	const struct gm_block *block = &inferring->model->blocks.items[index];
	return inferring->reasons[index] == GM_REASON_NO_RULE && block->alloc != GM_NO_EVENT &&
	       gm_model_phase(inferring->model, block->alloc) == GM_PHASE_INIT &&
	       !ends_in_init(inferring->model, block);
}

static bool is_there(const struct inferring *inferring, size_t index)
{
	const struct gm_block *block = &inferring->model->blocks.items[index];
	return inferring->reasons[index] == GM_REASON_BEFORE_RECORD &&
	       block->alloc != GM_NO_EVENT && gm_block_end(block) == GM_NO_EVENT;
}

static void count_candidates(struct inferring *inferring)
{
	for (size_t i = 0; i < inferring->model->blocks.count; i++) {
		const struct gm_block *block = &inferring->model->blocks.items[i];
		uint8_t reason = inferring->reasons[i];
		bool is_known = reason == GM_REASON_MOVED_PARAMETER ||
		                reason == GM_REASON_MADE_BY_MODULE || reason == GM_REASON_LOADED;
		struct of_size *of =
		        is_known || reason == GM_REASON_NO_RULE || reason == GM_REASON_BEFORE_RECORD
		                ? of_size(inferring, block)
		                : NULL;
		if (!of)
			continue;
		of->known += is_known && !ends_in_init(inferring->model, block);
		of->made += is_made(inferring, i);
		of->there += is_there(inferring, i);
	}
}

static enum gm_category_reason of_made(const struct of_size *of)
{
	uint32_t most = of->gradients ? of->gradients : of->states;
	return of->known + of->made <= most ? GM_REASON_TRAINED
	       : of->known >= most          ? GM_REASON_NO_RULE
	                                    : GM_REASON_AMBIGUOUS;
}

static enum gm_category_reason of_there(struct of_size *of)
{
	uint32_t most = of->gradients, all = of->there;
	if (!most || of->known)
		return GM_REASON_BEFORE_RECORD;
	if (all <= most)
		return GM_REASON_INFERRED_PARAMETER;
	if (of->states || all % most != 0 || all / most > 1 + STATES_MAX)
		return GM_REASON_BEFORE_RECORD;
	return of->given++ < most ? GM_REASON_INFERRED_PARAMETER : GM_REASON_INFERRED_STATE;
}

/* Blocks from before the recording that were freed in it. */
static enum gm_category_reason of_freed(
        const struct gm_model *model, const struct gm_block *block, const struct of_size *of)
{
	switch (gm_model_phase(model, gm_block_end(block))) {
	case GM_PHASE_ZERO_GRAD:
		return of && of->gradients ? GM_REASON_INFERRED_GRADIENT : GM_REASON_BEFORE_RECORD;
	case GM_PHASE_BACKWARD:
		return GM_REASON_INFERRED_ACTIVATION;
	default:
		return GM_REASON_BEFORE_RECORD;
	}
}

static void infer(struct inferring *inferring)
{
	for (size_t i = 0; i < inferring->model->blocks.count; i++) {
		const struct gm_block *block = &inferring->model->blocks.items[i];
		uint8_t *reason = &inferring->reasons[i];
		if (*reason != GM_REASON_NO_RULE && *reason != GM_REASON_BEFORE_RECORD)
			continue;
		struct of_size *of = of_size(inferring, block);
		if (of && is_made(inferring, i))
			*reason = (uint8_t)of_made(of);
		else if (of && is_there(inferring, i))
			*reason = (uint8_t)of_there(of);
		else if (*reason == GM_REASON_BEFORE_RECORD && gm_block_end(block) != GM_NO_EVENT)
			*reason = (uint8_t)of_freed(inferring->model, block, of);
	}
}

bool gm_reasons_infer(const struct gm_model *model, struct gm_categories *categories)
{
	struct inferring inferring = {.model = model, .reasons = categories->reasons};
	gather_sizes(&inferring);
	if (!inferring.no_memory) {
		count_at_once(&inferring, GM_REASON_GRADIENT_KEPT, false);
		count_at_once(&inferring, GM_REASON_OPTIMIZER_KEEPS, true);
	}
	if (!inferring.no_memory) {
		count_candidates(&inferring);
		infer(&inferring);
	}
	gm_array_deinit(&inferring.sizes);
	gm_array_deinit(&inferring.changes);
	gm_array_deinit(&inferring.scratch);
	return !inferring.no_memory;
}
