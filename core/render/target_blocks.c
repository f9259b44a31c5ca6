/* blocks of a process or a core. */
#include <inttypes.h>

#include "base/put.h"
#include "render/groups.h"
#include "render/json.h"
#include "render/memory.h"
#include "render/note.h"
#include "render/pause.h"
#include "render/text.h"

struct gm_error *gm_render_target_blocks_text(const struct gm_target_blocks *blocks,
        const char *groups, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {"address", "size", "bytes", "requested", "tensor"};
	const struct gm_memory *memory = &blocks->memory;
	char name[GM_SIZE_TEXT], size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED];
	gm_put(out, "%s: %s allocated (%s bytes) in %zu block%s, now\n",
	        gm_text_device(memory->device_type, memory->device, name),
	        gm_text_size(memory->allocated, size), gm_text_grouped(memory->allocated, exact),
	        blocks->count, gm_text_s(blocks->count));
	if (groups) {
		gm_put_memory_gaps(memory, "not complete: ", out);
		gm_put_pause(&memory->pause, out);
		return gm_render_groups(blocks->groups, blocks->group_count, groups, style, out);
	}
	struct gm_table *table = gm_table_create(heads, "lrrrl");
	for (size_t i = 0; i < blocks->count; i++) {
		const struct gm_segment_part *part = &memory->parts[blocks->order[i]];
		char note[160], asked[GM_SIZE_GROUPED];
		gm_text_note(&blocks->notes[i], note, sizeof(note));
		gm_table_cell(table, "0x%" PRIx64, part->address);
		gm_table_cell(table, "%s", gm_text_size(part->size, size));
		gm_table_cell(table, "%s", gm_text_grouped(part->size, exact));
		gm_table_cell(table, "%s", gm_text_grouped(part->requested, asked));
		gm_table_cell(table, "%s", note[0] ? note : "no live tensor");
	}
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	if (memory->pending)
		gm_put(out, "in addition, %s was released and waits for a stream\n",
		        gm_text_size(memory->pending, size));
	gm_put_memory_gaps(memory, "not complete: ", out);
	gm_put_pause(&memory->pause, out);
	return NULL;
}

const char *gm_target_blocks_by(const struct gm_target_blocks *blocks)
{
	return blocks->by == GM_BY_MODULE  ? "module"
	       : blocks->by == GM_BY_SHAPE ? "shape"
	                                   : "category";
}

struct gm_error *gm_render_target_blocks_json(
        const struct gm_target_blocks *blocks, bool list, FILE *out)
{
	const struct gm_memory *memory = &blocks->memory;
	json_t *groups = gm_json_groups(blocks->groups, blocks->group_count);
	json_t *categories = json_object(), *all = json_array();
	for (size_t i = 0; i < blocks->count; i++) {
		const char *category = gm_note_category(&blocks->notes[i]);
		json_int_t sum = json_integer_value(json_object_get(categories, category));
		sum += (json_int_t)memory->parts[blocks->order[i]].size;
		json_object_set_new(categories, category, json_integer(sum));
	}
	for (size_t i = 0; list && i < blocks->count; i++) {
		const struct gm_segment_part *part = &memory->parts[blocks->order[i]];
		json_array_append_new(
		        all, json_pack("{s:o, s:I, s:I, s:s, s:o}", "address",
		                     gm_json_address(part->address), "size", (json_int_t)part->size,
		                     "requested", (json_int_t)part->requested, "category",
		                     gm_note_category(&blocks->notes[i]), "tensor",
		                     gm_json_note(&blocks->notes[i])));
	}
	json_t *value = json_pack("{s:n, s:i, s:I, s:I, s:s, s:o, s:o, s:{}}", "event", "device",
	        memory->device, "allocated", (json_int_t)memory->allocated, "pending",
	        (json_int_t)memory->pending, "grouped_by", gm_target_blocks_by(blocks), "groups",
	        groups, "by_category", categories, "by_phase");
	if (value)
		gm_json_set_memory_gaps(value, memory);
	if (value && list)
		json_object_set(value, "blocks", all);
	json_decref(all);
	return gm_json_write(value, true, out);
}
