/* leaks, joined to what holds the blocks in a live process or a core. */
#include <stdlib.h>
#include <string.h>

#include "ask/leaks.h"
#include "ask/target/pause.h"
#include "ask/context.h"
#include "base/cleanup.h"

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

static struct gm_error *find_holders(struct gm_context *context, struct gm_leaks *leaks)
{
	struct gm_holders *holders;
	gm_try(gm_context_holders(context, &holders));
	for (size_t i = 0; i < leaks->count && i < GM_LEAK_HOLDERS_MAX; i++) {
		struct gm_leak *leak = &leaks->items[i];
		if (!(leak->holder = calloc(1, sizeof(*leak->holder))))
			return &gm_error_no_memory;
		gm_try(find_holder(
		        holders, gm_model_block(leaks->model, leak->oldest), leak->holder));
	}
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
