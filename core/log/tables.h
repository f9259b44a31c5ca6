/*
 * What a log interns, in memory: one growing array per kind, variable parts in arenas next to them,
 * so that a log of any size costs a handful of allocations. Ids count from 1 in the order of the
 * file. Every reference from one record to another is checked when it is read; every record takes
 * at least a byte of the file, so memory is bounded by the file's size.
 */
#ifndef GM_LOG_TABLES_H
#define GM_LOG_TABLES_H

#include "base/array.h"
#include "log/format.h"

struct gm_log_code_entry {
	uint32_t file, name, first_line, loop_count;
	size_t loops; /* index of the first in the arena of loops */
};

struct gm_span {
	size_t start; /* in the arena */
	uint32_t count;
};

struct gm_symbol_entry {
	uint64_t address;
	uint32_t function, file, line;
	uint32_t order; /* in the file: the first of an address wins */
};

struct gm_counter_entry {
	uint32_t name;
	uint32_t
	        order; /* among those that were read since the last sort: the last of a name wins */
	uint64_t value;
};

struct gm_setting_entry {
	uint32_t name, value; /* strings */
};

struct gm_tensor_entry {
	size_t extents; /* index in the arena of the first size; strides stand after the sizes */
	uint8_t type, dimensions;
	bool strided;
};

struct gm_tables {
	GM_ARRAY(char) text; /* strings, each with a NUL after it */
	GM_ARRAY(size_t) strings;
	GM_ARRAY(struct gm_log_loop) loops;
	bool loops_have_lines; /* gm_log_loop's has_lines, of the file's loops */
	GM_ARRAY(struct gm_log_code_entry) codes;
	GM_ARRAY(struct gm_log_frame) frames;
	GM_ARRAY(uint32_t) stack_frames;
	GM_ARRAY(struct gm_span) python_stacks;
	GM_ARRAY(struct gm_log_module) modules;
	GM_ARRAY(uint32_t) modules_by_start; /* ids */
	GM_ARRAY(uint64_t) addresses;
	GM_ARRAY(struct gm_span) native_stacks;
	GM_ARRAY(struct gm_log_evidence) evidence;
	GM_ARRAY(struct gm_symbol_entry) symbols; /* by address once sorted */
	GM_ARRAY(uint32_t) gaps;
	GM_ARRAY(struct gm_log_iteration) iterations;
	GM_ARRAY(struct gm_log_mark) marks;
	GM_ARRAY(struct gm_log_amp) amps;
	GM_ARRAY(struct gm_log_collective) collectives;
	GM_ARRAY(struct gm_log_name) names;
	GM_ARRAY(int64_t) extents; /* sizes and strides */
	GM_ARRAY(struct gm_tensor_entry) tensors;
	GM_ARRAY(struct gm_counter_entry) counters; /* by name, each once, as far as sorted */
	size_t counters_sorted;
	GM_ARRAY(struct gm_setting_entry) settings;
};

void gm_tables_deinit(struct gm_tables *tables);
/* Reads the records of one chunk. NULL, or why it is damaged; sets *ret_no_memory instead of a
 * reason. */
const char *gm_tables_read(struct gm_tables *tables, const struct gm_chunk_header *header,
        struct gm_cursor *cursor, bool *ret_no_memory);
/* Orders what is looked up by address or by name; after the last gm_tables_read(). False: no
 * memory. */
bool gm_tables_sort(struct gm_tables *tables);

/* False: none of this name was read before the last gm_tables_sort(). */
bool gm_tables_counter(const struct gm_tables *tables, const char *name, uint64_t *ret_value);

const char *gm_tables_string(const struct gm_tables *tables, uint32_t id);

#endif
