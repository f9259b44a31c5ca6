#include "ranks/table.h"

#include <string.h>

#include "base/cleanup.h"

void gm_rank_table_init(struct gm_rank_table *table, size_t files)
{
	*table = (struct gm_rank_table){.files = files};
}

void gm_rank_table_deinit(struct gm_rank_table *table)
{
	for (size_t i = 0; i < table->rows.count; i++)
		free(table->rows.items[i].values);
	gm_array_deinit(&table->rows);
	gm_map_deinit(&table->by_key);
}

static struct gm_rank_row *add_row(struct gm_rank_table *table, uint32_t key, uint32_t more)
{
	struct gm_rank_row row = {.key = key, .more = more};
	row.values = malloc((table->files + 1) * sizeof(*row.values));
	if (row.values && gm_array_push(&table->rows, row)) {
		for (size_t i = 0; i < table->files; i++)
			row.values[i] = GM_RANK_ABSENT;
		return &table->rows.items[table->rows.count - 1];
	}
	free(row.values);
	return NULL;
}

bool gm_rank_table_add(
        struct gm_rank_table *table, uint32_t key, uint32_t more, size_t file, uint64_t value)
{
	/* Keys of maps are not 0. */
	uint64_t *slot =
	        gm_map_put(&table->by_key, ((uint64_t)key << 32 | more) ^ UINT64_MAX, NULL);
	if (!slot)
		return false;
	struct gm_rank_row *row = *slot ? &table->rows.items[*slot - 1] : add_row(table, key, more);
	if (!row)
		return false;
	*slot = (uint64_t)(row - table->rows.items) + 1;
	if (row->values[file] == GM_RANK_ABSENT) {
		row->values[file] = value;
		row->have++;
	} else {
		row->values[file] += value;
	}
	return true;
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return (left > right) - (left < right);
}

/* What is absent is the highest number, and so at the end. */
static void finish_row(struct gm_rank_row *row, size_t files, uint64_t *sorted)
{
	memcpy(sorted, row->values, files * sizeof(*sorted));
	qsort(sorted, files, sizeof(*sorted), compare_numbers);
	row->least = sorted[0];
	row->median = sorted[(row->have - 1) / 2];
	row->most = sorted[row->have - 1];
	for (size_t i = files; i-- > 0;) {
		if (row->values[i] == row->least) {
			row->least_in = i;
			row->least_count++;
		}
		if (row->values[i] == row->most) {
			row->most_in = i;
			row->most_count++;
		}
	}
}

bool gm_rank_table_finish(struct gm_rank_table *table)
{
	_cleanup_free_ uint64_t *sorted = calloc(table->files + 1, sizeof(*sorted));
	for (size_t i = 0; sorted && i < table->rows.count; i++)
		finish_row(&table->rows.items[i], table->files, sorted);
	return sorted != NULL;
}

static int compare_keys(const void *a, const void *b)
{
	const struct gm_rank_row *left = a, *right = b;
	if (left->key != right->key)
		return left->key < right->key ? -1 : 1;
	return (left->more > right->more) - (left->more < right->more);
}

static int compare_most(const void *a, const void *b)
{
	const struct gm_rank_row *left = a, *right = b;
	if (left->most != right->most)
		return left->most > right->most ? -1 : 1;
	return compare_keys(a, b);
}

void gm_rank_table_sort_by_key(struct gm_rank_table *table)
{
	if (table->rows.count)
		qsort(table->rows.items, table->rows.count, sizeof(*table->rows.items),
		        compare_keys);
}

void gm_rank_table_sort_by_most(struct gm_rank_table *table)
{
	if (table->rows.count)
		qsort(table->rows.items, table->rows.count, sizeof(*table->rows.items),
		        compare_most);
}
