#include "record/watch.h"

#include "model/watches.h"
#include "record/naming.h"
#include "record/tensors.h"
#include "torch/dtypes.h"

/* --- one event -------------------------------------------------------------------------------- */

struct subject {
	const struct gm_recorder *recorder;
	struct gm_watched_event watched;
	const struct gm_live_block *freed; /* NULL: not recorded, or it frees none */
};

static const struct gm_live_block *find_freed(
        const struct gm_recorder *recorder, const struct gm_event *event)
{
	struct gm_live_block *block = NULL;
	if (event->action == GM_FREE_REQUESTED || event->action == GM_FREE_COMPLETED)
		HASH_FIND(hh, recorder->blocks, &event->address, sizeof(event->address), block);
	return block;
}

/* For the tensor for which the event's block is or was allocated. */
static enum gm_truth judge_tensor(const struct subject *subject, const struct gm_clause *clause)
{
	const struct gm_live_block *block = subject->freed;
	const struct gm_new_tensor *tensor = gm_record_tensor(
	        subject->recorder, block ? block->tensor : subject->watched.event->tensor);
	if (!tensor)
		return GM_UNKNOWN;
	if (clause->fact == GM_FACT_DTYPE)
		return gm_compare_texts(gm_torch_dtype_name(tensor->type), clause);
	return gm_compare_shapes(tensor->sizes, tensor->dimensions, clause);
}

static bool python_frame(const void *context, size_t i, struct gm_condition_frame *ret_frame)
{
	const struct gm_recorder *recorder = context;
	if (i >= recorder->fed_count)
		return false;
	const struct gm_python_frame *frame = &recorder->fed_frames[i];
	*ret_frame = (struct gm_condition_frame){frame->code->file, frame->code->name, frame->line};
	return true;
}

static const char *native_function(const void *context, size_t i)
{
	/* names are stored as they are looked up */
	struct gm_recorder *recorder = (struct gm_recorder *)(uintptr_t)context;
	if (i >= recorder->fed_address_count)
		return NULL;
	return gm_record_function(recorder, recorder->fed_addresses[i], recorder->fed_addresses,
	        recorder->fed_address_count);
}

static enum gm_truth judge_stacks(
        const struct gm_recorder *recorder, const struct gm_clause *clause)
{
	const struct gm_condition_stacks stacks = {recorder, python_frame, native_function};
	return gm_compare_stacks(&stacks, clause);
}

static enum gm_truth judge(const void *context, const struct gm_clause *clause)
{
	const struct subject *subject = context;
	switch (clause->fact) {
	case GM_FACT_DTYPE:
	case GM_FACT_SHAPE:
		return judge_tensor(subject, clause);
	case GM_FACT_FUNCTION:
	case GM_FACT_LINE:
	case GM_FACT_MODULE:
	case GM_FACT_OPERATOR:
	case GM_FACT_NODE:
	case GM_FACT_COLLECTIVE:
		return judge_stacks(subject->recorder, clause);
	default: /* conditions that need a whole recording are rejected when they are parsed */
		return gm_compare_event(&subject->watched, clause);
	}
}

void gm_record_watches_judge(
        struct gm_recorder *recorder, const struct gm_event *event, uint64_t number)
{
	const struct gm_live_block *freed = find_freed(recorder, event);
	const struct subject subject = {
	        .recorder = recorder,
	        .watched = {.event = event,
	                .number = number,
	                .block = event->action == GM_ALLOC ? number
	                         : freed                   ? freed->event
	                                                   : UINT64_MAX,
	                .steps = recorder->steps,
	                .step = recorder->last_step},
	        .freed = freed,
	};
	recorder->stop_due |= gm_watches_judge(&recorder->watches, judge, &subject, number);
}

/* --- the list --------------------------------------------------------------------------------- */

struct gm_error *gm_recorder_watch(
        struct gm_recorder *recorder, uint32_t id, const char *condition, bool once)
{
	return gm_watches_add(&recorder->watches, GM_OF_EVENTS, id, condition, once);
}

void gm_recorder_unwatch(struct gm_recorder *recorder, uint32_t id)
{
	gm_watches_remove(&recorder->watches, id);
}

uint64_t gm_recorder_watch_hits(const struct gm_recorder *recorder, uint32_t id)
{
	return gm_watches_hits(&recorder->watches, id);
}

uint32_t gm_recorder_stopped_by(const struct gm_recorder *recorder, uint64_t *ret_event)
{
	*ret_event = recorder->watches.stopped_at;
	return recorder->watches.stopped_by;
}
