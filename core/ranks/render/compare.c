#include "ranks/render/compare.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "ranks/render/job.h"
#include "render/diff.h"
#include "render/group_text.h"
#include "render/json.h"
#include "render/say.h"

enum { ROWS_MOST = 20 };

/* A figure of each recording. */
struct figures {
	const uint64_t *values;
	uint64_t *sorted; /* room for as many */
	size_t count;
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
	for (size_t i = 0; i < answer->compare.count; i++) {
		if (values[i] == value && !count++)
			found = i;
	}
	if (count == answer->compare.count)
		gm_table_cell(table, "all");
	else if (count > 1)
		gm_table_cell(table, "%zu ranks", count);
	else {
		_cleanup_free_ char *name = gm_job_name(job, answer->files[found]);
		gm_table_cell(table, "%s", name ? name : "");
	}
}

static void put_figures(struct gm_table *table, const struct gm_job *job,
        const struct gm_ranks_answer *answer, const struct figures *figures)
{
	memcpy(figures->sorted, figures->values, figures->count * sizeof(*figures->sorted));
	qsort(figures->sorted, figures->count, sizeof(*figures->sorted), compare_numbers);
	uint64_t least = figures->sorted[0], most = figures->sorted[figures->count - 1];
	put_number(table, figures, least);
	put_number(table, figures, figures->sorted[(figures->count - 1) / 2]);
	put_number(table, figures, most);
	put_where(table, job, answer, figures->values, least);
	put_where(table, job, answer, figures->values, most);
}

enum figure { EVENTS, STEPS, ALLOCATED, RESERVED, FIGURES };

static uint64_t figure_of(const struct gm_compared_file *file, enum figure figure)
{
	switch (figure) {
	case EVENTS:
		return file->events;
	case STEPS:
		return file->step_count;
	case ALLOCATED:
		return file->allocated;
	default:
		return file->reserved;
	}
}

static struct gm_error *put_sums(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {
	        "least", "median", "most", "least in", "most in", "figure", NULL};
	static const char *const names[FIGURES] = {
	        "events", "steps", "peak allocated", "peak reserved"};
	size_t count = answer->compare.count;
	_cleanup_free_ uint64_t *values = calloc(2 * count + 1, sizeof(*values));
	if (!values)
		return &gm_error_no_memory;
	if (!count)
		return NULL;
	fputs("\n", out);
	struct gm_table *table = gm_table_create(heads, "rrrlll");
	for (unsigned figure = 0; figure < FIGURES; figure++) {
		for (size_t i = 0; i < count; i++)
			values[i] = figure_of(&answer->compare.files[i], figure);
		const struct figures figures = {
		        values, values + count, count, figure == ALLOCATED || figure == RESERVED};
		put_figures(table, job, answer, &figures);
		gm_table_cell(table, "%s", names[figure]);
	}
	return gm_table_finish(table, style, out) ? NULL : &gm_error_no_memory;
}

static int compare_most(const void *a, const void *b)
{
	const struct gm_compared_row *left = *(const struct gm_compared_row *const *)a;
	const struct gm_compared_row *right = *(const struct gm_compared_row *const *)b;
	if (left->most != right->most)
		return left->most > right->most ? -1 : 1;
	return gm_group_compare(left->kind, left->key, right->kind, right->key);
}

static struct gm_error *put_rows(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_compared_table *groups, const struct gm_style *style, FILE *out)
{
	const char *const heads[] = {"least", "median", "most", "least in", "most in",
	        groups->by == GM_BY_CATEGORY ? "category" : "line", NULL};
	size_t count = groups->count, n = answer->compare.count;
	_cleanup_free_ const struct gm_compared_row **rows =
	        calloc(count + 1, sizeof(const struct gm_compared_row *));
	_cleanup_free_ uint64_t *sorted = calloc(n + 1, sizeof(*sorted));
	if (!rows || !sorted)
		return &gm_error_no_memory;
	if (!count)
		return NULL;
	for (size_t i = 0; i < count; i++)
		rows[i] = &groups->rows[i];
	qsort(rows, count, sizeof(const struct gm_compared_row *), compare_most);
	fputs("\n", out);
	struct gm_table *table = gm_table_create(heads, "rrrlll");
	size_t shown = count <= ROWS_MOST + 1 ? count : ROWS_MOST;
	for (size_t i = 0; i < shown; i++) {
		const struct figures figures = {rows[i]->bytes, sorted, n, true};
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

struct gm_error *gm_render_ranks_info(const struct gm_job *job,
        const struct gm_ranks_answer *answer, const struct gm_style *style, FILE *out)
{
	gm_render_job_head(job, out);
	return put_sums(job, answer, style, out);
}

struct gm_error *gm_render_ranks_peak(const struct gm_job *job,
        const struct gm_ranks_answer *answer, const struct gm_style *style, FILE *out)
{
	gm_try(gm_render_ranks_info(job, answer, style, out));
	for (size_t i = 0; i < answer->compare.table_count; i++)
		gm_try(put_rows(job, answer, &answer->compare.tables[i], style, out));
	return NULL;
}

struct gm_error *gm_render_ranks_json(
        const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out)
{
	json_t *value = gm_compare_json(&answer->compare);
	json_object_set_new(value, "job", gm_job_json(job));
	return gm_json_write(value, true, out);
}
