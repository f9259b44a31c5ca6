#include "ask/blocks.h"
#include "ask/target/pause.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/recording/driven.h"
#include "ask/recording/named.h"
#include "ask/target/modules.h"
#include "ask/recording/operator.h"
#include "ask/recording/place.h"
#include "ask/recording/tree.h"
#include "ask/recording/where.h"
#include "ask/who_holds.h"
#include "model/condition.h"
#include "ask/context.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/size.h"
#include "torch/dtypes.h"

void gm_blocks_deinit(struct gm_blocks *blocks)
{
	for (size_t i = 0; i < blocks->group_count; i++) {
		free(blocks->groups[i].key);
		free(blocks->groups[i].site);
	}
	free(blocks->groups);
	gm_driven_destroy(blocks->driven);
	if (blocks->tree)
		gm_tree_deinit(blocks->tree);
	free(blocks->tree);
	free(blocks->live);
	free(blocks->notes);
	*blocks = (struct gm_blocks){0};
}

static int compare_live(const void *a, const void *b, void *context)
{
	const struct gm_block *left = gm_model_block(context, *(const uint32_t *)a);
	const struct gm_block *right = gm_model_block(context, *(const uint32_t *)b);
	if (left->size != right->size)
		return left->size > right->size ? -1 : 1;
	return left->alloc < right->alloc ? -1 : left->alloc > right->alloc;
}

static int compare_age(const void *a, const void *b, void *context)
{
	const struct gm_block *left = gm_model_block(context, *(const uint32_t *)a);
	const struct gm_block *right = gm_model_block(context, *(const uint32_t *)b);
	/* a block from before the recording has no event, and comes first */
	uint32_t x = left->alloc + 1, y = right->alloc + 1;
	return x != y ? (x < y ? -1 : 1) : compare_live(a, b, context);
}

static int compare_address(const void *a, const void *b, void *context)
{
	const struct gm_block *left = gm_model_block(context, *(const uint32_t *)a);
	const struct gm_block *right = gm_model_block(context, *(const uint32_t *)b);
	return left->address < right->address ? -1 : left->address > right->address;
}

static int compare_groups(const void *a, const void *b)
{
	const struct gm_group *left = a, *right = b;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return gm_group_compare(left->kind, left->key, right->kind, right->key);
}

static int compare_keys(const void *a, const void *b)
{
	const struct gm_group *left = a, *right = b;
	return gm_group_compare(left->kind, left->key, right->kind, right->key);
}

/* "train.py:7 in train < train.py:20 in <module>" */
static char *stack_key(const struct gm_log *log, uint32_t stack)
{
	struct gm_frame_place place;
	char *text = NULL;
	size_t size, i = 0;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	for (; gm_place_frame(log, stack, i, &place); i++)
		fprintf(out, "%s%s:%u in %s", i ? " < " : "", gm_place_base_name(place.file),
		        place.line, place.function);
	if (i == 0)
		fputs("unknown", out);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* As gm_put_shown_site() formats it, or "unknown". */
static bool line_group(const struct gm_blocks *blocks, uint32_t block, struct gm_group *group)
{
	const struct gm_log *log = gm_model_log(blocks->model);
	uint32_t alloc = gm_model_block(blocks->model, block)->alloc;
	struct gm_event event = {0};
	struct gm_shown_site site;
	if (alloc != GM_NO_EVENT)
		gm_log_event(log, alloc, &event);
	if (alloc == GM_NO_EVENT || !gm_shown_site(blocks->driven, log, &event, &site)) {
		group->key = strdup("unknown");
		return group->key;
	}
	size_t size;
	FILE *out = open_memstream(&group->key, &size);
	if (!out)
		return false;
	gm_put_shown_site(&site, out);
	if (fclose(out) != 0)
		return false;
	group->site = malloc(sizeof(site));
	if (group->site)
		*group->site = site;
	return group->site;
}

enum { LABELS_MAX = 16 };

static char *without_name(struct gm_group *group, enum gm_group_kind kind)
{
	group->kind = kind;
	return strdup("");
}

/* "the logits, saved for backward"; "": none */
static char *label_key(const struct gm_model *model, uint32_t block)
{
	const char *labels[LABELS_MAX];
	size_t count = gm_model_labels(model, block, labels, LABELS_MAX), size;
	char *text = NULL;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s%s", i ? ", " : "", labels[i]);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

char *gm_shape_key(const char *dtype, const int64_t *sizes, uint32_t count)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	fprintf(out, "%s [", dtype);
	for (uint32_t i = 0; i < count; i++)
		fprintf(out, "%s%" PRId64, i ? ", " : "", sizes[i]);
	fputc(']', out);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static char *tensor_key(
        const struct gm_log *log, uint32_t id, bool dtype_alone, struct gm_group *group)
{
	struct gm_log_tensor tensor;
	const char *name =
	        gm_log_tensor(log, id, &tensor) ? gm_torch_dtype_name(tensor.type) : NULL;
	if (!name)
		return without_name(group, GM_GROUP_NO_TENSOR);
	if (dtype_alone)
		return strdup(name);
	return gm_shape_key(name, tensor.sizes, tensor.dimensions);
}

static uint32_t tensor_of(const struct gm_model *model, const struct gm_block *block)
{
	struct gm_event event = {0};
	if (block->alloc != GM_NO_EVENT)
		gm_log_event(gm_model_log(model), block->alloc, &event);
	return event.tensor;
}

/* The key of a block's group; sets its kind if it has no name. NULL: out of memory. */
static char *group_key(const struct gm_model *model, const struct gm_categories *categories,
        uint32_t index, enum gm_group_by by, struct gm_group *group)
{
	const struct gm_block *block = gm_model_block(model, index);
	if (by == GM_BY_CATEGORY)
		return strdup(gm_category_name(gm_categories_of(categories, index)));
	if (by == GM_BY_PHASE)
		return strdup(gm_phase_name(gm_model_phase(model, block->alloc)));
	if (by == GM_BY_LABEL) {
		const char *label;
		bool has_label = gm_model_labels(model, index, &label, 1) > 0;
		return has_label ? label_key(model, index) : without_name(group, GM_GROUP_NO_LABEL);
	}
	if (by == GM_BY_SHAPE || by == GM_BY_DTYPE)
		return tensor_key(
		        gm_model_log(model), tensor_of(model, block), by == GM_BY_DTYPE, group);
	uint32_t python, native;
	gm_model_stacks(model, block->alloc, &python, &native);
	const struct gm_log *log = gm_model_log(model);
	char name[GM_OPERATOR_MAX];
	if (by == GM_BY_OPERATOR)
		return gm_operator_of(log, native, name)
		               ? strdup(name)
		               : without_name(group, GM_GROUP_NO_OPERATOR);
	if (by != GM_BY_MODULE)
		return stack_key(log, python);
	char *modules = gm_modules_of_stack(log, python);
	if (!modules || modules[0])
		return modules;
	free(modules);
	return without_name(group, GM_GROUP_NO_FORWARD);
}

/* What modules hold, as the paths of their attributes, for blocks that are live now, if the
 * recorded process or core can be read. Otherwise *ret_names stays NULL. A limited number of blocks
 * is looked up, the largest ones. */
enum { NAMES_MAX = 4096 };

static struct gm_error *read_names(
        struct gm_context *context, const struct gm_blocks *blocks, char ***ret_names)
{
	struct gm_holders *holders;
	gm_try(gm_context_holders(context, &holders));
	char **names = calloc(blocks->live_count + 1, sizeof(*names));
	if (!names)
		return &gm_error_no_memory;
	struct gm_error *error = NULL;
	for (size_t i = 0; i < blocks->live_count && i < NAMES_MAX && !error; i++) {
		const struct gm_block *block = gm_model_block(blocks->model, blocks->live[i]);
		if (gm_block_end(block) == GM_NO_EVENT)
			error = gm_module_of_address(holders, block->address, &names[i]);
	}
	if (!error) {
		*ret_names = names;
		return NULL;
	}
	for (size_t i = 0; i < blocks->live_count; i++)
		free(names[i]);
	free(names);
	return error;
}

static struct gm_error *name_modules(
        struct gm_context *context, const struct gm_blocks *blocks, char ***ret_names)
{
	if (!gm_context_has_target(context))
		return NULL;
	gm_try(gm_context_pause(context, GM_READS_MUCH));
	struct gm_error *error = read_names(context, blocks, ret_names);
	gm_context_resume(context, NULL);
	return error;
}

/* Makes equal keys adjacent. */
static void merge_groups(struct gm_blocks *blocks)
{
	if (!blocks->group_count)
		return;
	qsort(blocks->groups, blocks->group_count, sizeof(*blocks->groups), compare_keys);
	size_t kept = 0;
	for (size_t i = 1; i < blocks->group_count; i++) {
		struct gm_group *into = &blocks->groups[kept], *from = &blocks->groups[i];
		if (compare_keys(into, from) == 0) {
			into->bytes += from->bytes;
			into->blocks += from->blocks;
			free(from->key);
			free(from->site);
		} else {
			blocks->groups[++kept] = *from;
		}
	}
	blocks->group_count = kept + 1;
	qsort(blocks->groups, blocks->group_count, sizeof(*blocks->groups), compare_groups);
}

/* First one group for each stack: naming a stack is expensive, and blocks share stacks. */
struct stack_sum {
	uint64_t tag; /* stack, or phase */
	uint32_t block;
	uint64_t bytes, blocks;
};

static int compare_tags(const void *a, const void *b)
{
	const struct stack_sum *left = a, *right = b;
	return left->tag < right->tag ? -1 : left->tag > right->tag;
}

static struct gm_error *group_by_module(struct gm_blocks *blocks, char **names)
{
	for (size_t i = 0; i < blocks->live_count; i++) {
		uint32_t index = blocks->live[i];
		struct gm_group group = {
		        .bytes = gm_model_block(blocks->model, index)->size, .blocks = 1};
		if (names && names[i] && !names[i][0])
			group.key = without_name(&group, GM_GROUP_ROOT_MODULE);
		else if (names && names[i])
			group.key = gm_take(names[i]);
		else
			group.key = group_key(
			        blocks->model, blocks->categories, index, GM_BY_MODULE, &group);
		if (!group.key)
			return &gm_error_no_memory;
		blocks->groups[blocks->group_count++] = group;
	}
	return NULL;
}

static struct gm_error *add_unattributed(struct gm_blocks *blocks)
{
	if (!blocks->unattributed)
		return NULL;
	struct gm_group group = {.bytes = blocks->unattributed};
	group.key = without_name(&group, GM_GROUP_BEFORE_RECORDING);
	if (!group.key)
		return &gm_error_no_memory;
	blocks->groups[blocks->group_count++] = group;
	return NULL;
}

static struct gm_error *make_module_groups(struct gm_context *context, struct gm_blocks *blocks)
{
	char **names = NULL;
	/* Paths are optional: if the process cannot be read, the classes are the answer. */
	gm_error_destroy(name_modules(context, blocks, &names));
	blocks->groups = calloc(blocks->live_count + 2, sizeof(*blocks->groups));
	struct gm_error *error =
	        blocks->groups ? group_by_module(blocks, names) : &gm_error_no_memory;
	for (size_t i = 0; names && i < blocks->live_count; i++)
		free(names[i]);
	free(names);
	if (!error)
		error = add_unattributed(blocks);
	if (!error)
		merge_groups(blocks);
	return error;
}

struct gm_error *gm_blocks_group(struct gm_blocks *blocks, enum gm_group_by by)
{
	size_t count = blocks->live_count, kept = 0;
	_cleanup_free_ struct stack_sum *sums = calloc(count + 1, sizeof(*sums));
	blocks->groups = calloc(count + 1, sizeof(*blocks->groups));
	if (!sums || !blocks->groups)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++) {
		const struct gm_block *block = gm_model_block(blocks->model, blocks->live[i]);
		uint32_t python, native;
		const char *label;
		gm_model_stacks(blocks->model, block->alloc, &python, &native);
		uint64_t tag = by == GM_BY_OPERATOR ? native : python;
		if (by == GM_BY_PHASE)
			tag = gm_model_phase(blocks->model, block->alloc);
		else if (by == GM_BY_CATEGORY)
			tag = gm_categories_of(blocks->categories, blocks->live[i]);
		else if (by == GM_BY_LABEL)
			tag = gm_model_labels(blocks->model, blocks->live[i], &label, 1)
			              ? blocks->live[i]
			              : UINT64_MAX;
		else if (by == GM_BY_SHAPE || by == GM_BY_DTYPE)
			tag = tensor_of(blocks->model, block);
		else if (by == GM_BY_LINE && (!python || block->flags & GM_EVENT_BORROWED))
			tag |= (uint64_t)native
			       << 32; /* the names of these functions describe the work */
		sums[i] = (struct stack_sum){tag, blocks->live[i], block->size, 1};
	}
	if (count)
		qsort(sums, count, sizeof(*sums), compare_tags);
	for (size_t i = 1; i < count; i++) {
		if (sums[i].tag == sums[kept].tag) {
			sums[kept].bytes += sums[i].bytes;
			sums[kept].blocks++;
		} else {
			sums[++kept] = sums[i];
		}
	}
	for (size_t i = 0; count && i <= kept; i++) {
		struct gm_group *group = &blocks->groups[blocks->group_count++];
		*group = (struct gm_group){.bytes = sums[i].bytes, .blocks = sums[i].blocks};
		if (by == GM_BY_LINE)
			line_group(blocks, sums[i].block, group);
		else
			group->key = group_key(
			        blocks->model, blocks->categories, sums[i].block, by, group);
		if (!group->key)
			return &gm_error_no_memory;
	}
	gm_try(add_unattributed(blocks));
	merge_groups(blocks);
	return NULL;
}

/* Whether the condition is true for a block; counts the blocks for which this cannot be determined.
 * */
static bool is_wanted(struct gm_blocks *blocks, const struct gm_condition *where, size_t index)
{
	const struct gm_where_block subject = {blocks->model, blocks->categories, (uint32_t)index};
	enum gm_truth holds = where ? gm_condition_holds(where, gm_where_judge, &subject) : GM_TRUE;
	uint64_t size = gm_model_block(blocks->model, index)->size;
	if (holds == GM_UNKNOWN) {
		blocks->unknown_bytes += size;
		blocks->unknown_count++;
	} else if (holds == GM_TRUE) {
		blocks->matched += size;
	}
	return holds == GM_TRUE;
}

static struct gm_error *collect(struct gm_blocks *blocks, const struct gm_blocks_options *options)
{
	GM_ARRAY(uint32_t) live = {0};
	blocks->filtered = options->where;
	uint64_t sum = 0;
	size_t count = gm_model_block_count(blocks->model);
	const struct gm_block *all = count ? gm_model_block(blocks->model, 0) : NULL;
	for (size_t i = 0; i < count; i++) {
		const struct gm_block *block = &all[i];
		if (block->device != blocks->device || !gm_block_live_after(block, blocks->event))
			continue;
		sum += block->size;
		blocks->total_count++;
		if (!is_wanted(blocks, options->where, i))
			continue;
		if (!gm_array_push(&live, (uint32_t)i)) {
			gm_array_deinit(&live);
			return &gm_error_no_memory;
		}
		blocks->by_phase[gm_model_phase(blocks->model, block->alloc)] += block->size;
		blocks->by_category[gm_categories_of(blocks->categories, i)] += block->size;
		struct gm_block_name name;
		if (gm_model_names(blocks->model, i, &name, 1) > 0)
			blocks->by_named_kind[name.kind] += block->size;
	}
	blocks->live = live.items;
	blocks->live_count = live.count;
	blocks->allocated = sum;
	/* The event has the allocator's own figure, for its own device. */
	struct gm_event event;
	gm_log_event(gm_model_log(blocks->model), blocks->event, &event);
	const struct gm_model_device *device = gm_model_device(blocks->model, blocks->device);
	if (event.device_type == device->type && event.device == device->index &&
	        event.allocated != UINT64_MAX && event.allocated > sum) {
		blocks->unattributed = event.allocated - sum;
		blocks->allocated = event.allocated;
	}
	if (options->where) {
		blocks->unknown_bytes += blocks->unattributed;
		blocks->unattributed = 0;
	}
	if (live.count)
		qsort_r(live.items, live.count, sizeof(*live.items),
		        options->order == GM_OLDEST_FIRST ? compare_age
		        : options->order == GM_BY_ADDRESS ? compare_address
		                                          : compare_live,
		        (void *)blocks->model);
	return NULL;
}

static struct gm_error *add_tree(struct gm_blocks *blocks)
{
	blocks->tree = calloc(1, sizeof(*blocks->tree));
	return blocks->tree ? gm_ask_tree(blocks->model, blocks->live, blocks->live_count,
	                              blocks->unattributed, blocks->tree)
	                    : &gm_error_no_memory;
}

struct gm_error *gm_blocks_find_device(
        const struct gm_model *model, uint64_t index, size_t *ret_device)
{
	*ret_device = gm_model_accelerator(model, index);
	if (*ret_device != SIZE_MAX)
		return NULL;
	return gm_error_create(GM_USAGE,
	        "--device %" PRIu64 ": the recording has no such device: `gpumem info` lists them",
	        index);
}

struct gm_error *gm_ask_device(struct gm_context *context, int index, size_t *ret_device)
{
	struct gm_model *model;
	*ret_device = SIZE_MAX;
	if (index < 0)
		return NULL;
	gm_try(gm_context_model(context, &model));
	return gm_blocks_find_device(model, (uint64_t)index, ret_device);
}

static size_t device_of(const struct gm_model *model, uint64_t number)
{
	struct gm_event event;
	gm_log_event(gm_model_log(model), number, &event);
	return gm_model_find_device(model, event.device_type, event.device);
}

struct gm_error *gm_ask_blocks(struct gm_context *context, const struct gm_blocks_options *options,
        struct gm_blocks *ret_blocks)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	uint64_t count = gm_log_event_count(gm_model_log(model));
	if (options->has_event && options->event >= count)
		return gm_error_create(GM_USAGE,
		        "event %" PRIu64 ": not in the recording: it has %" PRIu64
		        " events, counted from 0",
		        options->event, count);
	bool tensors = options->by == GM_BY_SHAPE || options->by == GM_BY_DTYPE;
	if (tensors && count && !gm_log_has_tensors(gm_model_log(model)))
		return gm_error_create(GM_TARGET,
		        "--by %s: this recording has no dtypes and shapes: record with `gpumem "
		        "run` "
		        "or `gpumem attach`, or ask a process or core",
		        options->by == GM_BY_SHAPE ? "shape" : "dtype");
	size_t device = gm_model_main_device(model);
	if (options->has_device)
		gm_try(gm_blocks_find_device(model, options->device, &device));
	else if (options->of_event)
		device = device_of(model, options->event);
	const struct gm_categories *categories;
	gm_try(gm_model_categories(model, &categories));
	struct gm_blocks blocks = {
	        .model = model,
	        .categories = categories,
	        .device = device,
	        .event = GM_NO_EVENT,
	        .by = options->by,
	        .top = options->top,
	};
	if (blocks.device == SIZE_MAX) {
		*ret_blocks = blocks;
		return NULL;
	}
	blocks.event = options->has_event ? (uint32_t)options->event
	               : options->at_peak ? gm_model_device(model, blocks.device)->peak_event
	                                  : (uint32_t)count - 1;
	struct gm_error *error = NULL;
	if (blocks.event != GM_NO_EVENT)
		error = collect(&blocks, options);
	bool everywhere = options->descend_everywhere;
	if (!error && (options->descend || everywhere) && options->by == GM_BY_LINE)
		error = gm_driven_find(model, blocks.live, blocks.live_count,
		        everywhere ? 0 : blocks.allocated, &blocks.driven);
	if (!error && blocks.event != GM_NO_EVENT)
		error = options->by == GM_BY_MODULE ? make_module_groups(context, &blocks)
		                                    : gm_blocks_group(&blocks, options->by);
	if (!error && options->tree && blocks.event != GM_NO_EVENT)
		error = add_tree(&blocks);
	if (error) {
		gm_blocks_deinit(&blocks);
		return error;
	}
	*ret_blocks = blocks;
	return NULL;
}

static bool contains(const struct gm_block *block, uint64_t address)
{
	return address == block->address || address - block->address < block->size;
}

struct gm_error *gm_ask_history(struct gm_context *context, uint64_t address,
        const struct gm_model **ret_model, uint32_t **ret_blocks, size_t *ret_count)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	GM_ARRAY(uint32_t) found = {0};
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		if (contains(gm_model_block(model, i), address) &&
		        !gm_array_push(&found, (uint32_t)i)) {
			gm_array_deinit(&found);
			return &gm_error_no_memory;
		}
	}
	*ret_model = model;
	*ret_blocks = found.items;
	*ret_count = found.count;
	return NULL;
}

static struct gm_error *parse_u64(const char *text, int base, uint64_t *ret_value)
{
	if (gm_parse_digits(text, base, ret_value))
		return NULL;
	return gm_error_create(GM_USAGE, "'%s' is not a number", text);
}

struct gm_error *gm_ask_block(struct gm_context *context, const char *text, bool has_event,
        uint64_t event, uint32_t *ret_block, size_t *ret_count)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	uint64_t number;
	if (text[0] == '#') {
		gm_try(parse_u64(text + 1, 10, &number));
		uint32_t index = gm_model_event_block(model, number);
		if (index == GM_NO_BLOCK)
			return gm_error_create(GM_USAGE,
			        "no block %s: event %" PRIu64
			        " belongs to no block: `gpumem events` lists the allocations",
			        text, number);
		*ret_block = index;
		*ret_count = 1;
		return NULL;
	}
	bool is_address = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	if (is_address)
		gm_try(parse_u64(text + 2, 16, &number));
	else if (context->pid > 0)
		gm_try(gm_ask_block_address(context, text, &number));
	else
		return gm_block_by_name(model, text, ret_block, ret_count);
	uint32_t best = GM_NO_BLOCK;
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		if (!contains(block, number))
			continue;
		if (has_event && !gm_block_live_after(block, (uint32_t)event))
			continue;
		best = (uint32_t)i;
	}
	if (best == GM_NO_BLOCK)
		return gm_error_create(GM_USAGE,
		        "no block at %s: the recording has no allocation there%s: `gpumem blocks` "
		        "lists the blocks",
		        text, has_event ? " at that event" : "");
	*ret_block = best;
	*ret_count = 1;
	return NULL;
}
