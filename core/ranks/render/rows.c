#include "ranks/render/rows.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "ranks/render/file_json.h"
#include "ranks/render/job.h"
#include "ranks/render/row_name.h"
#include "ranks/sections/leaks.h"
#include "ranks/sections/oom.h"
#include "ranks/sections/steps.h"
#include "render/json.h"

enum { ROWS_MOST = 20, SENTENCES_MOST = 10 };

/* --- tables ----------------------------------------------------------------------------------- */

static void put_value(struct gm_table *table, const struct gm_rank_row *row, uint64_t value)
{
	char size[GM_SIZE_TEXT];
	if (row->more == GM_FIGURE_CALLS)
		gm_table_cell(table, "%" PRIu64, value);
	else
		gm_table_cell(table, "%s", gm_text_size(value, size));
}

static void put_where(struct gm_table *table, const struct gm_job *job,
        const struct gm_ranks_answer *answer, size_t count, size_t file)
{
	_cleanup_free_ char *name = gm_job_name(job, answer, file);
	if (count == answer->count)
		gm_table_cell(table, "%s", "all");
	else if (count > 1)
		gm_table_cell(table, "%zu ranks", count);
	else
		gm_table_cell(table, "%s", name ? name : "");
}

static void put_row(struct gm_table *table, const struct gm_job *job,
        const struct gm_ranks_answer *answer, const struct gm_rank_row *row, const char *name)
{
	gm_table_cell(table, "%zu", row->cells.count);
	put_value(table, row, row->least);
	put_value(table, row, row->median);
	put_value(table, row, row->most);
	put_where(table, job, answer, row->least_count, row->least_in);
	put_where(table, job, answer, row->most_count, row->most_in);
	gm_table_cell(table, "%s", gm_text_path(name));
}

static bool are_equal(const struct gm_rank_row *a, const struct gm_rank_row *b)
{
	return a->cells.count == b->cells.count && a->least == b->least && a->median == b->median &&
	       a->most == b->most && a->least_in == b->least_in && a->most_in == b->most_in;
}

/* Rows of one figure. Steps that follow one another and are equal are one row; of many the first,
 * the last and the highest are shown. */
static struct gm_error *put_table(const struct gm_job *job, const struct gm_ranks_answer *answer,
        enum gm_rank_figure figure, const char *what, const struct gm_style *style, FILE *out)
{
	const char *const heads[] = {
	        "ranks", "least", "median", "most", "least in", "most in", what};
	bool steps = answer->section == GM_SECTION_STEPS;
	const struct gm_rank_row *highest = NULL;
	size_t count = 0, shown = 0, at = 0;
	for (size_t i = 0; i < answer->rows.rows.count; i++) {
		const struct gm_rank_row *row = &answer->rows.rows.items[i];
		if (row->more != figure)
			continue;
		count++;
		if (!highest || row->most > highest->most)
			highest = row;
	}
	if (!count)
		return NULL;
	fputs("\n", out);
	struct gm_table *table = gm_table_create(heads, "rrrrlll");
	for (size_t i = 0; i < answer->rows.rows.count; i++) {
		const struct gm_rank_row *row = &answer->rows.rows.items[i];
		const struct gm_rank_row *last = row;
		if (row->more != figure)
			continue;
		size_t first = at++;
		/* rows of the figures of a step alternate */
		for (size_t j = i + 1; steps && j < answer->rows.rows.count; j++) {
			const struct gm_rank_row *next = &answer->rows.rows.items[j];
			if (next->more != figure)
				continue;
			if (next->key != last->key + 1 || !are_equal(row, next))
				break;
			last = next;
			i = j;
			at++;
		}
		bool edge = steps ? first < ROWS_MOST / 2 || at + ROWS_MOST / 2 > count
		                  : first < ROWS_MOST;
		if (count > ROWS_MOST + 1 && !edge && row != highest)
			continue;
		shown += at - first;
		_cleanup_free_ char *name = gm_row_name(job, answer->section, row);
		_cleanup_free_ char *to = gm_row_name(job, answer->section, last);
		_cleanup_free_ char *range =
		        last != row && name && to ? gm_put_string("%s-%s", name, to) : NULL;
		put_row(table, job, answer, row, range ? range : name ? name : "");
	}
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	if (shown < count)
		gm_put(out, "... and %zu more: --json has all\n", count - shown);
	return NULL;
}

/* --- what is said of single ranks ------------------------------------------------------------- */

/* Decodes the section of one file after the other. */
struct each {
	const struct gm_job *job;
	const struct gm_ranks_answer *answer;
	FILE *out;
	size_t said, left_out;
};

static struct gm_error *for_each(
        struct each *each, void (*say)(struct each *each, size_t file, const void *section))
{
	enum gm_section number = each->answer->section;
	_cleanup_free_ void *section = calloc(1, gm_sections[number]->size);
	if (!section)
		return &gm_error_no_memory;
	for (size_t i = 0; i < each->answer->count; i++) {
		const struct gm_rank_summary *file =
		        &each->job->files.items[each->answer->files[i]];
		bool no_memory;
		if (gm_summary_section(file, number, section, &no_memory)) {
			say(each, i, section);
			gm_sections[number]->deinit(section);
		} else if (no_memory) {
			return &gm_error_no_memory;
		}
	}
	return NULL;
}

/* Is this one to be shown? */
static bool has_room(struct each *each)
{
	if (each->said == SENTENCES_MOST) {
		each->left_out++;
		return false;
	}
	if (!each->said++)
		fputs("\n", each->out);
	return true;
}

static void say_growth(struct each *each, size_t file, const void *section)
{
	const struct gm_steps_section *steps = section;
	char size[GM_SIZE_TEXT];
	if (!steps->growth || !has_room(each))
		return;
	_cleanup_free_ char *name = gm_job_name(each->job, each->answer, file);
	gm_put(each->out, "%s: each step from 3 on ends with %s more than the one before: %s.\n",
	        name ? name : "", gm_text_size(steps->growth, size),
	        steps->leaks ? "`gpumem-ranks leaks` shows the lines"
	        : steps->few ? "for `gpumem leaks` these are too few steps"
	                     : "`gpumem leaks` finds no line whose blocks accumulate");
}

static void say_oom(struct each *each, size_t file, const void *section)
{
	const struct gm_oom_section *oom = section;
	char requested[GM_SIZE_TEXT], allocated[GM_SIZE_TEXT], size[GM_SIZE_TEXT];
	if (!oom->has || !has_room(each))
		return;
	_cleanup_free_ char *name = gm_job_name(each->job, each->answer, file);
	gm_put(each->out, "%s ran out of memory", name ? name : "");
	if (oom->requested != GM_NOT_KNOWN)
		gm_put(each->out, ": %s did not fit", gm_text_size(oom->requested, requested));
	if (oom->site)
		gm_put(each->out, ", at %s", gm_text_path(gm_job_string(each->job, oom->site)));
	if (oom->event != GM_NO_EVENT)
		gm_put(each->out, " (event %u)", oom->event);
	if (oom->allocated != GM_NOT_KNOWN)
		gm_put(each->out, "; %s was allocated", gm_text_size(oom->allocated, allocated));
	if (oom->verdict)
		gm_put(each->out, "; verdict: %s", gm_oom_verdict_name(oom->verdict));
	if (oom->top.count && oom->top.items[0].line)
		gm_put(each->out, "; most of it, %s, from %s",
		        gm_text_size(oom->top.items[0].bytes, size),
		        gm_text_path(gm_job_string(each->job, oom->top.items[0].line)));
	fputs(".\n", each->out);
}

static struct gm_error *say_each(const struct gm_job *job, const struct gm_ranks_answer *answer,
        void (*say)(struct each *each, size_t file, const void *section), FILE *out,
        size_t *ret_said)
{
	struct each each = {job, answer, out, 0, 0};
	gm_try(for_each(&each, say));
	if (each.left_out)
		gm_put(out, "... and %zu more ranks: --json has all\n", each.left_out);
	*ret_said = each.said;
	return NULL;
}

/* --- the plot --------------------------------------------------------------------------------- */

/* Each column: as many eighths as the median is of the highest, and above it how far the most goes.
 */
static void put_plot(const struct gm_ranks_answer *answer, FILE *out)
{
	static const char *const bars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const names[] = {"most", "median", "least"};
	const struct gm_rank_table *columns = &answer->columns;
	uint64_t highest = 1;
	char size[GM_SIZE_TEXT];
	for (size_t i = 0; i < columns->rows.count; i++)
		if (columns->rows.items[i].most > highest)
			highest = columns->rows.items[i].most;
	if (!columns->rows.count)
		return;
	fputs("\n", out);
	for (unsigned line = 0; line < 3; line++) {
		gm_put(out, "%-6s ", names[line]);
		for (size_t i = 0; i < columns->rows.count; i++) {
			const struct gm_rank_row *row = &columns->rows.items[i];
			uint64_t value = line == 0   ? row->most
			                 : line == 1 ? row->median
			                             : row->least;
			gm_put(out, "%s",
			        bars[(size_t)((double)value / (double)highest * 8 + 0.5)]);
		}
		fputs("\n", out);
	}
	gm_put(out, "allocated, over equal parts of each recording's events; a full block is %s\n",
	        gm_text_size(highest, size));
}

/* --- the answers ------------------------------------------------------------------------------ */

/* That there is nothing is said of the recordings that tell, not of those without an answer. */
static void put_none(
        const struct gm_job *job, const struct gm_ranks_answer *answer, const char *what, FILE *out)
{
	size_t told = answer->count - answer->without;
	if (!told)
		return;
	gm_put(out, "%s", what);
	if (told < job->files.count)
		gm_put(out, ", in the %zu of %zu recordings that have an answer", told,
		        job->files.count);
	fputs(".\n", out);
}

static struct gm_error *put_no_rows(
        const struct gm_job *job, const struct gm_ranks_answer *answer, const char *what, FILE *out)
{
	if (!answer->rows.rows.count)
		put_none(job, answer, what, out);
	return NULL;
}

/* Of more steps than a summary holds, which are in the table. */
static struct gm_error *put_cut(
        const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out)
{
	uint32_t most = 0;
	for (size_t i = 0; i < answer->count; i++) {
		const struct gm_rank_summary *file = &job->files.items[answer->files[i]];
		struct gm_steps_section steps;
		bool no_memory;
		if (!file->sections[GM_SECTION_STEPS].cut)
			continue;
		if (gm_summary_section(file, GM_SECTION_STEPS, &steps, &no_memory)) {
			most = steps.steps > most ? steps.steps : most;
			gm_section_steps.deinit(&steps);
		} else if (no_memory) {
			return &gm_error_no_memory;
		}
	}
	if (most)
		gm_put(out,
		        "\nOf the first %d of %" PRIu32
		        " steps; after these only the highest of each rank and the last %d.\n",
		        GM_STEPS_FIRST, most, GM_STEPS_LAST);
	return NULL;
}

static struct gm_error *put_answer(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_style *style, FILE *out)
{
	size_t said;
	switch (answer->section) {
	case GM_SECTION_STEPS:
		gm_try(put_cut(job, answer, out));
		gm_try(put_table(job, answer, GM_FIGURE_PEAK, "peak of step", style, out));
		gm_try(say_each(job, answer, say_growth, out, &said));
		return put_no_rows(job, answer,
		        "No training loop was found: no stack shows a loop that iterates", out);
	case GM_SECTION_PHASES:
		gm_try(put_table(job, answer, GM_FIGURE_PEAK, "peak in", style, out));
		return put_table(job, answer, GM_FIGURE_BYTES, "allocated in", style, out);
	case GM_SECTION_LEAKS:
		gm_try(put_table(job, answer, GM_FIGURE_BYTES, "grows: allocated at", style, out));
		gm_try(put_table(
		        job, answer, GM_FIGURE_BOUND, "ends by itself: allocated at", style, out));
		return put_no_rows(
		        job, answer, "No leak: no line's blocks accumulate in any rank", out);
	case GM_SECTION_OOM:
		gm_try(say_each(job, answer, say_oom, out, &said));
		if (!said)
			put_none(job, answer, "No rank ran out of memory", out);
		return NULL;
	case GM_SECTION_TIMELINE:
		put_plot(answer, out);
		return put_table(job, answer, GM_FIGURE_BYTES, "shape", style, out);
	default:
		gm_try(put_table(job, answer, GM_FIGURE_CALLS, "calls", style, out));
		gm_try(put_table(job, answer, GM_FIGURE_MOVED, "moved by", style, out));
		return put_no_rows(job, answer, "No calls of NCCL are recorded in any rank", out);
	}
}

struct gm_error *gm_render_ranks_rows(const struct gm_job *job,
        const struct gm_ranks_answer *answer, const struct gm_style *style, FILE *out)
{
	gm_render_job_head(job, answer, out);
	return put_answer(job, answer, style, out);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *row_json(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_rank_row *row)
{
	json_t *value = json_object();
	gm_set_row_name(value, job, answer->section, row);
	json_object_set_new(value, "figure", json_string(gm_row_figure(row)));
	json_object_set_new(value, "files", json_integer((json_int_t)row->cells.count));
	json_object_set_new(value, "least", json_integer((json_int_t)row->least));
	json_object_set_new(value, "median", json_integer((json_int_t)row->median));
	json_object_set_new(value, "most", json_integer((json_int_t)row->most));
	json_object_set_new(value, "least_in", gm_job_rank_json(job, answer, row->least_in));
	json_object_set_new(value, "most_in", gm_job_rank_json(job, answer, row->most_in));
	return value;
}

static json_t *column_json(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_rank_row *row)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:o, s:o}", "column", (json_int_t)row->key, "least",
	        (json_int_t)row->least, "median", (json_int_t)row->median, "most",
	        (json_int_t)row->most, "least_in", gm_job_rank_json(job, answer, row->least_in),
	        "most_in", gm_job_rank_json(job, answer, row->most_in));
}

static struct gm_error *stream_files(struct gm_json_stream *stream, const struct gm_job *job,
        const struct gm_ranks_answer *answer)
{
	_cleanup_free_ void *section = calloc(1, gm_sections[answer->section]->size);
	if (!section)
		return &gm_error_no_memory;
	gm_stream_open(stream, "files", '[');
	for (size_t i = 0; i < answer->count; i++) {
		const struct gm_rank_summary *file = &job->files.items[answer->files[i]];
		bool no_memory;
		if (gm_summary_section(file, answer->section, section, &no_memory)) {
			gm_stream_put(stream, NULL, gm_ranks_file_json(job, answer, i, section));
			gm_sections[answer->section]->deinit(section);
		} else if (no_memory) {
			return &gm_error_no_memory;
		}
	}
	gm_stream_close(stream, ']');
	return NULL;
}

struct gm_error *gm_render_ranks_rows_json(
        const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out)
{
	struct gm_json_stream stream;
	gm_stream_begin(&stream, out);
	gm_stream_job(&stream, job, answer);
	gm_stream_open(&stream, "rows", '[');
	for (size_t i = 0; i < answer->rows.rows.count; i++)
		gm_stream_put(&stream, NULL, row_json(job, answer, &answer->rows.rows.items[i]));
	gm_stream_close(&stream, ']');
	if (answer->section == GM_SECTION_TIMELINE) {
		gm_stream_open(&stream, "columns", '[');
		for (size_t i = 0; i < answer->columns.rows.count; i++)
			gm_stream_put(&stream, NULL,
			        column_json(job, answer, &answer->columns.rows.items[i]));
		gm_stream_close(&stream, ']');
	}
	struct gm_error *error = stream_files(&stream, job, answer);
	struct gm_error *ended = gm_stream_end(&stream);
	if (!error)
		return ended;
	gm_error_destroy(ended);
	return error;
}
