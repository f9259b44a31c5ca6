/* Adds shapes to a list of blocks, from the live tensors of the recorded process. */
#include <stdlib.h>

#include "ask/blocks.h"
#include "ask/context.h"
#include "base/cleanup.h"
#include "holders/holders.h"

struct gm_error *gm_ask_blocks_annotate(struct gm_context *context, struct gm_blocks *blocks)
{
	if (context->pid <= 0 || blocks->live_count == 0 ||
	        gm_log_pid(gm_model_log(blocks->model)) != (uint64_t)context->pid)
		return NULL;
	struct gm_torch *torch;
	gm_try(gm_context_torch(context, &torch));
	_cleanup_free_ struct gm_block_note *notes = calloc(blocks->live_count, sizeof(*notes));
	if (!notes)
		return &gm_error_no_memory;
	for (size_t i = 0; i < blocks->live_count; i++) {
		const struct gm_block *block = gm_model_block(blocks->model, blocks->live[i]);
		bool now = block->free_requested == GM_NO_EVENT &&
		           block->free_completed == GM_NO_EVENT;
		/* An address that was released since may belong to another block now, so it is not
		 * looked up. */
		notes[i].address = now ? block->address : 0;
		notes[i].size = now ? block->size : 0;
	}
	struct gm_holders *holders;
	gm_try(gm_holders_create(
	        context->image, context->symbols, context->python, torch, &holders));
	gm_holders_annotate(holders, notes, blocks->live_count);
	gm_holders_destroy(holders);
	free(blocks->notes);
	blocks->notes = gm_take(notes);
	return NULL;
}
