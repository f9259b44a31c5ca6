/* What changed between two answers of `retained`, as text and as JSON. */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "render/json.h"
#include "render/retained.h"
#include "render/retained_name.h"
#include "render/text.h"

enum {
	DEFAULT_DEPTH = 3,
	MOST_ROWS = 24,
	MAX_INDENT = 40,
	CHANGE_TEXT = GM_SIZE_TEXT + 2,
};

static const char *change_text(uint64_t before, uint64_t after, char buffer[CHANGE_TEXT])
{
	char size[GM_SIZE_TEXT];
	gm_text_size(before > after ? before - after : after - before, size);
	snprintf(buffer, CHANGE_TEXT, "%s%s",
	        before > after   ? "-"
	        : before < after ? "+"
	                         : "",
	        size);
	return buffer;
}

struct writing {
	struct gm_table *table;
	uint32_t depth;
	uint64_t min;
};

static void put_changes(struct writing *writing, const struct gm_retained_change *changes,
        size_t count, uint32_t level)
{
	char text[CHANGE_TEXT], before[GM_SIZE_TEXT], after[GM_SIZE_TEXT];
	uint32_t indent = (level - 1) * 2 < MAX_INDENT ? (level - 1) * 2 : MAX_INDENT;
	size_t rest = 0;
	for (size_t i = 0; i < count && level <= writing->depth; i++) {
		const struct gm_retained_change *change = &changes[i];
		uint64_t bytes = change->before > change->after ? change->before - change->after
		                                                : change->after - change->before;
		if (bytes < writing->min || i - rest >= MOST_ROWS) {
			rest++;
			continue;
		}
		gm_table_cell(
		        writing->table, "%s", change_text(change->before, change->after, text));
		gm_table_cell(writing->table, "%s", gm_text_size(change->before, before));
		gm_table_cell(writing->table, "%s", gm_text_size(change->after, after));
		gm_table_cell(writing->table, "%+" PRId64,
		        (int64_t)(change->blocks_after - change->blocks_before));
		_cleanup_free_ char *name = gm_retained_node_text(change->node);
		gm_table_cell(writing->table, "%*s%s%s", (int)indent, "", name ? name : "",
		        change->before == 0  ? " (new)"
		        : change->after == 0 ? " (gone)"
		                             : "");
		put_changes(writing, change->children, change->child_count, level + 1);
	}
	if (rest > 0) {
		for (int i = 0; i < 4; i++)
			gm_table_cell(writing->table, "%s", "");
		gm_table_cell(writing->table, "%*s... %zu smaller change%s", (int)indent, "", rest,
		        gm_text_s(rest));
	}
}

struct gm_error *gm_render_retained_diff_text(const struct gm_retained_diff *diff,
        const struct gm_retained_view *view, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {
	        "change", "before", "after", "blocks", "freed if it went away"};
	char name[GM_SIZE_TEXT], text[CHANGE_TEXT], before[GM_SIZE_TEXT], after[GM_SIZE_TEXT];
	for (size_t i = 0; i < diff->device_count; i++) {
		const struct gm_retained_device_change *device = &diff->devices[i];
		if (device->device < 0)
			snprintf(name, sizeof(name), "host tensors");
		else
			gm_text_device(1, (int16_t)device->device, name);
		gm_put(out, "%s: %s allocated before, %s now: %s\n", name,
		        gm_text_size(device->before, before), gm_text_size(device->after, after),
		        device->before == device->after
		                ? "as much"
		                : change_text(device->before, device->after, text));
		if (device->change_count == 0) {
			fputs("nothing changed\n", out);
			continue;
		}
		struct writing writing = {gm_table_create(heads, "rrrrl"),
		        view->depth ? view->depth : (uint32_t)DEFAULT_DEPTH,
		        view->has_min ? view->min : 0};
		put_changes(&writing, device->changes, device->change_count, 1);
		if (!gm_table_finish(writing.table, style, out))
			return &gm_error_no_memory;
	}
	if (diff->device_count == 0)
		fputs("no blocks are allocated now or before\n", out);
	return NULL;
}

static json_t *changes_json(const struct gm_retained_change *changes, size_t count,
        const struct gm_retained_view *view, uint32_t level)
{
	json_t *all = json_array();
	for (size_t i = 0; i < count && (!view->depth || level <= view->depth); i++) {
		const struct gm_retained_change *change = &changes[i];
		int64_t bytes = (int64_t)(change->after - change->before);
		if (view->has_min && (uint64_t)(bytes < 0 ? -bytes : bytes) < view->min)
			continue;
		json_array_append_new(
		        all, json_pack("{s:o, s:I, s:I, s:I, s:I, s:o}", "text",
		                     gm_json_take(gm_retained_node_text(change->node)), "change",
		                     (json_int_t)bytes, "before", (json_int_t)change->before,
		                     "after", (json_int_t)change->after, "blocks_change",
		                     (json_int_t)(change->blocks_after - change->blocks_before),
		                     "children",
		                     changes_json(change->children, change->child_count, view,
		                             level + 1)));
	}
	return all;
}

struct gm_error *gm_render_retained_diff_json(
        const struct gm_retained_diff *diff, const struct gm_retained_view *view, FILE *out)
{
	json_t *devices = json_array();
	for (size_t i = 0; i < diff->device_count; i++) {
		const struct gm_retained_device_change *device = &diff->devices[i];
		json_array_append_new(devices,
		        json_pack("{s:i, s:I, s:I, s:I, s:o}", "device", device->device, "change",
		                (json_int_t)(device->after - device->before), "before",
		                (json_int_t)device->before, "after", (json_int_t)device->after,
		                "changes",
		                changes_json(device->changes, device->change_count, view, 1)));
	}
	return gm_json_write(json_pack("{s:o}", "devices", devices), true, out);
}
