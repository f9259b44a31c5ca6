/*
 * diff, and info and peak of several files: recordings side by side. Each is read on its own and
 * only its sums are kept, so that a thousand ranks need the memory of one. Peaks are compared at
 * each one's own peak, or steps with steps of the same number.
 */
#ifndef GM_ASK_DIFF_H
#define GM_ASK_DIFF_H

#include "ask/blocks.h"
#include "base/array.h"
#include "base/strings.h"

/* A pass of the training loop. Bytes. */
struct gm_compared_step {
	uint64_t peak, kept;
};

struct gm_compared_file {
	const char *path; /* the caller's */
	bool has_device;  /* false: no memory was allocated in the record */
	uint8_t device_type;
	int16_t device; /* the main one */
	/* Other accelerators with memory of the program: how many, and the one with the highest
	 * peak. */
	uint32_t others;
	uint8_t other_type;
	int16_t other;
	uint64_t other_peak;
	bool complete;
	uint64_t events, reserved; /* of the record; peak of the device */
	uint64_t allocated;        /* at `event` */
	uint32_t event;            /* its peak, or that of the step asked for; GM_NO_EVENT: none */
	uint32_t step;             /* of the event, 0: none */
	enum gm_phase phase;
	struct gm_compared_step *steps; /* from step 1; owned */
	size_t step_count;
	uint32_t steps_all;   /* as many as there are; `steps` may have only the first ones */
	uint64_t steps_value; /* the hash of all */
};

struct gm_compared_cell {
	uint32_t file;
	uint64_t bytes, blocks;
};

/* What one key (a line, a category) has in each file. A file without a cell has nothing in the row.
 * Where the paths of the program differ from machine to machine, thousands of ranks have many more
 * rows than any one of them, so only what is there takes memory. */
struct gm_compared_row {
	enum gm_group_kind kind;
	char *key;                      /* owned */
	struct gm_compared_cell *cells; /* by file; owned */
	size_t count;                   /* of cells */
	uint64_t least, median, most;
};

struct gm_compared_table {
	enum gm_group_by by;
	struct gm_compared_row *rows; /* owned; the widest apart first, then the largest */
	size_t count;
};

enum { GM_COMPARED_TABLES_MAX = 2 };

struct gm_compare {
	struct gm_compared_file *files; /* owned */
	size_t count;
	struct gm_compared_table tables[GM_COMPARED_TABLES_MAX];
	size_t table_count;
	bool equal;      /* peaks, groups and steps */
	uint64_t median; /* of `allocated` */
	/* The file that stands out: farthest from the median of three and more, by 1 % and 1 MiB at
	 * least. SIZE_MAX: none. */
	size_t odd;
};

struct gm_compare_options {
	enum gm_group_by by; /* GM_BY_NONE: by category and by line */
	uint32_t step;       /* at the peak of this step; 0: of the whole record */
};

/* context: for progress only, its own log is not touched. GM_USAGE where a file has no such step.
 */
struct gm_error *gm_ask_compare(const struct gm_context *context, const char *const *paths,
        size_t count, const struct gm_compare_options *options, struct gm_compare *ret_compare);
void gm_compare_deinit(struct gm_compare *compare);
/* For qsort() of pointers to rows: those with the most bytes in any file first. */
int gm_compared_by_most(const void *a, const void *b);

/* What one key has in one file. Numbers of strings are those of the caller's table. */
struct gm_compared_share {
	enum gm_group_kind kind;
	uint32_t key, line; /* `line`: the key where the line is not descended from; 0: the same */
	uint64_t bytes, blocks;
};

/* One file's part of a comparison: all that has to be kept of it. */
struct gm_compared_one {
	struct gm_compared_file file;
	GM_ARRAY(struct gm_compared_share) shares[GM_COMPARED_TABLES_MAX];
};

/* The two halves of the above, for who reads the files elsewhere: of the context's recording; and
 * side by side, which takes the steps of `ones`. */
struct gm_error *gm_compare_read(struct gm_context *context,
        const struct gm_compare_options *options, struct gm_strings *strings,
        struct gm_compared_one *ret_one);
void gm_compared_one_deinit(struct gm_compared_one *one);
struct gm_error *gm_compare_join(struct gm_compared_one *ones, size_t count,
        const struct gm_compare_options *options, const struct gm_strings *strings,
        struct gm_compare *ret_compare);

/* What a file has in a row. */
struct gm_compared_cell gm_compared_at(const struct gm_compared_row *row, size_t file);
/* The bytes of each of `files` files. */
void gm_compared_bytes(const struct gm_compared_row *row, size_t files, uint64_t *ret_bytes);
/* Do not all of `files` files have the same? */
bool gm_compared_differs(const struct gm_compared_row *row, size_t files);
/* The difference in bytes between the file with the most and that with the least; a file without
 * the row counts as 0. */
static inline uint64_t gm_compared_spread(const struct gm_compared_row *row)
{
	return row->most - row->least;
}

#endif
