#include "ranks/table.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/median.h"

void gm_rank_table_deinit(struct gm_rank_table *table)
{
	for (size_t i = 0; i < table->rows.count; i++)
		gm_array_deinit(&table->rows.items[i].cells);
	gm_array_deinit(&table->rows);
	gm_map_deinit(&table->by_key);
}

static struct gm_rank_row *add_row(struct gm_rank_table *table, uint32_t key, uint32_t more)
{
	const struct gm_rank_row row = {.key = key, .more = more};
	return gm_array_push(&table->rows, row) ? &table->rows.items[table->rows.count - 1] : NULL;
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
	if (row->cells.count && row->cells.items[row->cells.count - 1].file == file) {
		row->cells.items[row->cells.count - 1].value += value;
		return true;
	}
	return gm_array_push(&row->cells, ((struct gm_rank_cell){file, value}));
}

static bool finish_row(struct gm_rank_row *row)
{
	size_t have = row->cells.count;
	_cleanup_free_ uint64_t *sorted = calloc(have + 1, sizeof(*sorted));
	if (!sorted)
		return false;
	if (!have)
		return true;
	for (size_t i = 0; i < have; i++)
		sorted[i] = row->cells.items[i].value;
	row->median = gm_median(sorted, have, have);
	row->least = sorted[0];
	row->most = sorted[have - 1];
	for (size_t i = have; i-- > 0;) {
		const struct gm_rank_cell *cell = &row->cells.items[i];
		if (cell->value == row->least) {
			row->least_in = cell->file;
			row->least_count++;
		}
		if (cell->value == row->most) {
			row->most_in = cell->file;
			row->most_count++;
		}
	}
	return true;
}

bool gm_rank_table_finish(struct gm_rank_table *table)
{
	bool good = true;
	for (size_t i = 0; i < table->rows.count && good; i++)
		good = finish_row(&table->rows.items[i]);
	return good;
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
