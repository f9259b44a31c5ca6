/* The columns of a device's blocks, in the order of their allocations. */
#include <string.h>

#include "ask/recording/tree.h"
#include "base/cleanup.h"
#include "render/names.h"
#include "view/causes.h"
#include "view/device.h"
#include "view/sites.h"

struct looking {
	const struct gm_model *model;
	const struct gm_categories *categories;
	struct gm_view_tables *tables;
	struct gm_view_causes *causes;
	bool names;
};

typedef uint64_t take(const struct looking *looking, size_t index, const struct gm_block *block);

static uint64_t take_alloc(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	return block->alloc;
}

/* The number of events between its allocation and its release; 0: it was not released. */
static uint64_t take_life(const struct looking *looking, size_t index, const struct gm_block *block)
{
	uint32_t end = gm_block_end(block);
	return end == GM_NO_EVENT ? 0 : end - block->alloc;
}

uint64_t gm_view_pending(const struct gm_model *model, const struct gm_block *block)
{
	uint32_t end = gm_block_end(block);
	if (end == GM_NO_EVENT)
		return 0;
	if (block->free_completed == GM_NO_EVENT)
		return gm_log_event_count(gm_model_log(model)) - end;
	return block->free_completed - end;
}

static uint64_t take_pending(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	return gm_view_pending(looking->model, block);
}

static uint64_t take_size(const struct looking *looking, size_t index, const struct gm_block *block)
{
	return block->size;
}

static uint64_t take_requested(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	return block->requested;
}

static uint64_t take_address_low(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	return block->address & UINT32_MAX;
}

static uint64_t take_address_high(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	return block->address >> 32;
}

static uint64_t take_category(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	return gm_categories_of(looking->categories, index);
}

static uint64_t take_reason(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	return gm_categories_reason(looking->categories, index);
}

static uint64_t take_stack(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	uint32_t python, native;
	gm_model_stacks(looking->model, block->alloc, &python, &native);
	return gm_view_stack(looking->tables, python);
}

static uint64_t take_release_stack(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	uint32_t python, native, end = gm_block_end(block);
	if (end == GM_NO_EVENT)
		return 0;
	gm_model_stacks(looking->model, end, &python, &native);
	return gm_view_stack(looking->tables, python);
}

static uint64_t take_site(const struct looking *looking, size_t index, const struct gm_block *block)
{
	return gm_view_site(looking->tables, block);
}

static uint64_t take_operator(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	uint32_t python, native;
	gm_model_stacks(looking->model, block->alloc, &python, &native);
	return gm_view_operator(looking->tables, native);
}

static uint64_t take_node(const struct looking *looking, size_t index, const struct gm_block *block)
{
	uint32_t python, native;
	gm_model_stacks(looking->model, block->alloc, &python, &native);
	return gm_view_node(looking->tables, native);
}

/* Whether a native stack was recorded: without one the operator is not known. */
static uint64_t take_native(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	uint32_t python, native;
	size_t count = 0;
	gm_model_stacks(looking->model, block->alloc, &python, &native);
	gm_log_native_stack(gm_model_log(looking->model), native, &count);
	return count > 0;
}

/* Whether the flame graph shows its node and operator below the frames. */
static uint64_t take_work(const struct looking *looking, size_t index, const struct gm_block *block)
{
	uint32_t python, native;
	gm_model_stacks(looking->model, block->alloc, &python, &native);
	return gm_tree_shows_work(python, block->flags);
}

static uint64_t take_stream(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	const struct gm_event *event = gm_log_event_at(gm_model_log(looking->model), block->alloc);
	return event ? event->stream : 0;
}

static uint64_t take_tensor(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	const struct gm_event *event = gm_log_event_at(gm_model_log(looking->model), block->alloc);
	return event ? gm_view_tensor(looking->tables, event->tensor) : 0;
}

static uint64_t take_name(const struct looking *looking, size_t index, const struct gm_block *block)
{
	char text[GM_NAMES_TEXT];
	if (!looking->names)
		return 0;
	return gm_view_text(looking->tables, gm_text_names(looking->model, index, text));
}

static uint64_t take_cause(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	return gm_view_cause(looking->causes, (uint32_t)index);
}

static uint64_t take_collective(
        const struct looking *looking, size_t index, const struct gm_block *block)
{
	uint32_t python, native;
	gm_model_stacks(looking->model, block->alloc, &python, &native);
	return gm_view_collective(looking->tables, native);
}

static const struct {
	const char *name;
	enum gm_view_form form;
	take *take;
} fields[] = {
        {"alloc", GM_VIEW_DIFFERENCES, take_alloc},
        {"life", GM_VIEW_NUMBERS, take_life},
        {"size", GM_VIEW_NUMBERS, take_size},
        {"pending", GM_VIEW_NUMBERS, take_pending},
        {"category", GM_VIEW_NUMBERS, take_category},
        {"site", GM_VIEW_NUMBERS, take_site},
        {"reason", GM_VIEW_NUMBERS, take_reason},
        {"requested", GM_VIEW_NUMBERS, take_requested},
        {"address.low", GM_VIEW_NUMBERS, take_address_low},
        {"address.high", GM_VIEW_NUMBERS, take_address_high},
        {"stack", GM_VIEW_NUMBERS, take_stack},
        {"release.stack", GM_VIEW_NUMBERS, take_release_stack},
        {"operator", GM_VIEW_NUMBERS, take_operator},
        {"tensor", GM_VIEW_NUMBERS, take_tensor},
        {"name", GM_VIEW_NUMBERS, take_name},
        {"node", GM_VIEW_NUMBERS, take_node},
        {"native", GM_VIEW_NUMBERS, take_native},
        {"work", GM_VIEW_NUMBERS, take_work},
        {"stream", GM_VIEW_NUMBERS, take_stream},
        {"cause", GM_VIEW_NUMBERS, take_cause},
        {"collective", GM_VIEW_NUMBERS, take_collective},
};

static void destroy_causes(struct gm_view_causes **causes)
{
	gm_view_causes_destroy(*causes);
}

static void destroy_driven(struct gm_driven **driven)
{
	gm_driven_destroy(*driven);
}

/* All names of tensors in a block: how many, and their texts. */
static struct gm_error *put_names(
        const struct looking *looking, size_t index, struct gm_view_columns *columns)
{
	_cleanup_(gm_all_names_deinit) struct gm_all_names names;
	if (!gm_model_all_names(looking->model, index, &names))
		return &gm_error_no_memory;
	gm_view_put(columns, names.count);
	for (size_t i = 0; i < names.count; i++)
		gm_view_put(columns, gm_view_text(looking->tables, names.items[i].name));
	return NULL;
}

static struct gm_error *put_labels(
        const struct looking *looking, size_t index, struct gm_view_columns *columns)
{
	enum { LABELS_MAX = 16 }; /* the same as in conditions */
	const char *labels[LABELS_MAX];
	size_t count = gm_model_labels(looking->model, index, labels, LABELS_MAX);
	gm_view_put(columns, count);
	for (size_t i = 0; i < count; i++)
		gm_view_put(columns, gm_view_text(looking->tables, labels[i]));
	return NULL;
}

static struct gm_error *put_ranges(
        const struct looking *looking, size_t index, struct gm_view_columns *columns)
{
	enum { RANGES_MAX = 256 }; /* the same as in conditions */
	const char *ranges[RANGES_MAX];
	uint32_t event = gm_model_block(looking->model, index)->alloc;
	size_t count = gm_model_ranges(looking->model, event, ranges, RANGES_MAX);
	gm_view_put(columns, count);
	for (size_t i = 0; i < count; i++)
		gm_view_put(columns, gm_view_text(looking->tables, ranges[i]));
	return NULL;
}

static bool is_there(const struct gm_block *block, size_t device)
{
	return block->device == device && block->alloc != GM_NO_EVENT;
}

static struct gm_error *write_lists(const struct looking *looking, size_t device, const char *which,
        struct gm_error *(*put)(const struct looking *, size_t, struct gm_view_columns *),
        struct gm_view_columns *columns)
{
	char name[64];
	snprintf(name, sizeof(name), "d%zu.block.%s", device, which);
	gm_view_column_begin(columns, name, GM_VIEW_NUMBERS);
	struct gm_error *error = NULL;
	for (size_t i = 0; i < gm_model_block_count(looking->model) && !error; i++)
		if (is_there(gm_model_block(looking->model, i), device))
			error = put(looking, i, columns);
	gm_view_column_end(columns);
	return error;
}

struct gm_error *gm_view_device_blocks(const struct gm_model *model, size_t device,
        const struct gm_categories *categories, struct gm_view_tables *tables,
        struct gm_view_columns *columns, uint64_t *ret_blocks)
{
	uint64_t blocks = 0;
	_cleanup_(destroy_causes) struct gm_view_causes *causes = NULL;
	gm_try(gm_view_causes_create(model, device, tables, &causes));
	const struct looking looking = {
	        model, categories, tables, causes, gm_model_has_names(model)};
	_cleanup_(destroy_driven) struct gm_driven *driven = NULL;
	gm_try(gm_view_driven(model, device, &driven));
	gm_view_descend(tables, driven);
	for (size_t field = 0; field < sizeof(fields) / sizeof(*fields); field++) {
		char name[64];
		snprintf(name, sizeof(name), "d%zu.block.%s", device, fields[field].name);
		gm_view_column_begin(columns, name, fields[field].form);
		blocks = 0;
		for (size_t i = 0; i < gm_model_block_count(model); i++) {
			const struct gm_block *block = gm_model_block(model, i);
			if (!is_there(block, device))
				continue;
			gm_view_put(columns, fields[field].take(&looking, i, block));
			blocks++;
		}
		gm_view_column_end(columns);
	}
	gm_view_descend(tables, NULL);
	*ret_blocks = blocks;
	if (looking.names)
		gm_try(write_lists(&looking, device, "names", put_names, columns));
	if (gm_model_has_labels(model))
		gm_try(write_lists(&looking, device, "labels", put_labels, columns));
	if (gm_model_has_marks(model))
		gm_try(write_lists(&looking, device, "ranges", put_ranges, columns));
	return gm_view_causes_write(causes, device, columns);
}
