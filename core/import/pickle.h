/*
 * The pickle machine: protocols 2 to 5, plain data only. A stack of small values, a memo, and tables that
 * values point into by index; dictionaries that are trace entries or frames become records at once, so that
 * a large trace never exists as dictionaries. There is no recursion here or in those who read the result.
 */
#ifndef GM_IMPORT_PICKLE_H
#define GM_IMPORT_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/error.h"
#include "log/intern.h"

/* The lowest three bits tell what it is, the others are a number or an index. */
typedef uint64_t gm_value;

enum gm_tag {
	GM_TAG_OTHER, /* None, floats, bytes, tuples: nothing that is asked for */
	GM_TAG_INT,   /* of 61 bits with sign */
	GM_TAG_WIDE,  /* index in wides */
	GM_TAG_STRING,
	GM_TAG_OBJECT,
};

enum {
	GM_VALUE_NONE = 0,
	GM_VALUE_FALSE = 1 << 3,
	GM_VALUE_TRUE = 2 << 3,
	GM_VALUE_OPAQUE = 3 << 3
};

static inline enum gm_tag gm_value_tag(gm_value value)
{
	return (enum gm_tag)(value & 7);
}

static inline gm_value gm_value_make(enum gm_tag tag, uint64_t payload)
{
	return payload << 3 | (uint64_t)tag;
}

struct gm_wide {
	uint64_t value;
	bool unsigned_64; /* else it is negative, or does not fit in 64 bits */
};

enum gm_object_kind { GM_LIST, GM_DICT, GM_ENTRY, GM_FRAME };

/* Lists and dictionaries are chains of pieces in the arena: a word count << 32 | next, then the values. */
struct gm_object {
	uint8_t kind;
	bool taken;      /* it has been read as a part of the snapshot: see gm_pickle_take() */
	uint32_t first;  /* piece + 1, 0: none; of entries and frames the index of the record */
	uint32_t last;   /* piece + 1 */
	uint32_t result; /* for whoever reads the values: what it has been made into */
};

/* The words that snapshots use as keys; known once per string. */
enum gm_key {
	GM_KEY_UNKNOWN,
	GM_KEY_ACTION,
	GM_KEY_ADDR,
	GM_KEY_ADDRESS,
	GM_KEY_BLOCKS,
	GM_KEY_DEVICE,
	GM_KEY_DEVICE_FREE,
	GM_KEY_DEVICE_TRACES,
	GM_KEY_FILENAME,
	GM_KEY_FRAMES,
	GM_KEY_HISTORY,
	GM_KEY_IS_EXPANDABLE,
	GM_KEY_LINE,
	GM_KEY_NAME,
	GM_KEY_REAL_SIZE,
	GM_KEY_REQUESTED_SIZE,
	GM_KEY_SEGMENTS,
	GM_KEY_SIZE,
	GM_KEY_STATE,
	GM_KEY_STREAM,
	GM_KEY_TIME_US,
	GM_KEY_TOTAL_SIZE,
	GM_KEY_COUNT,
};

/* A trace entry. */
struct gm_entry {
	uint64_t address, size, stream, time_us;
	uint64_t block_size; /* of the allocator's block; 0: not known yet */
	gm_value frames;
	uint32_t action; /* string id */
};

struct gm_frame_record {
	uint32_t file, name; /* string ids */
	uint32_t line;
	uint32_t result; /* for whoever reads it */
};

struct gm_pickle {
	const char *path;
	int fd;
	uint64_t file_size;
	uint8_t *buffer;
	size_t at, end;  /* in the buffer */
	uint64_t before; /* bytes of the file before the buffer */
	uint64_t op_at;  /* offset of the opcode under way */
	GM_ARRAY(gm_value) stack;
	GM_ARRAY(size_t) marks;
	GM_ARRAY(gm_value) memo;
	GM_ARRAY(gm_value) arena;
	GM_ARRAY(struct gm_object) objects;
	GM_ARRAY(struct gm_wide) wides;
	GM_ARRAY(struct gm_entry) entries;
	GM_ARRAY(struct gm_frame_record) frames;
	struct gm_intern strings; /* of strings' bytes; those longer than a log takes are cut */
	GM_ARRAY(uint8_t) keys;   /* enum gm_key of string id - 1 */
};

/* Reads the whole file; *ret_root is what it says. */
struct gm_error *gm_pickle_read(struct gm_pickle *pickle, const char *path, gm_value *ret_root);
void gm_pickle_deinit(struct gm_pickle *pickle);

/* GM_CORRUPT at a place in the file. */
struct gm_error *gm_pickle_refuse(
        const struct gm_pickle *pickle, uint64_t offset, const char *format, ...)
        __attribute__((format(printf, 3, 4), returns_nonnull, warn_unused_result));

static inline struct gm_object *gm_pickle_object(const struct gm_pickle *pickle, gm_value value)
{
	return gm_value_tag(value) == GM_TAG_OBJECT ? &pickle->objects.items[value >> 3] : NULL;
}

/* The bytes of a string; not ended by 0. */
const char *gm_pickle_string(const struct gm_pickle *pickle, uint32_t id, size_t *ret_length);
/* False: no number, negative, or wider than 64 bits. */
bool gm_pickle_number(const struct gm_pickle *pickle, gm_value value, uint64_t *ret_number);
/* The last value of a key in a dictionary; GM_VALUE_NONE: no such key, or no dictionary. */
gm_value gm_pickle_get(const struct gm_pickle *pickle, gm_value dict, enum gm_key key);

/* Goes through a list: for (at = gm_pickle_first(p, list, &i); gm_pickle_next(p, &at, &value);) */
struct gm_place {
	uint32_t piece, index;
};
struct gm_place gm_pickle_first(const struct gm_pickle *pickle, gm_value list);
bool gm_pickle_next(const struct gm_pickle *pickle, struct gm_place *place, gm_value *ret_value);

/* Fills in an entry or a frame from a dictionary's items (keys and values in turn): entries.c. */
enum gm_object_kind gm_pickle_kind(
        const struct gm_pickle *pickle, const gm_value *items, size_t count);
struct gm_error *gm_pickle_fill_entry(const struct gm_pickle *pickle, struct gm_entry *entry,
        const gm_value *items, size_t count);
struct gm_error *gm_pickle_fill_frame(const struct gm_pickle *pickle, struct gm_frame_record *frame,
        const gm_value *items, size_t count);
enum gm_key gm_pickle_key(const void *bytes, size_t length);

#endif
