#include "render/diff.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "render/group_text.h"
#include "render/groups.h"
#include "render/json.h"
#include "render/text.h"
#include "ask/recording/place.h"

enum { MOST_ROWS = 20, CHANGE_TEXT = GM_SIZE_TEXT + 2 };

const char *gm_compared_by_name(enum gm_group_by by)
{
	return by == GM_BY_CATEGORY ? "category"
	       : by == GM_BY_PHASE  ? "phase"
	       : by == GM_BY_STACK  ? "stack"
	       : by == GM_BY_LABEL  ? "label"
	       : by == GM_BY_SHAPE  ? "tensors"
	       : by == GM_BY_DTYPE  ? "dtype"
	                            : "line";
}

/* "+1.00 GiB", "-3.0 MiB", "=" */
static const char *change_text(uint64_t from, uint64_t to, char buffer[CHANGE_TEXT])
{
	char size[GM_SIZE_TEXT];
	if (from == to)
		return strcpy(buffer, "=");
	gm_text_size(from > to ? from - to : to - from, size);
	snprintf(buffer, CHANGE_TEXT, "%c%s", from > to ? '-' : '+', size);
	return buffer;
}

static void put_size(struct gm_table *table, uint64_t bytes)
{
	char size[GM_SIZE_TEXT];
	gm_table_cell(table, "%s", gm_text_size(bytes, size));
}

static void put_change(struct gm_table *table, uint64_t from, uint64_t to)
{
	char text[CHANGE_TEXT];
	gm_table_cell(table, "%s", change_text(from, to, text));
}

/* --- the files -------------------------------------------------------------------------------- */

static struct gm_error *put_files(
        const struct gm_compare *compare, const struct gm_style *style, FILE *out)
{
	const char *const heads[] = {"device", "events", "steps", "peak",
	        compare->count > 2 ? "to median" : "change", "reserved", "at", "step", "in",
	        "file"};
	struct gm_table *table = gm_table_create(heads, "lrrrrrrrll");
	uint64_t against = compare->count > 2 ? compare->median : compare->files[0].allocated;
	for (size_t i = 0; i < compare->count; i++) {
		const struct gm_compared_file *file = &compare->files[i];
		char name[GM_SIZE_TEXT];
		gm_table_cell(table, "%s",
		        file->has_device ? gm_text_device(file->device_type, file->device, name)
		                         : "none");
		gm_table_cell(table, "%" PRIu64, file->events);
		gm_table_cell(table, "%zu", file->step_count);
		put_size(table, file->allocated);
		put_change(table, against, file->allocated);
		put_size(table, file->reserved);
		if (file->event == GM_NO_EVENT)
			gm_table_cell(table, "%s", "");
		else
			gm_table_cell(table, "#%u", file->event);
		if (file->step)
			gm_table_cell(table, "%u", file->step);
		else
			gm_table_cell(table, "%s", "");
		gm_table_cell(
		        table, "%s", file->event == GM_NO_EVENT ? "" : gm_phase_name(file->phase));
		gm_table_cell(table, "%s%s%s", compare->count == 2 ? (i ? "B: " : "A: ") : "",
		        file->path, file->complete ? "" : "  (not complete: see info)");
	}
	return gm_table_finish(table, style, out) ? NULL : &gm_error_no_memory;
}

/* The row with most of the outlier's difference. */
static const struct gm_compared_row *odd_row(const struct gm_compare *compare)
{
	const struct gm_compared_table *table = &compare->tables[compare->table_count - 1];
	const struct gm_compared_row *found = NULL;
	bool above = compare->files[compare->odd].allocated > compare->median;
	uint64_t farthest = 0;
	for (size_t i = 0; i < table->count; i++) {
		const struct gm_compared_row *row = &table->rows[i];
		uint64_t own = gm_compared_at(row, compare->odd).bytes;
		uint64_t gap = above ? (own > row->median ? own - row->median : 0)
		                     : (own < row->median ? row->median - own : 0);
		if (gap > farthest) {
			farthest = gap;
			found = row;
		}
	}
	return found;
}

static void put_odd(const struct gm_compare *compare, FILE *out)
{
	const struct gm_compared_file *file = &compare->files[compare->odd];
	const struct gm_compared_row *row = odd_row(compare);
	char size[GM_SIZE_TEXT];
	bool above = file->allocated > compare->median;
	uint64_t gap =
	        above ? file->allocated - compare->median : compare->median - file->allocated;
	gm_put(out, "%s differs most: %s %s than the median of the %zu files", file->path,
	        gm_text_size(gap, size), above ? "more" : "less", compare->count);
	if (row) {
		uint64_t own = gm_compared_at(row, compare->odd).bytes;
		gap = own > row->median ? own - row->median : row->median - own;
		gm_put(out, ", %s of it from %s", gm_text_size(gap, size),
		        gm_text_path(gm_text_group(row->kind, row->key)));
	}
	fputs(".\n", out);
}

/* --- groups ----------------------------------------------------------------------------------- */

/* The name of the file that has the most; "several" if more than one has it. */
static const char *most_in(const struct gm_compare *compare, const struct gm_compared_row *row)
{
	const char *found = NULL;
	if (row->least == row->most)
		return compare->count > 1 ? "all" : gm_place_base_name(compare->files[0].path);
	for (size_t i = 0; i < row->count; i++) {
		if (row->cells[i].bytes != row->most)
			continue;
		if (found)
			return "several";
		found = gm_place_base_name(compare->files[row->cells[i].file].path);
	}
	return found ? found : "";
}

static void put_row(
        struct gm_table *table, const struct gm_compare *compare, const struct gm_compared_row *row)
{
	if (compare->count == 2) {
		const struct gm_compared_cell a = gm_compared_at(row, 0),
		                              b = gm_compared_at(row, 1);
		put_change(table, a.bytes, b.bytes);
		put_size(table, a.bytes);
		put_size(table, b.bytes);
		gm_table_cell(table, "%" PRIu64, a.blocks);
		gm_table_cell(table, "%" PRIu64, b.blocks);
		gm_table_cell(table, "%s%s", gm_text_path(gm_text_group(row->kind, row->key)),
		        !a.bytes   ? "  (only in B)"
		        : !b.bytes ? "  (only in A)"
		                   : "");
		return;
	}
	put_size(table, row->least);
	put_size(table, row->median);
	put_size(table, row->most);
	gm_table_cell(table, "%s", most_in(compare, row));
	gm_table_cell(table, "%s", gm_text_path(gm_text_group(row->kind, row->key)));
}

static struct gm_error *put_groups(const struct gm_compare *compare,
        const struct gm_compared_table *groups, const struct gm_compare_view *view,
        const struct gm_style *style, FILE *out)
{
	const char *const two[] = {
	        "change", "A", "B", "blocks A", "blocks B", gm_compared_by_name(groups->by)};
	const char *const many[] = {
	        "least", "median", "most", "most in", gm_compared_by_name(groups->by)};
	_cleanup_free_ const struct gm_compared_row **rows =
	        calloc(groups->count + 1, sizeof(const struct gm_compared_row *));
	size_t count = 0;
	if (!rows)
		return &gm_error_no_memory;
	for (size_t i = 0; i < groups->count; i++)
		if (view->all || gm_compared_differs(&groups->rows[i], compare->count))
			rows[count++] = &groups->rows[i];
	if (!count)
		return NULL;
	if (view->all)
		qsort(rows, count, sizeof(const struct gm_compared_row *), gm_compared_by_most);
	fputc('\n', out);
	struct gm_table *table = gm_table_create(
	        compare->count == 2 ? two : many, compare->count == 2 ? "rrrrrl" : "rrrll");
	size_t shown = count <= MOST_ROWS + 1 ? count : MOST_ROWS;
	for (size_t i = 0; i < shown; i++)
		put_row(table, compare, rows[i]);
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	if (shown < count)
		gm_put(out, "... and %zu more: --json has all\n", count - shown);
	return NULL;
}

/* --- steps ------------------------------------------------------------------------------------ */

static bool same_step(const struct gm_compared_step *a, const struct gm_compared_step *b)
{
	return a->peak == b->peak && a->kept == b->kept;
}

/* Steps of two files that differ; a range in which both repeat themselves is one line. */
static struct gm_error *put_steps(
        const struct gm_compare *compare, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {
	        "steps", "change", "peak A", "peak B", "change", "kept A", "kept B"};
	const struct gm_compared_file *a = &compare->files[0], *b = &compare->files[1];
	size_t both = a->step_count < b->step_count ? a->step_count : b->step_count, rows = 0;
	struct gm_table *table = gm_table_create(heads, "rrrrrrr");
	size_t left_out = 0;
	for (size_t i = 0, next; i < both; i = next) {
		for (next = i + 1; next < both && same_step(&a->steps[i], &a->steps[next]) &&
		                   same_step(&b->steps[i], &b->steps[next]);)
			next++;
		if (same_step(&a->steps[i], &b->steps[i]))
			continue;
		if (rows++ >= MOST_ROWS) {
			left_out += next - i;
			continue;
		}
		if (next - i > 1)
			gm_table_cell(table, "%zu-%zu", i + 1, next);
		else
			gm_table_cell(table, "%zu", i + 1);
		put_change(table, a->steps[i].peak, b->steps[i].peak);
		put_size(table, a->steps[i].peak);
		put_size(table, b->steps[i].peak);
		put_change(table, a->steps[i].kept, b->steps[i].kept);
		put_size(table, a->steps[i].kept);
		put_size(table, b->steps[i].kept);
	}
	if (rows)
		fputc('\n', out);
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	if (left_out)
		gm_put(out, "... and %zu more steps: --json has all\n", left_out);
	if (a->step_count != b->step_count)
		gm_put(out, "A has %zu steps and B has %zu: only the first %zu are compared.\n",
		        a->step_count, b->step_count, both);
	return NULL;
}

struct gm_error *gm_render_compare_text(const struct gm_compare *compare,
        const struct gm_compare_view *view, const struct gm_style *style, FILE *out)
{
	gm_try(put_files(compare, style, out));
	if (compare->odd != SIZE_MAX)
		put_odd(compare, out);
	if (view->files_only)
		return NULL;
	for (size_t i = 0; i < compare->table_count; i++)
		gm_try(put_groups(compare, &compare->tables[i], view, style, out));
	if (compare->count == 2)
		gm_try(put_steps(compare, style, out));
	if (compare->equal)
		gm_put(out,
		        "No difference: %s have the same peak, the same groups at the peak and the "
		        "same steps.\n",
		        compare->count == 2 ? "both" : "all");
	return NULL;
}

/* --- JSON ------------------------------------------------------------------------------------- */

json_t *gm_compared_file_json(const struct gm_compared_file *file)
{
	json_t *steps = json_array();
	for (size_t i = 0; i < file->step_count; i++)
		json_array_append_new(steps, json_pack("{s:i, s:I, s:I}", "step", (int)i + 1,
		                                     "peak", (json_int_t)file->steps[i].peak,
		                                     "kept", (json_int_t)file->steps[i].kept));
	json_t *other = file->others ? json_pack("{s:i, s:I, s:I}", "device", (int)file->other,
	                                       "peak_allocated", (json_int_t)file->other_peak,
	                                       "devices", (json_int_t)file->others)
	                             : json_null();
	return json_pack("{s:I, s:o, s:o, s:o, s:I, s:b, s:I, s:I, s:o, s:o, s:o, s:o}",
	        "iterations", (json_int_t)file->steps_all, "file", gm_json_string(file->path),
	        "device", file->has_device ? json_integer(file->device) : json_null(), "elsewhere",
	        other, "events", (json_int_t)file->events, "complete", file->complete, "allocated",
	        (json_int_t)file->allocated, "peak_reserved", (json_int_t)file->reserved, "event",
	        gm_json_event_or_null(file->event), "step",
	        file->step ? json_integer(file->step) : json_null(), "phase",
	        file->event == GM_NO_EVENT ? json_null() : json_string(gm_phase_name(file->phase)),
	        "steps", steps);
}

json_t *gm_compared_row_json(const struct gm_compared_row *row, size_t files)
{
	json_t *bytes = json_array(), *blocks = json_array();
	for (size_t file = 0, i = 0; file < files; file++) {
		struct gm_compared_cell cell = {0};
		if (i < row->count && row->cells[i].file == file)
			cell = row->cells[i++];
		json_array_append_new(bytes, json_integer((json_int_t)cell.bytes));
		json_array_append_new(blocks, json_integer((json_int_t)cell.blocks));
	}
	return json_pack("{s:o, s:o, s:o}", "key",
	        gm_json_string(gm_text_group(row->kind, row->key)), "bytes", bytes, "blocks",
	        blocks);
}

static json_t *table_json(const struct gm_compared_table *table, size_t files)
{
	json_t *groups = json_array();
	for (size_t i = 0; i < table->count; i++)
		json_array_append_new(groups, gm_compared_row_json(&table->rows[i], files));
	return json_pack("{s:s, s:o}", "by", gm_compared_by_name(table->by), "groups", groups);
}

json_t *gm_compared_odd_json(const struct gm_compare *compare)
{
	return compare->odd == SIZE_MAX ? json_null()
	                                : gm_json_string(compare->files[compare->odd].path);
}

struct gm_error *gm_render_compare_json(const struct gm_compare *compare, FILE *out)
{
	json_t *files = json_array(), *tables = json_array();
	for (size_t i = 0; i < compare->count; i++)
		json_array_append_new(files, gm_compared_file_json(&compare->files[i]));
	for (size_t i = 0; i < compare->table_count; i++)
		json_array_append_new(tables, table_json(&compare->tables[i], compare->count));
	return gm_json_write(
	        json_pack("{s:b, s:I, s:o, s:o, s:o}", "equal", compare->equal, "median",
	                (json_int_t)compare->median, "odd", gm_compared_odd_json(compare), "files",
	                files, "tables", tables),
	        true, out);
}
