#include "record/watch.h"

#include "model/condition.h"
#include "model/steps.h"
#include "record/naming.h"
#include "record/tensors.h"
#include "torch/dtypes.h"

/* --- one event -------------------------------------------------------------------------------- */

struct subject {
	const struct gm_recorder *recorder;
	const struct gm_event *event;
	uint64_t number;
};

static enum gm_truth known(uint64_t number, const struct gm_clause *clause)
{
	return number == UINT64_MAX ? GM_UNKNOWN : gm_compare_numbers(number, clause);
}

/* The block that the event frees; NULL: not recorded, or it frees none. */
static const struct gm_live_block *freed(const struct subject *subject)
{
	const struct gm_event *event = subject->event;
	struct gm_live_block *block = NULL;
	if (event->action == GM_FREE_REQUESTED || event->action == GM_FREE_COMPLETED)
		HASH_FIND(hh, subject->recorder->blocks, &event->address, sizeof(event->address),
		        block);
	return block;
}

/* Number of the event that allocated the block; UINT64_MAX: not recorded. */
static uint64_t block_of(const struct subject *subject)
{
	if (subject->event->action == GM_ALLOC)
		return subject->number;
	const struct gm_live_block *block = freed(subject);
	return block ? block->event : UINT64_MAX;
}

/* Of the tensor that the event's block is or was allocated for. */
static enum gm_truth judge_tensor(const struct subject *subject, const struct gm_clause *clause)
{
	const struct gm_live_block *block = freed(subject);
	const struct gm_new_tensor *tensor =
	        gm_record_tensor(subject->recorder, block ? block->tensor : subject->event->tensor);
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
	/* names are kept as they are asked for */
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
	const struct gm_recorder *recorder = subject->recorder;
	const struct gm_event *event = subject->event;
	switch (clause->fact) {
	case GM_FACT_SIZE:
		return gm_compare_numbers(event->size, clause);
	case GM_FACT_REQUESTED: /* 0: not recorded */
		return event->requested ? gm_compare_numbers(event->requested, clause) : GM_UNKNOWN;
	case GM_FACT_STEP:
		return recorder->steps ? gm_compare_numbers(recorder->last_step, clause)
		                       : GM_UNKNOWN;
	case GM_FACT_STREAM:
		return gm_compare_numbers(event->stream, clause);
	case GM_FACT_ADDRESS:
		return gm_compare_numbers(event->address, clause);
	case GM_FACT_EVENT:
		return gm_compare_numbers(subject->number, clause);
	case GM_FACT_BLOCK:
		return known(block_of(subject), clause);
	case GM_FACT_DEVICE:
		return gm_compare_numbers((uint64_t)event->device, clause);
	case GM_FACT_ALLOCATED:
		return known(event->allocated, clause);
	case GM_FACT_RESERVED:
		return known(event->reserved, clause);
	case GM_FACT_ACTION:
		return gm_compare_texts(gm_action_name((enum gm_action)event->action), clause);
	case GM_FACT_PHASE:
		return recorder->steps
		               ? gm_compare_texts(
		                         gm_phase_name(gm_steps_phase(recorder->steps)), clause)
		               : GM_UNKNOWN;
	case GM_FACT_DTYPE:
	case GM_FACT_SHAPE:
		return judge_tensor(subject, clause);
	case GM_FACT_FUNCTION:
	case GM_FACT_LINE:
	case GM_FACT_MODULE:
	case GM_FACT_OPERATOR:
	case GM_FACT_NODE:
	case GM_FACT_COLLECTIVE:
		return judge_stacks(recorder, clause);
	default: /* what only a whole recording tells: refused as the condition is read */
		return GM_UNKNOWN;
	}
}

void gm_record_watches_judge(
        struct gm_recorder *recorder, const struct gm_event *event, uint64_t number)
{
	const struct subject subject = {recorder, event, number};
	for (size_t i = 0; i < recorder->watches.count; i++) {
		struct gm_watch *watch = &recorder->watches.items[i];
		if ((watch->once && watch->hits > 0) ||
		        gm_condition_holds(watch->condition, judge, &subject) != GM_TRUE)
			continue;
		watch->hits++;
		recorder->stop_due = true;
		if (recorder->stopped_by)
			continue;
		recorder->stopped_by = watch->id;
		recorder->stopped_at = number;
	}
}

/* --- the list --------------------------------------------------------------------------------- */

static struct gm_watch *find(const struct gm_recorder *recorder, uint32_t id)
{
	for (size_t i = 0; i < recorder->watches.count; i++)
		if (recorder->watches.items[i].id == id)
			return &recorder->watches.items[i];
	return NULL;
}

struct gm_error *gm_recorder_watch(
        struct gm_recorder *recorder, uint32_t id, const char *text, bool once)
{
	struct gm_watch watch = {.id = id, .once = once};
	if (id == 0 || find(recorder, id))
		return gm_error_create(GM_USAGE, "condition %u: there is one of this number", id);
	if (recorder->watches.count == GM_RECORD_WATCHES_MAX)
		return gm_error_create(GM_USAGE,
		        "there are %d conditions already: delete one of them",
		        GM_RECORD_WATCHES_MAX);
	gm_try(gm_condition_parse(text, GM_OF_EVENTS, NULL, &watch.condition));
	if (gm_array_push(&recorder->watches, watch))
		return NULL;
	gm_condition_destroy(watch.condition);
	return &gm_error_no_memory;
}

void gm_recorder_unwatch(struct gm_recorder *recorder, uint32_t id)
{
	struct gm_watch *watch = find(recorder, id);
	if (!watch)
		return;
	gm_condition_destroy(watch->condition);
	*watch = recorder->watches.items[--recorder->watches.count];
}

uint64_t gm_recorder_watch_hits(const struct gm_recorder *recorder, uint32_t id)
{
	const struct gm_watch *watch = find(recorder, id);
	return watch ? watch->hits : 0;
}

uint32_t gm_recorder_stopped_by(const struct gm_recorder *recorder, uint64_t *ret_event)
{
	*ret_event = recorder->stopped_at;
	return recorder->stopped_by;
}

void gm_record_watches_end(struct gm_recorder *recorder)
{
	for (size_t i = 0; i < recorder->watches.count; i++)
		gm_condition_destroy(recorder->watches.items[i].condition);
	gm_array_deinit(&recorder->watches);
}
