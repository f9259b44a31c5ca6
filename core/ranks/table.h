/* One figure of many things in many files: its least, median and most of each thing, and where. */
#ifndef GM_RANKS_TABLE_H
#define GM_RANKS_TABLE_H

#include "base/array.h"
#include "base/map.h"

struct gm_rank_cell {
	size_t file;
	uint64_t value;
};

struct gm_rank_row {
	uint32_t key, more;                  /* what it is, in the question's own numbers */
	GM_ARRAY(struct gm_rank_cell) cells; /* of the files that have a value, in order */
	uint64_t least, median, most;        /* of these */
	size_t least_in, most_in;            /* the first such file */
	size_t least_count, most_count;
};

struct gm_rank_table {
	GM_ARRAY(struct gm_rank_row) rows;
	struct gm_map by_key;
};

void gm_rank_table_deinit(struct gm_rank_table *table);
/* Adds to the value of a file, which is not before the one that was added to last. False: no
 * memory. */
bool gm_rank_table_add(
        struct gm_rank_table *table, uint32_t key, uint32_t more, size_t file, uint64_t value);
/* After the last value: fills in least, median and most. False: no memory. */
bool gm_rank_table_finish(struct gm_rank_table *table);
/* By key; by the most, the largest first. */
void gm_rank_table_sort_by_key(struct gm_rank_table *table);
void gm_rank_table_sort_by_most(struct gm_rank_table *table);

#endif
