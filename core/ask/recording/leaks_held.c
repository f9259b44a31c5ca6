/* leaks, joined to what holds the blocks in a live process or a core. */
#include <stdlib.h>
#include <string.h>

#include "ask/leaks.h"
#include "ask/target/pause.h"
#include "ask/context.h"
#include "base/cleanup.h"
#include "cpython/cpython.h"

/* Is the storage at the block's address the block's own? Another one may be there by now. */
static bool is_same(const struct gm_holders_answer *answer, const struct gm_block *block)
{
	for (size_t i = 0; i < answer->storage_count; i++) {
		const struct gm_held_storage *storage = &answer->storages[i];
		if (storage->data == block->address && storage->size <= block->size &&
		        (!block->requested || storage->size == block->requested))
			return true;
	}
	return false;
}

static struct gm_error *find_holder(
        struct gm_holders *holders, const struct gm_block *block, struct gm_leak_holder *holder)
{
	struct gm_holders_answer answer;
	gm_try(gm_holders_find(holders, block->address, &answer));
	holder->there = answer.place == GM_PLACE_STORAGE && is_same(&answer, block);
	if (holder->there && answer.holder_count) {
		/* The first is the nearest that begins at a variable. */
		holder->found = true;
		holder->first = answer.holders[0];
		answer.holders[0] = (struct gm_holder){0};
		holder->others = answer.holder_count - 1 + answer.omitted;
		holder->complete = answer.complete;
	}
	gm_holders_answer_deinit(&answer);
	return NULL;
}

/* ---- whether what holds them has a limit ----------------------------------------------------- */

/* The limit of a container on the chain, the nearest to the tensor first; or of the object that
 * keeps a container, by its attributes. */
static bool find_limit(struct gm_python *python, const struct gm_leak *leak,
        const struct gm_holder *chain, struct gm_python_bound *ret_bound)
{
	uint64_t container = 0;
	for (size_t i = chain->step_count; i-- > 0;) {
		const struct gm_holder_step *step = &chain->steps[i];
		if (!step->address)
			continue;
		bool found = gm_python_bound_of(python, step->address, ret_bound) ||
		             (container && gm_python_bound_by_owner(
		                                   python, step->address, container, ret_bound));
		/* each iteration that left something put an item there */
		if (found && ret_bound->count >= leak->steps)
			return true;
		container =
		        step->form == GM_STEP_ITEM || step->form == GM_STEP_KEY ? step->address : 0;
	}
	return false;
}

static uint64_t when_full(const struct gm_leak *leak, const struct gm_python_bound *limit)
{
	uint64_t each = leak->blocks ? leak->bytes / leak->blocks : 0, whole;
	uint64_t blocks = limit->count ? (leak->blocks + limit->count / 2) / limit->count : 1;
	if (__builtin_mul_overflow(each * (blocks ? blocks : 1), limit->limit, &whole))
		return UINT64_MAX;
	return whole;
}

/*
 * Does a limit end the growth? It is only a note on a leak
 * - if it is plausible: an attribute named `capacity` need not be the container's limit,
 * - if the device cannot hold as much next to everything else, or
 * - if the container is to hold more than ten times as much as now: until then it grows with each
 *   step. (functools.lru_cache() has a limit of 128 items, also where the program needs one.)
 */
static bool ends_growth(const struct gm_leaks *leaks, const struct gm_leak *leak)
{
	enum { TIMES_MOST = 10 };
	const struct gm_leak_holder *holder = leak->holder;
	const struct gm_model_device *device = gm_model_device(leaks->model, leaks->device);
	uint64_t total, full = holder->bytes_when_full, peak = device->peak.allocated;
	if (holder->limit.kind == GM_PYTHON_BOUND_ATTRIBUTE || full / TIMES_MOST > leak->bytes)
		return false;
	if (!gm_log_device_total(gm_model_log(leaks->model), device->index, &total) || !total)
		return true;
	uint64_t others = peak > leak->bytes ? peak - leak->bytes : 0;
	return full <= total && others <= total - full;
}

static void judge_limit(
        struct gm_python *python, const struct gm_leaks *leaks, struct gm_leak *leak)
{
	struct gm_leak_holder *holder = leak->holder;
	if (!holder->found || leak->joined)
		return;
	holder->limited = find_limit(python, leak, &holder->first, &holder->limit);
	if (!holder->limited)
		return;
	holder->bytes_when_full = when_full(leak, &holder->limit);
	if (ends_growth(leaks, leak))
		leak->bound = GM_LEAK_HAS_LIMIT;
}

static struct gm_error *find_holders(struct gm_context *context, struct gm_leaks *leaks)
{
	struct gm_holders *holders;
	struct gm_python *python;
	gm_try(gm_context_holders(context, &holders));
	gm_try(gm_context_python(context, &python));
	for (size_t i = 0; i < leaks->count && i < GM_LEAK_HOLDERS_MAX; i++) {
		struct gm_leak *leak = &leaks->items[i];
		if (!(leak->holder = calloc(1, sizeof(*leak->holder))))
			return &gm_error_no_memory;
		gm_try(find_holder(
		        holders, gm_model_block(leaks->model, leak->oldest), leak->holder));
		judge_limit(python, leaks, leak);
	}
	gm_try(gm_leaks_part(leaks));
	return gm_context_check_there(context);
}

struct gm_error *gm_ask_leaks_holders(struct gm_context *context, struct gm_leaks *leaks)
{
	if (!leaks->count)
		return NULL;
	gm_try(gm_context_pause(context, GM_READS_MUCH));
	struct gm_error *error = find_holders(context, leaks);
	struct gm_pause pause;
	gm_context_resume(context, &pause);
	for (size_t i = 0; i < leaks->count; i++)
		if (leaks->items[i].holder && !gm_pause_is_still(&pause))
			leaks->items[i].holder->complete = false;
	return error;
}
