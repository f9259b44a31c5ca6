/*
 * The machine that pickles (protocols 2 to 5, plain data only) and JSON drive: a stack of small
 * values, a memo, and tables that values point into by index. Dictionaries that are trace entries
 * or frames become records at once, and the list of an entry's frames a number, so that a large
 * trace never exists as dictionaries and lists. There is no recursion here or in those who read the
 * result.
 *
 * Here is what it works on. machine.c pushes values and puts them together, values.c looks at them,
 * opcodes.c is the opcodes, json.c JSON; schema.c reads the entries of a pickle that are alike
 * without going through the opcodes one by one; pickle_read.c reads a file.
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
	GM_TAG_ENTRY, /* index in entries */
	GM_TAG_STACK, /* a list of frames: number of the stack, and above its 29 bits which list it
	                 is */
};

enum { GM_STACK_BITS = 29 };

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

/*
 * Lists and dictionaries are chains of chunks in the arena: a word count << 32 | next, then the
 * values; a row of entries that follow one another has GM_CHUNK_ROW set in its count, and the first
 * of its values only.
 */
#define GM_CHUNK_ROW (UINT32_C(1) << 31)

struct gm_object {
	uint8_t kind;
	bool taken;      /* it has been read as a part of the snapshot: see gm_pickle_take() */
	uint32_t first;  /* chunk + 1, 0: none; of entries and frames the index of the record */
	uint32_t last;   /* chunk + 1 */
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
	GM_KEY_EXTERNAL_ANNOTATIONS,
	GM_KEY_FILENAME,
	GM_KEY_FRAMES,
	GM_KEY_HISTORY,
	GM_KEY_HOST_SEGMENTS,
	GM_KEY_HOST_TRACES,
	GM_KEY_ALLOCATOR_SETTINGS,
	GM_KEY_PYTORCH_ALLOC_CONF,
	GM_KEY_PYTORCH_CUDA_ALLOC_CONF,
	GM_KEY_TRACE_ALLOC_OVERFLOWED,
	GM_KEY_IS_EXPANDABLE,
	GM_KEY_LINE,
	GM_KEY_NAME,
	GM_KEY_REAL_SIZE,
	GM_KEY_REQUESTED_SIZE,
	GM_KEY_SEGMENTS,
	GM_KEY_SIZE,
	GM_KEY_STAGE,
	GM_KEY_STATE,
	GM_KEY_STREAM,
	GM_KEY_TIME_US,
	GM_KEY_TOTAL_SIZE,
	GM_KEY_USER_METADATA,
	GM_KEY_COUNT,
};

enum { GM_ENTRY_LAST = 1 << 7 }; /* beside enum gm_event_flags: the last event of its device */

/* A trace entry, and later what the log has of it. */
struct gm_entry {
	uint64_t address, size, time_us;
	uint64_t block_size; /* of the allocator's block; 0: not known yet */
	union {
		gm_value frames;
		struct {
			uint32_t python, native; /* ids of the log, once all is read */
		} stacks;
	};
	uint32_t stream; /* gm_pickle_stream() */
	uint8_t action;  /* enum gm_action; 0: a newer one */
	uint8_t device;  /* its number in the snapshot; these two once all is read */
	uint8_t flags;
};

struct gm_frame_record {
	uint32_t file, name; /* string ids */
	uint32_t line;
	uint32_t result; /* for whoever reads it */
};

/* A list of frames, distinguished from others by the bytes that the file has of it. */
struct gm_raw_stack {
	uint32_t first, count; /* in stack_frames */
	uint32_t next;         /* number of the stack that came after it the last time */
};

/* From this entry on they have this metadata (torch.cuda.memory._set_memory_metadata). */
struct gm_metadata {
	uint32_t entry;
	uint32_t text; /* string id; 0: none */
};

/* Sizes and times beyond these are no device's: sums of them stay meaningful. */
#define GM_PICKLE_SIZE_MAX (UINT64_C(1) << 56)
#define GM_PICKLE_TIME_MAX ((uint64_t)INT64_MAX / 1000)

struct gm_schemas;

struct gm_pickle {
	const char *path;
	int fd;
	uint64_t file_size;
	uint64_t behind; /* bytes of the file after the pickle */
	uint8_t *buffer;
	size_t at, end;  /* in the buffer */
	bool plainly;    /* nothing is learned from entries */
	bool ended;      /* all of the file has been read */
	uint64_t before; /* bytes of the file before the buffer */
	uint64_t op_at;  /* offset of the opcode in progress */
	GM_ARRAY(gm_value) stack;
	GM_ARRAY(size_t) marks;
	GM_ARRAY(uint32_t) memo; /* packed values: machine.c */
	GM_ARRAY(gm_value) memo_large;
	bool memo_rewritten; /* a memo number has been used twice */
	GM_ARRAY(gm_value) arena;
	GM_ARRAY(struct gm_object) objects;
	GM_ARRAY(struct gm_wide) wides;
	GM_ARRAY(struct gm_entry) entries;
	GM_ARRAY(struct gm_frame_record) frames;
	GM_ARRAY(struct gm_metadata) metadata;    /* where it changes, by entry */
	struct gm_intern raw;                     /* of stacks' bytes */
	GM_ARRAY(struct gm_raw_stack) raw_stacks; /* of id - 1 */
	GM_ARRAY(uint32_t) stack_frames;          /* indexes in frames */
	struct gm_intern strings;  /* of strings' bytes; those longer than a log takes are cut */
	GM_ARRAY(uint8_t) keys;    /* enum gm_key of string id - 1 */
	GM_ARRAY(uint8_t) actions; /* enum gm_action of string id - 1 */
	struct gm_intern streams;  /* numbers of 64 bits */
	uint64_t last_stream;
	uint32_t last_stream_number;
	struct gm_schemas *schemas; /* one allocation; NULL: nothing was learned yet */
};

void gm_pickle_deinit(struct gm_pickle *pickle);

/* GM_CORRUPT at a place in the file. */
struct gm_error *gm_pickle_refuse(
        const struct gm_pickle *pickle, uint64_t offset, const char *format, ...)
        __attribute__((format(printf, 3, 4), returns_nonnull, warn_unused_result));
/* The same at the opcode in progress. */
struct gm_error *gm_pickle_wrong(const struct gm_pickle *pickle, const char *reason);

static inline struct gm_object *gm_pickle_object(const struct gm_pickle *pickle, gm_value value)
{
	return gm_value_tag(value) == GM_TAG_OBJECT ? &pickle->objects.items[value >> 3] : NULL;
}

/* The index of an entry; UINT32_MAX: it is none. */
static inline uint32_t gm_pickle_entry(const struct gm_pickle *pickle, gm_value value)
{
	if (gm_value_tag(value) == GM_TAG_ENTRY)
		return (uint32_t)(value >> 3);
	const struct gm_object *object = gm_pickle_object(pickle, value);
	return object && object->kind == GM_ENTRY ? object->first : UINT32_MAX;
}

static inline uint32_t gm_value_stack(gm_value value)
{
	return (uint32_t)(value >> 3) & ((1u << GM_STACK_BITS) - 1);
}

#endif
