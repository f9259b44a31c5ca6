#include "ask/diff.h"

#include <stdlib.h>
#include <string.h>

#include "ask/recording/driven.h"
#include "ask/info.h"
#include "ask/steps.h"
#include "ask/blocks.h"
#include "ask/context.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/median.h"
#include "base/search.h"

int gm_compared_by_most(const void *a, const void *b)
{
	const struct gm_compared_row *left = *(const struct gm_compared_row *const *)a;
	const struct gm_compared_row *right = *(const struct gm_compared_row *const *)b;
	if (left->most != right->most)
		return left->most > right->most ? -1 : 1;
	return gm_group_compare(left->kind, left->key, right->kind, right->key);
}

struct gm_compared_cell gm_compared_at(const struct gm_compared_row *row, size_t file)
{
	size_t at = gm_partition_point(row->count, i, row->cells[i].file < file);
	return at < row->count && row->cells[at].file == file
	               ? row->cells[at]
	               : (struct gm_compared_cell){.file = (uint32_t)file};
}

void gm_compared_bytes(const struct gm_compared_row *row, size_t files, uint64_t *ret_bytes)
{
	memset(ret_bytes, 0, files * sizeof(*ret_bytes));
	for (size_t i = 0; i < row->count; i++)
		ret_bytes[row->cells[i].file] = row->cells[i].bytes;
}

bool gm_compared_differs(const struct gm_compared_row *row, size_t files)
{
	const struct gm_compared_cell nothing = {0};
	const struct gm_compared_cell *first = row->count == files ? &row->cells[0] : &nothing;
	for (size_t i = 0; i < row->count; i++)
		if (row->cells[i].bytes != first->bytes || row->cells[i].blocks != first->blocks)
			return true;
	return false;
}

void gm_compare_deinit(struct gm_compare *compare)
{
	for (size_t i = 0; i < compare->table_count; i++) {
		struct gm_compared_table *table = &compare->tables[i];
		for (size_t j = 0; j < table->count; j++) {
			free(table->rows[j].key);
			free(table->rows[j].cells);
		}
		free(table->rows);
	}
	for (size_t i = 0; compare->files && i < compare->count; i++)
		free(compare->files[i].steps);
	free(compare->files);
	*compare = (struct gm_compare){0};
}

/* --- reading one file ------------------------------------------------------------------------- */

void gm_compared_one_deinit(struct gm_compared_one *one)
{
	free(one->file.steps);
	for (size_t i = 0; i < GM_COMPARED_TABLES_MAX; i++)
		gm_array_deinit(&one->shares[i]);
	*one = (struct gm_compared_one){0};
}

static struct gm_error *take_steps(struct gm_context *context, struct gm_compared_file *file,
        uint32_t wanted, uint32_t *ret_event)
{
	struct gm_steps_answer answer;
	gm_try(gm_ask_steps(context, &answer));
	uint32_t count = 0;
	for (size_t i = 0; i < answer.step_count; i++)
		if (answer.steps[i].step > count)
			count = answer.steps[i].step;
	file->steps = calloc((size_t)count + 1, sizeof(*file->steps));
	file->step_count = file->steps ? count : 0;
	*ret_event = GM_NO_EVENT;
	for (size_t i = 0; file->steps && i < answer.step_count; i++) {
		const struct gm_stretch *step = &answer.steps[i];
		if (!step->step)
			continue;
		file->steps[step->step - 1] = (struct gm_compared_step){step->peak, step->kept};
		if (step->step == wanted)
			*ret_event = step->peak_event;
	}
	gm_steps_answer_deinit(&answer);
	if (!file->steps)
		return &gm_error_no_memory;
	file->steps_all = count;
	file->steps_value = gm_hash_bytes(file->steps, count * sizeof(*file->steps), 0);
	if (wanted && *ret_event == GM_NO_EVENT)
		return gm_error_create(
		        GM_USAGE, "%s: has no step %u: it has %u", file->path, wanted, count);
	return NULL;
}

/* The program's own line at or above a site, as `peak` shows it when it does not descend; 0: it is
 * the key itself. False: out of memory. */
static bool own_line(
        struct gm_strings *strings, const struct gm_shown_site *site, uint32_t *ret_line)
{
	const struct gm_frame_place *place = site->caller.code ? &site->caller : &site->place;
	const char *package;
	size_t length;
	_cleanup_free_ char *text = NULL;
	*ret_line = 0;
	if (!place->code || gm_code_owner(place->file, &package, &length) != GM_CODE_OWN)
		return true;
	if (asprintf(&text, "%s:%u in %s", place->file, place->line, place->function) < 0) {
		text = NULL;
		return false;
	}
	*ret_line = gm_strings_add(strings, text);
	return *ret_line != 0;
}

static struct gm_error *take_groups(struct gm_context *context, enum gm_group_by by, uint32_t event,
        struct gm_strings *strings, struct gm_compared_one *one, size_t table)
{
	const struct gm_blocks_options options = {
	        .by = by,
	        .at_peak = event == GM_NO_EVENT,
	        .has_event = event != GM_NO_EVENT,
	        .event = event,
	        .descend_everywhere = true,
	};
	struct gm_compared_file *file = &one->file;
	struct gm_blocks blocks;
	gm_try(gm_ask_blocks(context, &options, &blocks));
	bool fits = true;
	for (size_t i = 0; fits && i < blocks.group_count; i++) {
		const struct gm_group *group = &blocks.groups[i];
		struct gm_compared_share share = {.kind = group->kind,
		        .key = gm_strings_add(strings, group->key),
		        .bytes = group->bytes,
		        .blocks = group->blocks};
		fits = share.key && (!group->site || own_line(strings, group->site, &share.line)) &&
		       gm_array_push(&one->shares[table], share);
	}
	file->allocated = blocks.allocated;
	file->event = blocks.event;
	if (blocks.event != GM_NO_EVENT && blocks.device != SIZE_MAX) {
		file->step = gm_model_step(blocks.model, blocks.event);
		file->phase = gm_model_phase(blocks.model, blocks.event);
	}
	gm_blocks_deinit(&blocks);
	return fits ? NULL : &gm_error_no_memory;
}

/* In this order. */
static size_t tables_of(const struct gm_compare_options *options, enum gm_group_by *ret_by)
{
	ret_by[0] = options->by == GM_BY_NONE ? GM_BY_CATEGORY : options->by;
	ret_by[1] = GM_BY_LINE;
	return options->by == GM_BY_NONE ? 2 : 1;
}

static void take_devices(const struct gm_model *model, size_t main, struct gm_compared_file *file)
{
	const struct gm_model_device *device = gm_model_device(model, main);
	file->has_device = true;
	file->device_type = device->type;
	file->device = device->index;
	file->reserved = device->peak.reserved;
	for (size_t i = 0; i < gm_model_device_count(model); i++) {
		device = gm_model_device(model, i);
		if (i == main || !gm_device_is_accelerator(device->type) || !device->peak.allocated)
			continue;
		if (file->others++ && device->peak.allocated <= file->other_peak)
			continue;
		file->other_type = device->type;
		file->other = device->index;
		file->other_peak = device->peak.allocated;
	}
}

static struct gm_error *read_file(struct gm_context *context,
        const struct gm_compare_options *options, struct gm_strings *strings,
        struct gm_compared_one *one)
{
	struct gm_compared_file *file = &one->file;
	struct gm_model *model;
	enum gm_group_by by[GM_COMPARED_TABLES_MAX];
	size_t tables = tables_of(options, by);
	gm_try(gm_context_model(context, &model));
	size_t main = gm_model_main_device(model);
	uint32_t event;
	file->events = gm_log_event_count(gm_model_log(model));
	struct gm_info info;
	gm_try(gm_ask_info(context, &info));
	file->complete = info.complete;
	gm_info_deinit(&info);
	file->event = GM_NO_EVENT;
	gm_try(take_steps(context, file, options->step, &event));
	if (main != SIZE_MAX)
		take_devices(model, main, file);
	for (size_t i = 0; i < tables; i++)
		gm_try(take_groups(context, by[i], event, strings, one, i));
	return NULL;
}

struct gm_error *gm_compare_read(struct gm_context *context,
        const struct gm_compare_options *options, struct gm_strings *strings,
        struct gm_compared_one *ret_one)
{
	struct gm_compared_one one = {.file.path = context->log_path};
	struct gm_error *error = read_file(context, options, strings, &one);
	if (error)
		gm_compared_one_deinit(&one);
	else
		*ret_one = one;
	return error;
}

/* --- side by side ----------------------------------------------------------------------------- */

/* A share with its file, and the strings that its numbers mean. */
struct share {
	struct gm_compared_share share;
	uint32_t file;
	const char *key, *line; /* line NULL: the key is the line */
};

static int compare_shares(const void *a, const void *b)
{
	const struct share *left = a, *right = b;
	int order = gm_group_compare(left->share.kind, left->key, right->share.kind, right->key);
	return order ? order : (left->file > right->file) - (left->file < right->file);
}

static int compare_rows(const void *a, const void *b)
{
	const struct gm_compared_row *left = a, *right = b;
	if (gm_compared_spread(left) != gm_compared_spread(right))
		return gm_compared_spread(left) > gm_compared_spread(right) ? -1 : 1;
	if (left->most != right->most)
		return left->most > right->most ? -1 : 1;
	return gm_group_compare(left->kind, left->key, right->kind, right->key);
}

static int compare_lines(const void *a, const void *b)
{
	const struct share *left = a, *right = b;
	if (!left->line || !right->line)
		return (left->line != NULL) - (right->line != NULL);
	int order = strcmp(left->line, right->line);
	return order ? order : (left->file > right->file) - (left->file < right->file);
}

/* Does a line hold enough in one of the files to be descended from? Decided for all files alike, so
 * that their rows match. */
static bool is_descended(const struct gm_compare *compare, const struct share *shares, size_t n)
{
	for (size_t i = 0, next; i < n; i = next) {
		uint64_t bytes = 0;
		for (next = i; next < n && shares[next].file == shares[i].file; next++)
			bytes += shares[next].share.bytes;
		if (bytes >= compare->files[shares[i].file].allocated / GM_DRIVEN_PART)
			return true;
	}
	return false;
}

static void choose_keys(const struct gm_compare *compare, struct share *shares, size_t n)
{
	if (n)
		qsort(shares, n, sizeof(*shares), compare_lines);
	for (size_t i = 0, next; i < n; i = next) {
		for (next = i + 1; next < n && shares[i].line && shares[next].line &&
		                   strcmp(shares[i].line, shares[next].line) == 0;)
			next++;
		if (!shares[i].line || is_descended(compare, shares + i, next - i))
			continue;
		for (size_t j = i; j < next; j++)
			shares[j].key = shares[j].line;
	}
}

/* Least, median and most of a row; the files without a cell have 0. */
static bool sum_up(struct gm_compared_row *row, size_t files)
{
	_cleanup_free_ uint64_t *sorted = calloc(row->count, sizeof(*sorted));
	if (!sorted)
		return false;
	for (size_t i = 0; i < row->count; i++)
		sorted[i] = row->cells[i].bytes;
	row->median = gm_median(sorted, row->count, files);
	row->least = row->count < files ? 0 : sorted[0];
	row->most = sorted[row->count - 1];
	return true;
}

/* The shares are in the order of their files; there is one at least. */
static struct gm_error *add_row(struct gm_compare *compare, struct gm_compared_table *table,
        const struct share *shares, size_t n)
{
	struct gm_compared_row *row = &table->rows[table->count++];
	size_t files = 1;
	for (size_t i = 1; i < n; i++)
		files += shares[i].file != shares[i - 1].file;
	*row = (struct gm_compared_row){
	        .kind = shares[0].share.kind,
	        .key = strdup(shares[0].key),
	        .cells = calloc(files, sizeof(*row->cells)),
	};
	if (!row->key || !row->cells)
		return &gm_error_no_memory;
	for (size_t i = 0; i < n; i++) {
		row->count += !i || shares[i].file != shares[i - 1].file;
		struct gm_compared_cell *cell = &row->cells[row->count - 1];
		cell->file = shares[i].file;
		cell->bytes += shares[i].share.bytes;
		cell->blocks += shares[i].share.blocks;
	}
	if (!sum_up(row, compare->count))
		return &gm_error_no_memory;
	compare->equal &= !gm_compared_differs(row, compare->count);
	return NULL;
}

static size_t same_key(const struct share *shares, size_t from, size_t n)
{
	size_t next = from + 1;
	while (next < n && shares[next].share.kind == shares[from].share.kind &&
	        strcmp(shares[from].key, shares[next].key) == 0)
		next++;
	return next;
}

static struct gm_error *make_table(
        struct gm_compare *compare, struct gm_compared_table *table, struct share *shares, size_t n)
{
	size_t rows = 0;
	choose_keys(compare, shares, n);
	if (n)
		qsort(shares, n, sizeof(*shares), compare_shares);
	for (size_t i = 0; i < n; i = same_key(shares, i, n))
		rows++;
	table->rows = calloc(rows + 1, sizeof(*table->rows));
	if (!table->rows)
		return &gm_error_no_memory;
	for (size_t i = 0, next; i < n; i = next) {
		next = same_key(shares, i, n);
		gm_try(add_row(compare, table, shares + i, next - i));
	}
	if (table->count)
		qsort(table->rows, table->count, sizeof(*table->rows), compare_rows);
	return NULL;
}

static bool same_steps(const struct gm_compared_file *a, const struct gm_compared_file *b)
{
	if (a->step_count != b->step_count || a->steps_all != b->steps_all ||
	        a->steps_value != b->steps_value)
		return false;
	for (size_t i = 0; i < a->step_count; i++)
		if (a->steps[i].peak != b->steps[i].peak || a->steps[i].kept != b->steps[i].kept)
			return false;
	return true;
}

static struct gm_error *find_odd(struct gm_compare *compare)
{
	_cleanup_free_ uint64_t *values = calloc(compare->count, 2 * sizeof(*values));
	uint64_t farthest = 0;
	if (!values)
		return &gm_error_no_memory;
	for (size_t i = 0; i < compare->count; i++) {
		values[i] = compare->files[i].allocated;
		compare->equal &= values[i] == values[0] &&
		                  same_steps(&compare->files[0], &compare->files[i]);
	}
	uint64_t *sorted = values + compare->count;
	memcpy(sorted, values, compare->count * sizeof(*values));
	compare->median = gm_median(sorted, compare->count, compare->count);
	compare->odd = SIZE_MAX;
	for (size_t i = 0; compare->count > 2 && i < compare->count; i++) {
		uint64_t gap = values[i] > compare->median ? values[i] - compare->median
		                                           : compare->median - values[i];
		if (gap > farthest && gap >= 1 << 20 && gap >= compare->median / 100) {
			farthest = gap;
			compare->odd = i;
		}
	}
	return NULL;
}

/* The shares of one table of all files. */
static struct gm_error *join_table(struct gm_compare *compare, const struct gm_compared_one *ones,
        const struct gm_strings *strings, size_t table)
{
	size_t count = 0;
	for (size_t i = 0; i < compare->count; i++)
		count += ones[i].shares[table].count;
	_cleanup_free_ struct share *shares = calloc(count + 1, sizeof(*shares));
	if (!shares)
		return &gm_error_no_memory;
	count = 0;
	for (size_t i = 0; i < compare->count; i++) {
		for (size_t j = 0; j < ones[i].shares[table].count; j++) {
			const struct gm_compared_share *one = &ones[i].shares[table].items[j];
			shares[count++] =
			        (struct share){*one, (uint32_t)i, gm_strings_at(strings, one->key),
			                one->line ? gm_strings_at(strings, one->line) : NULL};
		}
	}
	return make_table(compare, &compare->tables[table], shares, count);
}

static struct gm_error *join(
        struct gm_compared_one *ones, const struct gm_strings *strings, struct gm_compare *compare)
{
	for (size_t i = 0; i < compare->count; i++) {
		compare->files[i] = ones[i].file;
		ones[i].file.steps = NULL;
	}
	for (size_t i = 0; i < compare->table_count; i++)
		gm_try(join_table(compare, ones, strings, i));
	return find_odd(compare);
}

struct gm_error *gm_compare_join(struct gm_compared_one *ones, size_t count,
        const struct gm_compare_options *options, const struct gm_strings *strings,
        struct gm_compare *ret_compare)
{
	struct gm_compare compare = {.count = count, .equal = true};
	enum gm_group_by by[GM_COMPARED_TABLES_MAX];
	compare.files = calloc(count + 1, sizeof(*compare.files));
	if (!compare.files)
		return &gm_error_no_memory;
	compare.table_count = tables_of(options, by);
	for (size_t i = 0; i < compare.table_count; i++)
		compare.tables[i].by = by[i];
	struct gm_error *error = join(ones, strings, &compare);
	if (error)
		gm_compare_deinit(&compare);
	else
		*ret_compare = compare;
	return error;
}

static struct gm_error *read_all(const struct gm_context *asking, const char *const *paths,
        size_t count, const struct gm_compare_options *options, struct gm_strings *strings,
        struct gm_compared_one *ones)
{
	struct gm_error *error = NULL;
	for (size_t i = 0; i < count && !error; i++) {
		struct gm_context context;
		gm_context_init(&context);
		context.shell = true;
		context.progress = asking->progress;
		error = gm_context_set_log(&context, paths[i]);
		if (!error)
			error = gm_compare_read(&context, options, strings, &ones[i]);
		ones[i].file.path = paths[i];
		gm_context_deinit(&context);
	}
	return error;
}

struct gm_error *gm_ask_compare(const struct gm_context *context, const char *const *paths,
        size_t count, const struct gm_compare_options *options, struct gm_compare *ret_compare)
{
	struct gm_strings strings = {0};
	struct gm_compared_one *ones = calloc(count + 1, sizeof(*ones));
	if (!ones)
		return &gm_error_no_memory;
	struct gm_error *error = read_all(context, paths, count, options, &strings, ones);
	if (!error)
		error = gm_compare_join(ones, count, options, &strings, ret_compare);
	for (size_t i = 0; i < count; i++)
		gm_compared_one_deinit(&ones[i]);
	free(ones);
	gm_strings_deinit(&strings);
	return error;
}
