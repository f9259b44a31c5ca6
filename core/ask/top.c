#include "ask/top.h"
#include "ask/blocks.h"
#include "ask/context.h"
#include "ask/leaks.h"
#include "ask/recording/leak.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "log/log.h"

void gm_top_deinit(struct gm_top *top)
{
	gm_blocks_deinit(&top->blocks);
	gm_leaks_deinit(&top->growing);
}

/* The process has ended: its data will not change any more, and is read like any recording. */
static struct gm_error *look_at_whole(struct gm_context *context, struct gm_top *top)
{
	const struct gm_blocks_options by_line = {.by = GM_BY_LINE};
	gm_try(gm_ask_blocks(context, &by_line, &top->blocks));
	top->blocks_read += gm_model_block_count(top->model);
	return gm_ask_leaks(context, &top->growing);
}

static struct gm_error *look_at_live(struct gm_top *top)
{
	const struct gm_model *model = top->model;
	struct gm_blocks *blocks = &top->blocks;
	*blocks = (struct gm_blocks){
	        .model = model,
	        .device = gm_model_main_device(model),
	        .event = top->events ? (uint32_t)top->events - 1 : GM_NO_EVENT,
	        .by = GM_BY_LINE,
	};
	if (blocks->device == SIZE_MAX)
		return NULL;
	gm_try(gm_model_live_blocks(model, blocks->device, &blocks->live, &blocks->live_count));
	for (size_t i = 0; i < blocks->live_count; i++) {
		const struct gm_block *block = gm_model_block(model, blocks->live[i]);
		blocks->allocated += block->size;
		blocks->by_phase[gm_model_phase(model, block->alloc)] += block->size;
	}
	const struct gm_model_device *device = gm_model_device(model, blocks->device);
	uint64_t reported = device->reported_allocated;
	if (reported != UINT64_MAX && reported > blocks->allocated) {
		blocks->unattributed = reported - blocks->allocated;
		blocks->allocated = reported;
	}
	top->blocks_read += blocks->live_count;
	gm_try(gm_blocks_group(blocks, GM_BY_LINE));
	return gm_leaks_among(model, blocks->live, blocks->live_count, &top->growing);
}

struct gm_error *gm_ask_top(struct gm_context *context, struct gm_top *ret_top)
{
	struct gm_model *model;
	const struct gm_model *before = context->model;
	uint64_t read = before ? gm_model_events_read(before) : 0;
	gm_context_invalidate(context);
	gm_try(gm_context_model(context, &model));
	struct gm_top top = {.model = model,
	        .events = gm_log_event_count(gm_model_log(model)),
	        .events_read = gm_model_events_read(model) - (model == before ? read : 0)};
	struct gm_error *error =
	        gm_model_follows(model) ? look_at_live(&top) : look_at_whole(context, &top);
	if (error)
		gm_top_deinit(&top);
	else
		*ret_top = top;
	return error;
}
