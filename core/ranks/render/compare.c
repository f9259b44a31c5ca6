#include "ranks/render/compare.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "ranks/render/job.h"
#include "render/diff.h"
#include "render/group_text.h"
#include "render/json.h"
#include "render/say.h"

enum { ROWS_MOST = 20, GROUPS_MOST = 20, ODD_MOST = 10, DEVICES_MOST = 16 };

/* --- figures ---------------------------------------------------------------------------------- */

/* A figure of each recording. */
struct figures {
	const uint64_t *values;
	uint64_t *sorted; /* room for as many */
	bool bytes;
};

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return (left > right) - (left < right);
}

static void put_number(struct gm_table *table, const struct figures *figures, uint64_t value)
{
	char size[GM_SIZE_TEXT];
	if (figures->bytes)
		gm_table_cell(table, "%s", gm_text_size(value, size));
	else
		gm_table_cell(table, "%" PRIu64, value);
}

/* The rank that has the value; how many, where several have it. */
static void put_where(struct gm_table *table, const struct gm_job *job,
        const struct gm_ranks_answer *answer, const uint64_t *values, uint64_t value)
{
	size_t found = 0, count = 0;
	for (size_t i = 0; i < answer->count; i++)
		if (values[i] == value && !count++)
			found = i;
	if (count == answer->count) {
		gm_table_cell(table, "%s", "all");
	} else if (count > 1) {
		gm_table_cell(table, "%zu ranks", count);
	} else {
		_cleanup_free_ char *name = gm_job_name(job, answer, found);
		gm_table_cell(table, "%s", name ? name : "");
	}
}

static void put_figures(struct gm_table *table, const struct gm_job *job,
        const struct gm_ranks_answer *answer, const struct figures *figures)
{
	size_t count = answer->count;
	memcpy(figures->sorted, figures->values, count * sizeof(*figures->sorted));
	qsort(figures->sorted, count, sizeof(*figures->sorted), compare_numbers);
	uint64_t least = figures->sorted[0], most = figures->sorted[count - 1];
	put_number(table, figures, least);
	put_number(table, figures, figures->sorted[(count - 1) / 2]);
	put_number(table, figures, most);
	put_where(table, job, answer, figures->values, least);
	put_where(table, job, answer, figures->values, most);
}

enum figure { EVENTS, STEPS, ALLOCATED, RESERVED, TOTAL, FIGURES };

/* 0: not known. */
static uint64_t total_of(
        const struct gm_job *job, const struct gm_ranks_answer *answer, size_t file)
{
	return job->files.items[answer->files[file]].total;
}

static bool are_known(
        const struct gm_job *job, const struct gm_ranks_answer *answer, enum figure figure)
{
	for (size_t i = 0; figure == TOTAL && i < answer->count; i++)
		if (!total_of(job, answer, i))
			return false;
	return true;
}

static uint64_t figure_of(const struct gm_job *job, const struct gm_ranks_answer *answer,
        size_t index, enum figure figure)
{
	const struct gm_compared_file *file = &answer->compare.files[index];
	switch (figure) {
	case EVENTS:
		return file->events;
	case STEPS:
		return file->steps_all;
	case ALLOCATED:
		return file->allocated;
	case TOTAL:
		return total_of(job, answer, index);
	default:
		return file->reserved;
	}
}

static struct gm_error *put_sums(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {
	        "least", "median", "most", "least in", "most in", "figure"};
	static const char *const names[FIGURES] = {
	        "events", "steps", "peak allocated", "peak reserved", "memory of the device"};
	size_t count = answer->count;
	_cleanup_free_ uint64_t *values = calloc(2 * count + 1, sizeof(*values));
	if (!values)
		return &gm_error_no_memory;
	fputs("\n", out);
	struct gm_table *table = gm_table_create(heads, "rrrlll");
	for (unsigned figure = 0; figure < FIGURES; figure++) {
		if (!are_known(job, answer, figure))
			continue;
		for (size_t i = 0; i < count; i++)
			values[i] = figure_of(job, answer, i, figure);
		const struct figures figures = {
		        values, values + count, figure != EVENTS && figure != STEPS};
		put_figures(table, job, answer, &figures);
		gm_table_cell(table, "%s", names[figure]);
	}
	return gm_table_finish(table, style, out) ? NULL : &gm_error_no_memory;
}

/* Clocks of machines differ, so steps are compared by their numbers, never by time. */
static void put_clocks(const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out)
{
	uint64_t first = UINT64_MAX, last = 0;
	for (size_t i = 0; i < answer->count; i++) {
		uint64_t start = job->files.items[answer->files[i]].start_ns;
		if (!start)
			return;
		first = start < first ? start : first;
		last = start > last ? start : last;
	}
	if (last - first >= UINT64_C(1000000000))
		gm_put(out,
		        "The recordings begin within %.0f s, by the clocks of their machines; "
		        "steps are compared by number, not by time.\n",
		        (double)(last - first) / 1e9);
}

/* " (rank 3, 7)": the files that a row has values of. */
static void put_ranks_of(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_rank_row *row, FILE *out)
{
	_cleanup_free_ size_t *files = calloc(row->cells.count + 1, sizeof(*files));
	for (size_t i = 0; files && i < row->cells.count; i++)
		files[i] = row->cells.items[i].file;
	fputs(" (", out);
	gm_put_ranks(job, answer, files, files ? row->cells.count : 0, out);
	fputs(")", out);
}

static uint32_t device_key(uint8_t type, int16_t device)
{
	return (uint32_t)type << 16 | (uint16_t)device;
}

/* "cuda:0 (rank 0), cuda:1 (rank 1)": whose peak is on which device. One device of all is not worth
 * a line of ranks. */
static struct gm_error *put_devices(
        const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out)
{
	struct gm_rank_table table = {0};
	char name[GM_SIZE_TEXT];
	bool fits = true;
	for (size_t i = 0; i < answer->count && fits; i++) {
		const struct gm_compared_file *file = &answer->compare.files[i];
		if (file->has_device)
			fits = gm_rank_table_add(
			        &table, device_key(file->device_type, file->device), 0, i, 0);
	}
	gm_rank_table_sort_by_key(&table);
	for (size_t i = 0; fits && i < table.rows.count; i++) {
		const struct gm_rank_row *row = &table.rows.items[i];
		if (i == DEVICES_MOST) {
			gm_put(out, ", and %zu more devices", table.rows.count - i);
			break;
		}
		gm_put(out, "%s%s", i ? ", " : "The peaks are those of ",
		        gm_text_device(
		                (uint8_t)(row->key >> 16), (int16_t)(row->key & 0xffff), name));
		if (table.rows.count > 1)
			put_ranks_of(job, answer, row, out);
	}
	if (fits && table.rows.count)
		fputs(".\n", out);
	gm_rank_table_deinit(&table);
	return fits ? NULL : &gm_error_no_memory;
}

/* Ranks with memory on a device that they do not work on, such as what torch.load() puts where a
 * checkpoint was saved. */
static struct gm_error *put_elsewhere(
        const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out)
{
	_cleanup_free_ size_t *files = calloc(answer->count + 1, sizeof(*files));
	const struct gm_compared_file *most = NULL;
	size_t count = 0, most_in = 0;
	char size[GM_SIZE_TEXT], device[GM_SIZE_TEXT];
	if (!files)
		return &gm_error_no_memory;
	for (size_t i = 0; i < answer->count; i++) {
		const struct gm_compared_file *file = &answer->compare.files[i];
		if (!file->others)
			continue;
		files[count++] = i;
		if (!most || file->other_peak > most->other_peak) {
			most = file;
			most_in = i;
		}
	}
	if (!most)
		return NULL;
	_cleanup_free_ char *name = gm_job_name(job, answer, most_in);
	gm_put(out, "%zu rank%s ha%s memory on another device too (", count, gm_text_s(count),
	        count == 1 ? "s" : "ve");
	gm_put_ranks(job, answer, files, count, out);
	gm_put(out, "): at most %s, on %s in %s.\n", gm_text_size(most->other_peak, size),
	        gm_text_device(most->other_type, most->other, device), name ? name : "");
	return NULL;
}

static void put_ooms(const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out)
{
	_cleanup_free_ size_t *files = calloc(answer->count + 1, sizeof(*files));
	size_t count = 0;
	for (size_t i = 0; files && i < answer->count; i++)
		if (job->files.items[answer->files[i]].ooms)
			files[count++] = i;
	if (!count)
		return;
	gm_put(out, "%zu rank%s ran out of memory (", count, gm_text_s(count));
	gm_put_ranks(job, answer, files, count, out);
	fputs("): `gpumem-ranks oom` shows where.\n", out);
}

/* Ranks whose allocator is set otherwise than that of most: they hold other memory for it. */
static void put_settings(const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out)
{
	struct gm_rank_table table = {0};
	bool fits = true;
	for (size_t i = 0; i < answer->count && fits; i++)
		fits = gm_rank_table_add(
		        &table, job->files.items[answer->files[i]].allocator, 0, i, 0);
	for (size_t i = 0; fits && table.rows.count > 1 && i < table.rows.count; i++) {
		const struct gm_rank_row *row = &table.rows.items[i];
		gm_put(out, "%s%zu rank%s with %s",
		        i ? ", " : "The allocator's settings differ: ", row->cells.count,
		        gm_text_s(row->cells.count),
		        row->key ? gm_job_string(job, row->key) : "none");
		if (row->cells.count <= answer->count / 2)
			put_ranks_of(job, answer, row, out);
	}
	if (fits && table.rows.count > 1)
		fputs(".\n", out);
	gm_rank_table_deinit(&table);
}

/* --- groups ----------------------------------------------------------------------------------- */

/* The numbers of the job that all of a group have in common, and not all files have. */
static bool is_shared(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_rank_group *group, enum gm_job_number number, uint32_t *ret_value)
{
	uint32_t first = job->files.items[answer->files[group->files.items[0]]].numbers[number];
	bool all = true;
	if (first == GM_RANK_NONE)
		return false;
	for (size_t i = 0; i < group->files.count; i++)
		if (job->files.items[answer->files[group->files.items[i]]].numbers[number] != first)
			return false;
	for (size_t i = 0; i < answer->count; i++)
		all &= job->files.items[answer->files[i]].numbers[number] == first;
	*ret_value = first;
	return !all;
}

static void put_shared(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_rank_group *group, FILE *out)
{
	for (unsigned i = GM_JOB_LOCAL_RANK; i < GM_JOB_NUMBERS; i++) {
		uint32_t value;
		if (is_shared(job, answer, group, i, &value))
			gm_put(out, ", %s %" PRIu32, gm_job_number_name(i), value);
	}
}

static void put_groups(const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out)
{
	const struct gm_rank_groups *groups = &answer->groups;
	char least[GM_SIZE_TEXT], most[GM_SIZE_TEXT];
	if (answer->count < 2)
		return;
	fputs("\n", out);
	if (!groups->items.count) {
		fputs("No two ranks are alike.\n", out);
		return;
	}
	for (size_t i = 0; i < groups->items.count && i < GROUPS_MOST; i++) {
		const struct gm_rank_group *group = &groups->items.items[i];
		gm_put(out, "%zu ranks are alike", group->files.count);
		put_shared(job, answer, group, out);
		fputs(": ", out);
		gm_put_ranks(job, answer, group->files.items, group->files.count, out);
		gm_put(out, "; peaks of %s", gm_text_size(group->least, least));
		if (group->least != group->most)
			gm_put(out, " to %s", gm_text_size(group->most, most));
		fputs("\n", out);
	}
	if (groups->items.count > GROUPS_MOST)
		gm_put(out, "... and %zu more groups: --json has all\n",
		        groups->items.count - GROUPS_MOST);
}

static void put_odd(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_rank_odd *odd, FILE *out)
{
	const struct gm_compare *compare = &answer->compare;
	uint64_t own = compare->files[odd->file].allocated;
	char size[GM_SIZE_TEXT], part[GM_SIZE_TEXT];
	_cleanup_free_ char *name = gm_job_name(job, answer, odd->file);
	if (own == odd->median)
		gm_put(out,
		        "%s stands out: its peak has the size of the median of the %zu ranks that "
		        "it is most like, but comes from other lines",
		        name ? name : "", answer->groups.items.items[odd->group].files.count);
	else
		gm_put(out, "%s stands out: %s %s than the median of the %zu ranks that %s",
		        name ? name : "", gm_text_size(gm_rank_gap(own, odd->median), size),
		        own > odd->median ? "more" : "less",
		        answer->groups.items.items[odd->group].files.count,
		        odd->alone ? "it is most like" : "it is like");
	if (odd->row != SIZE_MAX) {
		const struct gm_compared_row *row =
		        &compare->tables[compare->table_count - 1].rows[odd->row];
		gm_put(out, own == odd->median ? ": %s more from %s" : ", %s of it from %s",
		        gm_text_size(gm_rank_gap(odd->bytes, odd->usual), part),
		        gm_text_path(gm_text_group(row->kind, row->key)));
	}
	fputs(".\n", out);
}

static void put_all_odd(const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out)
{
	size_t count = answer->groups.odd.count;
	for (size_t i = 0; i < count && i < ODD_MOST; i++)
		put_odd(job, answer, &answer->groups.odd.items[i], out);
	if (count > ODD_MOST)
		gm_put(out, "... and %zu more ranks stand out: --json has all\n", count - ODD_MOST);
}

/* --- rows ------------------------------------------------------------------------------------- */

static struct gm_error *put_rows(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_compared_table *groups, bool all, const struct gm_style *style, FILE *out)
{
	const char *const heads[] = {
	        "least", "median", "most", "least in", "most in", gm_compared_by_name(groups->by)};
	_cleanup_free_ const struct gm_compared_row **rows =
	        calloc(groups->count + 1, sizeof(const struct gm_compared_row *));
	_cleanup_free_ uint64_t *bytes = calloc(answer->count + 1, 2 * sizeof(*bytes));
	size_t count = 0;
	if (!rows || !bytes)
		return &gm_error_no_memory;
	for (size_t i = 0; i < groups->count; i++)
		if (all || gm_compared_spread(&groups->rows[i]))
			rows[count++] = &groups->rows[i];
	if (!count)
		return NULL;
	if (all)
		qsort(rows, count, sizeof(const struct gm_compared_row *), gm_compared_by_most);
	fputs("\n", out);
	struct gm_table *table = gm_table_create(heads, "rrrlll");
	size_t shown = count <= ROWS_MOST + 1 ? count : ROWS_MOST;
	for (size_t i = 0; i < shown; i++) {
		const struct figures figures = {bytes, bytes + answer->count, true};
		gm_compared_bytes(rows[i], answer->count, bytes);
		put_figures(table, job, answer, &figures);
		gm_table_cell(
		        table, "%s", gm_text_path(gm_text_group(rows[i]->kind, rows[i]->key)));
	}
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	if (shown < count)
		gm_put(out, "... and %zu more: --json has all\n", count - shown);
	return NULL;
}

/* The head says which files have no answer. */
static void put_equal(const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out)
{
	static const char same[] = "the same peak, the same groups at the peak and the same steps";
	if (answer->count == job->files.count)
		gm_put(out, "\nNo difference: all ranks have %s.\n", same);
	else
		gm_put(out,
		        "\nNo difference in the %zu of %zu recordings that have an answer: %s.\n",
		        answer->count, job->files.count, same);
}

struct gm_error *gm_render_ranks_compare(const struct gm_job *job,
        const struct gm_ranks_answer *answer, enum gm_ranks_view view, const struct gm_style *style,
        FILE *out)
{
	gm_render_job_head(job, answer, out);
	if (!answer->count)
		return NULL;
	gm_try(put_sums(job, answer, style, out));
	gm_try(put_devices(job, answer, out));
	gm_try(put_elsewhere(job, answer, out));
	put_ooms(job, answer, out);
	put_groups(job, answer, out);
	put_all_odd(job, answer, out);
	if (view == GM_RANKS_SUMS) {
		put_settings(job, answer, out);
		put_clocks(job, answer, out);
		return NULL;
	}
	for (size_t i = 0; i < answer->compare.table_count; i++)
		gm_try(put_rows(
		        job, answer, &answer->compare.tables[i], view == GM_RANKS_ALL, style, out));
	if (answer->compare.equal)
		put_equal(job, answer, out);
	return NULL;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *group_json(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_rank_group *group)
{
	json_t *files = json_array(), *ranks = json_array(), *shared = json_object();
	for (size_t i = 0; i < group->files.count; i++) {
		json_array_append_new(files, json_integer((json_int_t)group->files.items[i]));
		json_array_append_new(ranks, gm_job_rank_json(job, answer, group->files.items[i]));
	}
	for (unsigned i = GM_JOB_LOCAL_RANK; i < GM_JOB_NUMBERS; i++) {
		uint32_t value;
		if (is_shared(job, answer, group, i, &value))
			json_object_set_new(shared, gm_job_number_name(i), json_integer(value));
	}
	return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I}", "files", files, "ranks", ranks, "shared",
	        shared, "least", (json_int_t)group->least, "median", (json_int_t)group->median,
	        "most", (json_int_t)group->most);
}

static json_t *odd_json(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_rank_odd *odd)
{
	const struct gm_compare *compare = &answer->compare;
	const struct gm_compared_row *row =
	        odd->row == SIZE_MAX ? NULL
	                             : &compare->tables[compare->table_count - 1].rows[odd->row];
	return json_pack("{s:o, s:o, s:b, s:I, s:I, s:I, s:o, s:I, s:I}", "file",
	        gm_json_string(compare->files[odd->file].path), "rank",
	        gm_job_rank_json(job, answer, odd->file), "alone", odd->alone, "group",
	        (json_int_t)odd->group, "allocated",
	        (json_int_t)compare->files[odd->file].allocated, "median", (json_int_t)odd->median,
	        "line", row ? gm_json_string(gm_text_group(row->kind, row->key)) : json_null(),
	        "line_bytes", (json_int_t)odd->bytes, "line_median", (json_int_t)odd->usual);
}

static void stream_tables(struct gm_json_stream *stream, const struct gm_compare *compare)
{
	gm_stream_open(stream, "tables", '[');
	for (size_t i = 0; i < compare->table_count; i++) {
		const struct gm_compared_table *table = &compare->tables[i];
		gm_stream_open(stream, NULL, '{');
		gm_stream_put(stream, "by", json_string(gm_compared_by_name(table->by)));
		gm_stream_open(stream, "groups", '[');
		for (size_t j = 0; j < table->count; j++)
			gm_stream_put(stream, NULL,
			        gm_compared_row_json(&table->rows[j], compare->count));
		gm_stream_close(stream, ']');
		gm_stream_close(stream, '}');
	}
	gm_stream_close(stream, ']');
}

struct gm_error *gm_render_ranks_compare_json(
        const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out)
{
	const struct gm_compare *compare = &answer->compare;
	struct gm_json_stream stream;
	gm_stream_begin(&stream, out);
	gm_stream_job(&stream, job, answer);
	gm_stream_put(&stream, "equal", json_boolean(compare->equal));
	gm_stream_put(&stream, "median", json_integer((json_int_t)compare->median));
	gm_stream_put(&stream, "odd", gm_compared_odd_json(compare));
	gm_stream_open(&stream, "groups", '[');
	for (size_t i = 0; i < answer->groups.items.count; i++)
		gm_stream_put(
		        &stream, NULL, group_json(job, answer, &answer->groups.items.items[i]));
	gm_stream_close(&stream, ']');
	gm_stream_open(&stream, "stand_out", '[');
	for (size_t i = 0; i < answer->groups.odd.count; i++)
		gm_stream_put(&stream, NULL, odd_json(job, answer, &answer->groups.odd.items[i]));
	gm_stream_close(&stream, ']');
	gm_stream_open(&stream, "files", '[');
	for (size_t i = 0; i < compare->count; i++)
		gm_stream_put(&stream, NULL, gm_compared_file_json(&compare->files[i]));
	gm_stream_close(&stream, ']');
	stream_tables(&stream, compare);
	return gm_stream_end(&stream);
}
