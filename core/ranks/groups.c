/*
 * Which ranks are alike, and which stand out. Two ranks are compared line by line, along the lines
 * that each of them has: of the lines of all ranks, which may have other paths on each machine,
 * these are few.
 */
#include "ranks/groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/median.h"

enum {
	GROUPS_MOST = 256,
	ALIKE_PART = 10, /* ranks are alike where less than this part of their bytes differs */
	/* A rank is odd in its group from here on, as in gm_ask_compare(). */
	ODD_PART = 100,
	ODD_BYTES = 1 << 20,
};

void gm_rank_groups_deinit(struct gm_rank_groups *groups)
{
	for (size_t i = 0; i < groups->items.count; i++)
		gm_array_deinit(&groups->items.items[i].files);
	gm_array_deinit(&groups->items);
	gm_array_deinit(&groups->odd);
}

/* --- which are alike -------------------------------------------------------------------------- */

/* A row that a file has something in. */
struct line {
	size_t row;
	uint64_t bytes;
};

struct finding {
	const struct gm_compare *compare;
	struct gm_rank_groups *groups;
	struct line *lines; /* by file, then by row; owned */
	size_t *starts;     /* of each file its first line, and the end; owned */
	uint64_t *values;   /* room for one of each file; owned */
	bool *inside;       /* of each file, is it in the group in question? owned */
};

static const struct gm_compared_table *lines_of(const struct gm_compare *compare)
{
	return &compare->tables[compare->table_count - 1];
}

static bool begin(struct finding *finding)
{
	const struct gm_compared_table *table = lines_of(finding->compare);
	size_t files = finding->compare->count, count = 0;
	for (size_t i = 0; i < table->count; i++)
		count += table->rows[i].count;
	finding->lines = calloc(count + 1, sizeof(*finding->lines));
	finding->starts = calloc(files + 2, sizeof(*finding->starts));
	finding->values = calloc(files + 1, sizeof(*finding->values));
	finding->inside = calloc(files + 1, sizeof(*finding->inside));
	if (!finding->lines || !finding->starts || !finding->values || !finding->inside)
		return false;
	/* starts[f + 2] counts the lines of file f; starts[f + 1] is then where its next one goes,
	 * and after the last one where those of f + 1 begin. */
	for (size_t i = 0; i < table->count; i++)
		for (size_t j = 0; j < table->rows[i].count; j++)
			finding->starts[table->rows[i].cells[j].file + 2]++;
	for (size_t i = 2; i < files + 2; i++)
		finding->starts[i] += finding->starts[i - 1];
	for (size_t i = 0; i < table->count; i++) {
		for (size_t j = 0; j < table->rows[i].count; j++) {
			const struct gm_compared_cell *cell = &table->rows[i].cells[j];
			finding->lines[finding->starts[cell->file + 1]++] =
			        (struct line){i, cell->bytes};
		}
	}
	return true;
}

static void end(struct finding *finding)
{
	free(finding->lines);
	free(finding->starts);
	free(finding->values);
	free(finding->inside);
}

/* Bytes that one has and the other has not. */
static uint64_t distance(const struct finding *finding, size_t a, size_t b)
{
	const struct gm_compare *compare = finding->compare;
	const struct line *left = finding->lines + finding->starts[a],
	                  *left_end = finding->lines + finding->starts[a + 1],
	                  *right = finding->lines + finding->starts[b],
	                  *right_end = finding->lines + finding->starts[b + 1];
	uint64_t sum = gm_rank_gap(compare->files[a].allocated, compare->files[b].allocated);
	uint64_t rows = 0;
	while (left < left_end || right < right_end) {
		if (right == right_end || (left < left_end && left->row < right->row))
			rows += left++->bytes;
		else if (left == left_end || right->row < left->row)
			rows += right++->bytes;
		else
			rows += gm_rank_gap(left++->bytes, right++->bytes);
	}
	return rows > sum ? rows : sum;
}

static bool are_alike(const struct gm_compare *compare, size_t a, size_t b, uint64_t apart)
{
	uint64_t most = compare->files[a].allocated > compare->files[b].allocated
	                        ? compare->files[a].allocated
	                        : compare->files[b].allocated;
	return compare->files[a].has_device == compare->files[b].has_device &&
	       apart <= most / ALIKE_PART;
}

/* The group whose first file is nearest; SIZE_MAX: there is none. */
static size_t nearest(const struct finding *finding, size_t file, uint64_t *ret_apart)
{
	const struct gm_rank_groups *groups = finding->groups;
	size_t found = SIZE_MAX;
	*ret_apart = UINT64_MAX;
	for (size_t i = 0; i < groups->items.count; i++) {
		uint64_t apart = distance(finding, groups->items.items[i].files.items[0], file);
		if (apart < *ret_apart) {
			*ret_apart = apart;
			found = i;
		}
	}
	return found;
}

static struct gm_error *put_in(struct finding *finding, size_t file)
{
	struct gm_rank_groups *groups = finding->groups;
	uint64_t apart;
	size_t at = nearest(finding, file, &apart);
	if (at != SIZE_MAX) {
		struct gm_rank_group *group = &groups->items.items[at];
		if (are_alike(finding->compare, group->files.items[0], file, apart))
			return gm_array_push(&group->files, file) ? NULL : &gm_error_no_memory;
	}
	if (groups->items.count == GROUPS_MOST) {
		groups->alone++;
		return NULL;
	}
	struct gm_rank_group group = {0};
	if (!gm_array_push(&group.files, file) || !gm_array_push(&groups->items, group)) {
		gm_array_deinit(&group.files);
		return &gm_error_no_memory;
	}
	return NULL;
}

static void sum_up(const struct gm_compare *compare, struct gm_rank_group *group, uint64_t *values)
{
	for (size_t i = 0; i < group->files.count; i++)
		values[i] = compare->files[group->files.items[i]].allocated;
	group->median = gm_median(values, group->files.count, group->files.count);
	group->least = values[0];
	group->most = values[group->files.count - 1];
}

/* --- which stand out -------------------------------------------------------------------------- */

/* The median of what the files of the group in question have in a row. */
static uint64_t usual_of(
        const struct finding *finding, const struct gm_compared_row *row, size_t files)
{
	size_t count = 0;
	for (size_t i = 0; i < row->count; i++)
		if (finding->inside[row->cells[i].file])
			finding->values[count++] = row->cells[i].bytes;
	return gm_median(finding->values, count, files);
}

static void explain(
        struct finding *finding, const struct gm_rank_group *group, struct gm_rank_odd *odd)
{
	const struct gm_compared_table *table = lines_of(finding->compare);
	bool above = finding->compare->files[odd->file].allocated >= odd->median;
	uint64_t farthest = 0;
	odd->row = SIZE_MAX;
	for (size_t i = 0; i < group->files.count; i++)
		finding->inside[group->files.items[i]] = true;
	for (size_t i = 0; i < table->count; i++) {
		uint64_t usual = usual_of(finding, &table->rows[i], group->files.count);
		uint64_t own = gm_compared_at(&table->rows[i], odd->file).bytes;
		uint64_t gap =
		        above ? (own > usual ? own - usual : 0) : (own < usual ? usual - own : 0);
		if (gap > farthest) {
			farthest = gap;
			odd->row = i;
			odd->bytes = own;
			odd->usual = usual;
		}
	}
	for (size_t i = 0; i < group->files.count; i++)
		finding->inside[group->files.items[i]] = false;
}

static struct gm_error *add_odd(struct finding *finding, size_t file, size_t at, bool alone)
{
	const struct gm_rank_group *group = &finding->groups->items.items[at];
	struct gm_rank_odd odd = {
	        .file = file, .group = at, .alone = alone, .median = group->median};
	explain(finding, group, &odd);
	return gm_array_push(&finding->groups->odd, odd) ? NULL : &gm_error_no_memory;
}

static struct gm_error *find_odd(struct finding *finding, const struct gm_rank_groups *singles)
{
	const struct gm_rank_groups *groups = finding->groups;
	for (size_t i = 0; i < groups->items.count; i++) {
		const struct gm_rank_group *group = &groups->items.items[i];
		for (size_t j = 0; group->files.count > 2 && j < group->files.count; j++) {
			size_t file = group->files.items[j];
			uint64_t gap =
			        gm_rank_gap(finding->compare->files[file].allocated, group->median);
			if (gap >= ODD_BYTES && gap >= group->median / ODD_PART)
				gm_try(add_odd(finding, file, i, false));
		}
	}
	for (size_t i = 0; groups->items.count && i < singles->items.count; i++) {
		size_t file = singles->items.items[i].files.items[0];
		uint64_t apart;
		size_t at = nearest(finding, file, &apart);
		gm_try(add_odd(finding, file, at, true));
	}
	return NULL;
}

static int compare_odd(const void *a, const void *b, void *context)
{
	const struct gm_rank_odd *left = a, *right = b;
	const struct gm_compare *compare = context;
	uint64_t lefts = gm_rank_gap(compare->files[left->file].allocated, left->median);
	uint64_t rights = gm_rank_gap(compare->files[right->file].allocated, right->median);
	if (lefts != rights)
		return lefts > rights ? -1 : 1;
	return (left->file > right->file) - (left->file < right->file);
}

/* Groups of one are none. */
static struct gm_error *part(struct gm_rank_groups *groups, struct gm_rank_groups *singles)
{
	size_t kept = 0;
	if (!gm_array_reserve(&singles->items, groups->items.count))
		return &gm_error_no_memory;
	for (size_t i = 0; i < groups->items.count; i++) {
		if (groups->items.items[i].files.count > 1)
			groups->items.items[kept++] = groups->items.items[i];
		else
			singles->items.items[singles->items.count++] = groups->items.items[i];
	}
	groups->items.count = kept;
	groups->alone += singles->items.count;
	return NULL;
}

static struct gm_error *find(struct finding *finding, struct gm_rank_groups *singles)
{
	const struct gm_compare *compare = finding->compare;
	struct gm_rank_groups *groups = finding->groups;
	if (!begin(finding))
		return &gm_error_no_memory;
	for (size_t i = 0; i < compare->count; i++)
		gm_try(put_in(finding, i));
	gm_try(part(groups, singles));
	for (size_t i = 0; i < groups->items.count; i++)
		sum_up(compare, &groups->items.items[i], finding->values);
	gm_try(find_odd(finding, singles));
	if (groups->odd.count)
		qsort_r(groups->odd.items, groups->odd.count, sizeof(*groups->odd.items),
		        compare_odd, (void *)compare);
	return NULL;
}

struct gm_error *gm_rank_groups(const struct gm_compare *compare, struct gm_rank_groups *ret_groups)
{
	struct gm_rank_groups groups = {0}, singles = {0};
	struct finding finding = {.compare = compare, .groups = &groups};
	struct gm_error *error = find(&finding, &singles);
	end(&finding);
	gm_rank_groups_deinit(&singles);
	if (error)
		gm_rank_groups_deinit(&groups);
	else
		*ret_groups = groups;
	return error;
}
