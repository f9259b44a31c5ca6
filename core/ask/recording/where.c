#include "ask/recording/where.h"

#include <stdbool.h>
#include <string.h>

#include "ask/recording/place.h"
#include "base/cleanup.h"
#include "model/condition.h"
#include "torch/dtypes.h"

/* ---- the stacks of an event of a recording ---- */

struct recorded {
	const struct gm_log *log;
	const struct gm_event *event;
};

static bool python_frame(const void *context, size_t i, struct gm_condition_frame *ret_frame)
{
	const struct recorded *recorded = context;
	struct gm_frame_place place;
	if (!gm_place_frame(recorded->log, recorded->event->python_stack, i, &place))
		return false;
	*ret_frame = (struct gm_condition_frame){place.file, place.function, place.line};
	return true;
}

static const char *native_function(const void *context, size_t i)
{
	const struct recorded *recorded = context;
	size_t count;
	const uint64_t *addresses =
	        gm_log_native_stack(recorded->log, recorded->event->native_stack, &count);
	if (i >= count)
		return NULL;
	struct gm_native_place place;
	gm_place_native(recorded->log, addresses[i], &place);
	return place.function ? place.function : "";
}

static enum gm_truth judge_stacks(
        const struct gm_log *log, const struct gm_event *event, const struct gm_clause *clause)
{
	const struct recorded recorded = {log, event};
	const struct gm_condition_stacks stacks = {&recorded, python_frame, native_function};
	return gm_compare_stacks(&stacks, clause);
}

static enum gm_truth judge_tensor(
        const struct gm_log *log, uint32_t id, const struct gm_clause *clause)
{
	struct gm_log_tensor tensor;
	if (!gm_log_tensor(log, id, &tensor))
		return GM_UNKNOWN;
	if (clause->fact == GM_FACT_SHAPE)
		return gm_compare_shapes(tensor.sizes, tensor.dimensions, clause);
	const char *name = gm_torch_dtype_name(tensor.type);
	return name ? gm_compare_texts(name, clause) : GM_UNKNOWN;
}

static enum gm_truth judge_labels(
        const struct gm_model *model, uint32_t block, const struct gm_clause *clause)
{
	enum { LABELS_MAX = 16 };
	const char *labels[LABELS_MAX];
	size_t count = gm_model_labels(model, block, labels, LABELS_MAX);
	bool any = false;
	for (size_t i = 0; i < count; i++)
		any |= clause->compare == GM_CONTAINS ? strstr(labels[i], clause->text) != NULL
		                                      : strcmp(labels[i], clause->text) == 0;
	return gm_compare_several(gm_model_has_labels(model), any, clause);
}

/* If the recording has names, a block without a name does not match. If it has none, the result is
 * unknown. */
static enum gm_truth judge_names(
        const struct gm_model *model, uint32_t block, const struct gm_clause *clause)
{
	_cleanup_(gm_all_names_deinit) struct gm_all_names names;
	bool any = false;
	if (!gm_model_all_names(model, block, &names))
		return GM_UNKNOWN;
	for (size_t i = 0; i < names.count; i++)
		any |= gm_name_fits(names.items[i].name, clause);
	return gm_compare_several(gm_model_has_names(model), any, clause);
}

/* If no range was recorded, it is not known whether the program had any. */
static enum gm_truth judge_ranges(
        const struct gm_model *model, uint64_t event, const struct gm_clause *clause)
{
	enum { RANGES_MAX = 256 };
	const char *ranges[RANGES_MAX];
	size_t count = gm_model_ranges(model, event, ranges, RANGES_MAX);
	bool any = false;
	for (size_t i = 0; i < count; i++)
		any |= gm_name_fits(ranges[i], clause);
	return gm_compare_several(gm_model_has_marks(model), any, clause);
}

enum gm_truth gm_where_judge(const void *subject, const struct gm_clause *clause)
{
	const struct gm_where_block *where = subject;
	const struct gm_block *block = gm_model_block(where->model, where->block);
	const struct gm_log *log = gm_model_log(where->model);
	struct gm_event event = {0};
	if (block->alloc != GM_NO_EVENT)
		gm_log_event(log, block->alloc, &event);
	switch (clause->fact) {
	case GM_FACT_SIZE:
		return gm_compare_numbers(block->size, clause);
	case GM_FACT_REQUESTED:
		return block->requested ? gm_compare_numbers(block->requested, clause) : GM_UNKNOWN;
	case GM_FACT_ADDRESS:
		return gm_compare_numbers(block->address, clause);
	case GM_FACT_CATEGORY:
		return gm_compare_texts(
		        gm_category_name(gm_categories_of(where->categories, where->block)),
		        clause);
	case GM_FACT_LABEL:
		return judge_labels(where->model, where->block, clause);
	case GM_FACT_NAME:
		return judge_names(where->model, where->block, clause);
	default:
		break;
	}
	if (block->alloc == GM_NO_EVENT)
		return GM_UNKNOWN;
	switch (clause->fact) {
	case GM_FACT_STEP: /* 0: before the first */
		return gm_compare_numbers(gm_model_step(where->model, block->alloc), clause);
	case GM_FACT_STREAM:
		return gm_compare_numbers(event.stream, clause);
	case GM_FACT_PHASE:
		return gm_compare_texts(
		        gm_phase_name(gm_model_phase(where->model, block->alloc)), clause);
	case GM_FACT_RANGE:
		return judge_ranges(where->model, block->alloc, clause);
	case GM_FACT_LINE:
	case GM_FACT_FUNCTION:
	case GM_FACT_MODULE:
	case GM_FACT_OPERATOR:
	case GM_FACT_NODE:
	case GM_FACT_COLLECTIVE:
		return judge_stacks(log, &event, clause);
	default:
		return judge_tensor(log, event.tensor, clause);
	}
}
