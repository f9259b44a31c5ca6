#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "holders/holders.h"
#include "render/answers.h"
#include "render/blocks.h"
#include "render/category.h"
#include "render/groups.h"
#include "render/json.h"
#include "render/names.h"
#include "render/note.h"
#include "render/tensor.h"
#include "render/tree.h"
#include "render/text.h"
#include "ask/recording/driven.h"
#include "ask/recording/place.h"

/* "(5000, 50000) float32 requires_grad" */
void gm_text_note(const struct gm_block_note *note, char *text, size_t size)
{
	text[0] = '\0';
	if (!note->known || !note->dtype)
		return;
	FILE *out = fmemopen(text, size, "w");
	if (!out)
		return;
	fputc('(', out);
	for (uint32_t i = 0; i < note->dimensions && i < GM_TENSOR_MAX_DIMENSIONS; i++)
		gm_put(out, "%s%" PRId64, i ? ", " : "", note->shape[i]);
	gm_put(out, "%s) %s%s%s", note->dimensions == 1 ? "," : "", note->dtype,
	        note->parameter       ? " parameter"
	        : note->gradient      ? " gradient"
	        : note->requires_grad ? " requires_grad"
	                              : "",
	        note->has_grad_fn ? " in a graph" : "");
	fclose(out);
	text[size - 1] = '\0';
}

json_t *gm_json_note(const struct gm_block_note *note)
{
	if (!note->known || !note->dtype)
		return json_null();
	json_t *shape = json_array();
	for (uint32_t i = 0; i < note->dimensions && i < GM_TENSOR_MAX_DIMENSIONS; i++)
		json_array_append_new(shape, json_integer(note->shape[i]));
	return json_pack("{s:o, s:s, s:b, s:b, s:b, s:i}", "shape", shape, "dtype", note->dtype,
	        "requires_grad", note->requires_grad, "parameter", note->parameter, "gradient",
	        note->gradient, "tensors", (int)note->tensors);
}

const char *gm_groups_head(const struct gm_blocks *blocks)
{
	switch (blocks->by) {
	case GM_BY_OPERATOR:
		return "operator";
	case GM_BY_MODULE:
		return "module";
	case GM_BY_CATEGORY:
		return "category";
	case GM_BY_PHASE:
		return "phase";
	case GM_BY_SHAPE:
	case GM_BY_DTYPE:
		return "tensors";
	case GM_BY_LABEL:
		return "label";
	default:
		return "allocated at";
	}
}

void gm_put_blocks_head(const struct gm_blocks *blocks, const char *what, FILE *out)
{
	const struct gm_model_device *device = gm_model_device(blocks->model, blocks->device);
	char name[GM_SIZE_TEXT], size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED];
	uint32_t step = gm_model_step(blocks->model, blocks->event);
	uint64_t bytes = blocks->filtered ? blocks->matched : blocks->allocated;
	gm_put(out, "%s: %s", gm_text_device(device->type, device->index, name),
	        gm_text_size(bytes, size));
	if (blocks->filtered)
		gm_put(out, " of %s", gm_text_size(blocks->allocated, size));
	gm_put(out, " %s (%s bytes) in %zu", what, gm_text_grouped(bytes, exact),
	        blocks->live_count);
	if (blocks->filtered)
		gm_put(out, " of %zu", blocks->total_count);
	size_t count = blocks->filtered ? blocks->total_count : blocks->live_count;
	gm_put(out, " block%s after event %u", gm_text_s(count), blocks->event);
	if (step)
		gm_put(out, ", in step %u", step);
	gm_put(out, " (%s)\n", gm_phase_name(gm_model_phase(blocks->model, blocks->event)));
}

enum { LABELS_MAX = 16 };

/* A block's labels as one cell. */
static void put_labels(struct gm_table *table, const struct gm_model *model, uint32_t block)
{
	const char *labels[LABELS_MAX];
	char text[240] = "";
	size_t count = gm_model_labels(model, block, labels, LABELS_MAX), length = 0;
	for (size_t i = 0; i < count && length < sizeof(text); i++)
		length += (size_t)snprintf(
		        text + length, sizeof(text) - length, "%s%s", i ? ", " : "", labels[i]);
	gm_table_cell(table, "%s", text);
}

static json_t *labels_json(const struct gm_model *model, uint32_t block)
{
	const char *labels[LABELS_MAX];
	size_t count = gm_model_labels(model, block, labels, LABELS_MAX);
	json_t *array = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(array, gm_json_string(labels[i]));
	return array;
}

static size_t index_of(const struct gm_model *model, const struct gm_block *block)
{
	return (size_t)(block - gm_model_block(model, 0));
}

/* `tensors`: with a column for the recording's tensors; and one for names if there are any. */
static void put_block_cells(struct gm_table *table, const struct gm_model *model,
        const struct gm_driven *driven, const struct gm_block *block, bool tensors,
        const char *note)
{
	char names[GM_NAMES_TEXT];
	char size[GM_SIZE_TEXT];
	struct gm_event event = {0};
	struct gm_shown_site site;
	struct gm_native_place native;
	if (block->alloc == GM_NO_EVENT)
		gm_table_cell(table, "?");
	else
		gm_table_cell(table, "#%u", block->alloc);
	gm_table_cell(table, "0x%" PRIx64, block->address);
	gm_table_cell(table, "%s", gm_text_size(block->size, size));
	uint32_t step = 0;
	if (block->alloc != GM_NO_EVENT) {
		gm_log_event(gm_model_log(model), block->alloc, &event);
		step = gm_model_step(model, block->alloc);
	}
	if (step)
		gm_table_cell(table, "%u", step);
	else
		gm_table_cell(table, "%s", "");
	gm_table_cell(table, "%s",
	        block->alloc == GM_NO_EVENT ? ""
	                                    : gm_phase_name(gm_model_phase(model, block->alloc)));
	char tensor[GM_TENSOR_TEXT];
	if (tensors)
		gm_table_cell(
		        table, "%s", gm_text_tensor(gm_model_log(model), event.tensor, tensor));
	if (gm_model_has_names(model))
		gm_table_cell(table, "%s", gm_text_names(model, index_of(model, block), names));
	const char *space = note[0] ? "  " : "";
	if (gm_shown_site(driven, gm_model_log(model), &event, &site))
		gm_table_site(table, &site, space, note);
	else if (gm_place_native_site(gm_model_log(model), &event, &native))
		gm_table_cell(table, "%s%s%s%s%s", native.function ? native.function : "",
		        native.function ? " in " : "", native.object, space, note);
	else
		gm_table_cell(table, "%s%s%s",
		        block->flags & GM_EVENT_PREEXISTING ? "before the recording"
		                                            : "not recorded",
		        space, note);
}

static size_t shown(const struct gm_blocks *blocks, size_t count)
{
	return blocks->top && blocks->top < count ? blocks->top : count;
}

/* Blocks that are not in the list, and why. */
static void put_rest(const struct gm_blocks *blocks, size_t first, FILE *out)
{
	char size[GM_SIZE_TEXT];
	uint64_t bytes = 0;
	for (size_t i = first; i < blocks->live_count; i++)
		bytes += gm_model_block(blocks->model, blocks->live[i])->size;
	size_t more = blocks->live_count - first;
	if (more)
		gm_put(out, "... %zu more block%s, %s\n", more, gm_text_s(more),
		        gm_text_size(bytes, size));
	if (blocks->unknown_bytes)
		gm_put(out,
		        "%s more: the recording does not contain the property that the "
		        "condition needs\n",
		        gm_text_size(blocks->unknown_bytes, size));
}

static struct gm_table *create_table(const struct gm_model *model, bool tensors, bool labels)
{
	static const char *const first[] = {"block", "address", "size", "step", "phase"};
	const char *heads[9];
	char alignment[10] = "rlrrl";
	size_t count = sizeof(first) / sizeof(*first);
	memcpy(heads, first, sizeof(first));
	if (tensors)
		heads[count++] = "tensor";
	if (gm_model_has_names(model))
		heads[count++] = "name";
	heads[count++] = "allocated at";
	if (labels)
		heads[count++] = "label";
	memset(alignment + sizeof(first) / sizeof(*first), 'l',
	        count - sizeof(first) / sizeof(*first));
	alignment[count] = '\0';
	return gm_table_create(heads, alignment);
}

struct gm_error *gm_render_blocks_text(
        const struct gm_blocks *blocks, bool groups, const struct gm_style *style, FILE *out)
{
	if (blocks->device == SIZE_MAX || blocks->event == GM_NO_EVENT) {
		fputs("The recording contains no allocations.\n", out);
		return NULL;
	}
	gm_put_blocks_head(blocks, "allocated", out);
	if (blocks->tree)
		return gm_render_tree(blocks->tree, style, out);
	if (groups) {
		gm_try(gm_render_groups(blocks->groups, shown(blocks, blocks->group_count),
		        gm_groups_head(blocks), style, out));
		put_rest(blocks, blocks->live_count, out);
		return NULL;
	}
	bool labels = gm_model_has_labels(blocks->model);
	bool tensors = !blocks->notes && gm_log_has_tensors(gm_model_log(blocks->model));
	struct gm_table *table = create_table(blocks->model, tensors, labels);
	for (size_t i = 0; i < shown(blocks, blocks->live_count); i++) {
		const struct gm_block *block = gm_model_block(blocks->model, blocks->live[i]);
		char note[160] = "";
		if (blocks->notes)
			gm_text_note(&blocks->notes[i], note, sizeof(note));
		put_block_cells(table, blocks->model, blocks->driven, block, tensors, note);
		if (labels)
			put_labels(table, blocks->model, blocks->live[i]);
	}
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	put_rest(blocks, shown(blocks, blocks->live_count), out);
	if (blocks->unattributed)
		gm_put(out,
		        "%" PRIu64
		        " more bytes were allocated before the recording began: unknown\n",
		        blocks->unattributed);
	return NULL;
}

struct gm_error *gm_render_blocks_explained(
        const struct gm_blocks *blocks, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {
	        "block", "size", "step", "phase", "category", "because"};
	if (blocks->device == SIZE_MAX || blocks->event == GM_NO_EVENT) {
		fputs("The recording contains no allocations.\n", out);
		return NULL;
	}
	gm_put_blocks_head(blocks, "allocated", out);
	struct gm_table *table = gm_table_create(heads, "rrrlll");
	for (size_t i = 0; i < shown(blocks, blocks->live_count); i++) {
		const struct gm_block *block = gm_model_block(blocks->model, blocks->live[i]);
		bool known = block->alloc != GM_NO_EVENT;
		uint32_t step = known ? gm_model_step(blocks->model, block->alloc) : 0;
		char size[GM_SIZE_TEXT], text[16] = "";
		if (known)
			snprintf(text, sizeof(text), "#%u", block->alloc);
		gm_table_cell(table, "%s", text);
		gm_table_cell(table, "%s", gm_text_size(block->size, size));
		text[0] = '\0';
		if (step)
			snprintf(text, sizeof(text), "%u", step);
		gm_table_cell(table, "%s", text);
		gm_table_cell(table, "%s",
		        known ? gm_phase_name(gm_model_phase(blocks->model, block->alloc)) : "");
		gm_table_cell(table, "%s",
		        gm_category_name(gm_categories_of(blocks->categories, blocks->live[i])));
		_cleanup_free_ char *reason = gm_category_reason_text(
		        gm_categories_reason(blocks->categories, blocks->live[i]));
		struct gm_forward_frame forward;
		if (known && gm_place_forward(blocks->model, block->alloc, &forward))
			gm_table_cell(table, "%s; in the backward of %s:%u in %s",
			        reason ? reason : "", gm_place_base_name(forward.file),
			        forward.line, forward.function);
		else
			gm_table_cell(table, "%s", reason ? reason : "");
	}
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	put_rest(blocks, shown(blocks, blocks->live_count), out);
	return NULL;
}

static json_t *block_json(
        const struct gm_model *model, const struct gm_driven *driven, const struct gm_block *block)
{
	json_t *value = json_object();
	json_object_set_new(value, "address", gm_json_address(block->address));
	json_object_set_new(value, "size", json_integer((json_int_t)block->size));
	json_object_set_new(value, "requested",
	        block->requested ? json_integer((json_int_t)block->requested) : json_null());
	json_object_set_new(
	        value, "device", json_integer(gm_model_device(model, block->device)->index));
	json_object_set_new(value, "allocated", gm_json_event_or_null(block->alloc));
	json_object_set_new(value, "free_requested", gm_json_event_or_null(block->free_requested));
	json_object_set_new(value, "free_completed", gm_json_event_or_null(block->free_completed));
	gm_json_set_names(value, model, index_of(model, block));
	if (block->alloc == GM_NO_EVENT)
		return value;
	struct gm_event event;
	struct gm_shown_site site;
	gm_log_event(gm_model_log(model), block->alloc, &event);
	uint32_t step = gm_model_step(model, block->alloc);
	json_object_set_new(value, "step", step ? json_integer(step) : json_null());
	json_object_set_new(
	        value, "phase", json_string(gm_phase_name(gm_model_phase(model, block->alloc))));
	gm_json_set_tensor(value, gm_model_log(model), event.tensor);
	gm_json_set_operator(value, gm_model_log(model), event.native_stack);
	if (gm_shown_site(driven, gm_model_log(model), &event, &site))
		gm_json_set_site(value, &site);
	struct gm_forward_frame forward;
	if (gm_place_forward(model, block->alloc, &forward))
		json_object_set_new(value, "forward_site",
		        gm_json_place(forward.file, forward.line, forward.function));
	return value;
}

static void put_category(json_t *value, const struct gm_blocks *blocks, uint32_t block)
{
	json_object_set_new(value, "category",
	        json_string(gm_category_name(gm_categories_of(blocks->categories, block))));
	json_object_set_new(value, "category_reason",
	        gm_json_take(
	                gm_category_reason_text(gm_categories_reason(blocks->categories, block))));
}

/* Blocks allocated before the recording are unknown too: the sums add up to `allocated`. */
static json_t *category_sums(const struct gm_blocks *blocks)
{
	json_t *sums = json_object();
	for (int i = 0; i < GM_CATEGORY_COUNT; i++) {
		uint64_t bytes = blocks->by_category[i];
		if (i == GM_CATEGORY_UNKNOWN)
			bytes += blocks->unattributed;
		if (bytes)
			json_object_set_new(sums, gm_category_name((enum gm_category)i),
			        json_integer((json_int_t)bytes));
	}
	return sums;
}

json_t *gm_json_blocks(const struct gm_blocks *blocks, bool list)
{
	json_t *value = json_object(), *phases = json_object();
	bool any = blocks->device != SIZE_MAX && blocks->event != GM_NO_EVENT;
	json_object_set_new(value, "event", any ? json_integer(blocks->event) : json_null());
	json_object_set_new(value, "device",
	        any ? json_integer(gm_model_device(blocks->model, blocks->device)->index)
	            : json_null());
	json_object_set_new(value, "allocated", json_integer((json_int_t)blocks->allocated));
	if (blocks->filtered)
		json_object_set_new(value, "where",
		        json_pack("{s:I, s:I, s:I, s:I}", "bytes", (json_int_t)blocks->matched,
		                "blocks", (json_int_t)blocks->live_count, "unknown_bytes",
		                (json_int_t)blocks->unknown_bytes, "unknown_blocks",
		                (json_int_t)blocks->unknown_count));
	json_object_set_new(value, "groups",
	        gm_json_groups(blocks->groups, shown(blocks, blocks->group_count)));
	if (blocks->tree)
		json_object_set_new(value, "tree", gm_json_tree(blocks->tree));
	json_object_set_new(value, "by_category", category_sums(blocks));
	for (int phase = 0; phase < GM_PHASE_COUNT; phase++)
		if (blocks->by_phase[phase])
			json_object_set_new(phases, gm_phase_name((enum gm_phase)phase),
			        json_integer((json_int_t)blocks->by_phase[phase]));
	if (blocks->unattributed)
		json_object_set_new(
		        phases, "unknown", json_integer((json_int_t)blocks->unattributed));
	json_object_set_new(value, "by_phase", phases);
	if (gm_model_has_names(blocks->model)) {
		json_t *kinds = json_object();
		for (unsigned kind = GM_NAMED_PARAMETER; kind < GM_NAMED_COUNT; kind++)
			if (blocks->by_named_kind[kind])
				json_object_set_new(kinds, gm_named_kind_name(kind),
				        json_integer((json_int_t)blocks->by_named_kind[kind]));
		json_object_set_new(value, "by_named_kind", kinds);
	}
	json_t *all = list ? json_array() : NULL;
	for (size_t i = 0; list && i < shown(blocks, blocks->live_count); i++) {
		const struct gm_block *block = gm_model_block(blocks->model, blocks->live[i]);
		json_t *one = block_json(blocks->model, blocks->driven, block);
		put_category(one, blocks, blocks->live[i]);
		if (gm_model_has_labels(blocks->model))
			json_object_set_new(
			        one, "labels", labels_json(blocks->model, blocks->live[i]));
		if (blocks->notes)
			json_object_set_new(one, "tensor", gm_json_note(&blocks->notes[i]));
		json_array_append_new(all, one);
	}
	if (list)
		json_object_set_new(value, "blocks", all);
	return value;
}

struct gm_error *gm_render_blocks_json(const struct gm_blocks *blocks, bool list, FILE *out)
{
	return gm_json_write(gm_json_blocks(blocks, list), true, out);
}

struct gm_error *gm_render_history_text(const struct gm_model *model, const uint32_t *blocks,
        size_t count, const struct gm_style *style, FILE *out)
{
	if (count == 0) {
		fputs("No block of the recording was at this address.\n", out);
		return NULL;
	}
	struct gm_table *table = create_table(model, false, false);
	for (size_t i = 0; i < count; i++) {
		const struct gm_block *block = gm_model_block(model, blocks[i]);
		char note[64] = "still alive";
		uint32_t end = gm_block_end(block);
		if (end != GM_NO_EVENT)
			snprintf(note, sizeof(note), "freed by event %u", end);
		put_block_cells(table, model, NULL, block, false, note);
	}
	return gm_table_finish(table, style, out) ? NULL : &gm_error_no_memory;
}

struct gm_error *gm_render_history_json(const struct gm_model *model, uint64_t address,
        const uint32_t *blocks, size_t count, FILE *out)
{
	json_t *all = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(
		        all, block_json(model, NULL, gm_model_block(model, blocks[i])));
	return gm_json_write(
	        json_pack("{s:o, s:o}", "address", gm_json_address(address), "blocks", all), true,
	        out);
}
