/*
 * The inside of the cpython room: the handle and what its files share. Nothing here is for other
 * rooms.
 */
#ifndef GM_CPYTHON_PYTHON_H
#define GM_CPYTHON_PYTHON_H

#include "base/address_set.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "cpython/cpython.h"
#include "cpython/versions/layout.h"
#include "cpython/versions/opcodes.h"
#include "cpython/versions/versions.h"

enum {
	/* Bounds on what a target may claim. Generous beside any real program. */
	GM_MAX_INTERPRETERS = 256,
	GM_MAX_THREADS = 65536,
	GM_MAX_FRAMES_WALKED = 1 << 17,
	GM_MAX_CODE_BYTES = 16 << 20,
	GM_MAX_LOCALS = 1 << 16,
	GM_MAX_NAMES = 1 << 20,
	GM_MAX_NAME_LENGTH = 1024,
	GM_MAX_TYPE_DEPTH = 64,
	GM_MRO_MAX = 128,
	GM_MAX_CODES = 1 << 20,
	GM_MAX_TYPES = 1 << 18,
	GM_MAX_TYPE_FIELDS = 1 << 22, /* of all types */
	GM_CODE_KEY_SIZE = 256,
	GM_THREAD_HINTS = 16,
};

/* One row of a decoded line table: from `start` (byte offset) up to the next row's start. */
struct gm_line_row {
	uint32_t start;
	uint32_t line; /* 0: none */
};

/*
 * A copied code object. `key` is the head of the target's struct as it was read, and what is
 * compared with it at each walk tells whether the object there is still the same one. Entries are
 * never freed while the handle lives, as callers keep pointers to `code`; an object that takes a
 * dead one's address gets an entry of its own.
 */
struct gm_code_entry {
	struct gm_code code;
	uint64_t address;
	uint8_t key[GM_CODE_KEY_SIZE];
	uint8_t *bytecode;
	uint8_t *units; /* per code unit: how many units back its instruction starts (0: here) */
	uint32_t bytecode_size;
	int16_t *depths; /* per code unit: the value stack's depth before it, -1: not reached; NULL:
	                    not known */
	bool depths_sought;
	uint32_t stack_size;      /* co_stacksize */
	uint32_t first_traceable; /* byte offset: frames before it are not complete */
	uint32_t frame_size;      /* bytes on the data stack, 0 before 3.11 */
	uint32_t local_plain;     /* locals that are neither cells nor free (3.9, 3.10) */
	uint64_t names;           /* tuple co_names */
	uint32_t name_count;
	char **name_cache; /* read when first asked for */
	GM_ARRAY(struct gm_line_row) lines;
	GM_ARRAY(struct gm_loop) loops;
	uint64_t walk;              /* the last walk that checked it */
	struct gm_code_entry *next; /* of the same hash */
};

/* A type object's facts, copied once and checked against the target at each use. */
enum gm_type_kind {
	GM_TYPE_UNKNOWN = 0, /* a C type whose layout is not known */
	GM_TYPE_PLAIN,       /* holds nothing beyond its attributes (object, str, int ...) */
	GM_TYPE_DICT,
	GM_TYPE_LIST,
	GM_TYPE_TUPLE,
	GM_TYPE_SET,
	GM_TYPE_CELL,
	GM_TYPE_FUNCTION,
	GM_TYPE_METHOD,
	GM_TYPE_BUILTIN,
	GM_TYPE_MODULE,
	GM_TYPE_TYPE,
	GM_TYPE_CODE,
	GM_TYPE_FRAME,
	GM_TYPE_GENERATOR,
	GM_TYPE_TRACEBACK,
	GM_TYPE_EXCEPTION,
	GM_TYPE_DEQUE,
	GM_TYPE_PROPERTY,
	GM_TYPE_PARTIAL,
	GM_TYPE_MAPPINGPROXY,
	GM_TYPE_WRAPPER, /* staticmethod, classmethod */
	GM_TYPE_SEQUENCE_ITERATOR,
	GM_TYPE_WEAKREF,
	GM_TYPE_RING,    /* queue.SimpleQueue of 3.13 */
	GM_TYPE_LRU,     /* fields, and the list of its links */
	GM_TYPE_NDARRAY, /* fields, and its data where that is objects */
	GM_TYPE_FIELDS,  /* a few fields at fixed places (references.c) */
	GM_TYPE_MEMBERS, /* all it holds is told by tp_members */
};

struct gm_type_member {
	char *name;
	int64_t offset;
};

/* A reference at a fixed place of each object of a type. */
struct gm_type_field {
	int32_t offset;
	enum gm_edge_kind kind;
	const char *name;
};

struct gm_type {
	uint64_t address;
	uint64_t metatype;
	uint64_t name_address;
	uint64_t base_address;
	uint64_t members_address;
	int64_t basicsize;
	int64_t itemsize;
	int64_t dictoffset;
	int64_t weaklistoffset;
	uint64_t flags;
	char *full_name;  /* tp_name */
	const char *name; /* the part after the last dot: __name__ */
	enum gm_type_kind kind;
	bool atom;    /* its objects hold nothing that could hold a tensor (str, int, code ...) */
	bool in_part; /* it has fields beyond those of `kind` that are not known */
	bool ordered; /* of GM_TYPE_DICT: an OrderedDict, whose nodes refer to the keys once more */
	bool several_bases; /* it or a base of it: `base` leads to some of its bases only */
	struct gm_type *base;
	GM_ARRAY(struct gm_type_member) members;
	GM_ARRAY(struct gm_type_field) fields; /* of its layout, then members of it and its bases */
	size_t layout_fields;
	int32_t items, item_count,
	        counted_at;   /* of GM_TYPE_FIELDS: pointers in the object itself; 0: none */
	int32_t guess_from;   /* words from here on belong to a part that is not known; 0: none */
	uint64_t cached_keys; /* ht_cached_keys, 0: none */
	struct gm_type *next; /* of the same hash */
};

enum {
	GM_TYPE_FLAG_INLINE_VALUES = 1 << 2, /* 3.13+ */
	GM_TYPE_FLAG_MANAGED_DICT = 1 << 4,  /* 3.11+ */
	GM_TYPE_FLAG_HEAP = 1 << 9,
	GM_TYPE_FLAG_READY = 1 << 12,
	GM_TYPE_FLAG_HAVE_GC = 1 << 14,
};
#define GM_TYPE_FLAG_LONG (UINT64_C(1) << 24)
#define GM_TYPE_FLAG_LIST (UINT64_C(1) << 25)
#define GM_TYPE_FLAG_TUPLE (UINT64_C(1) << 26)
#define GM_TYPE_FLAG_BYTES (UINT64_C(1) << 27)
#define GM_TYPE_FLAG_STR (UINT64_C(1) << 28)
#define GM_TYPE_FLAG_DICT (UINT64_C(1) << 29)
#define GM_TYPE_FLAG_EXCEPTION (UINT64_C(1) << 30)
#define GM_TYPE_FLAG_TYPE (UINT64_C(1) << 31)

/* Where a thread was found the last time, so that the next look is one system call; always
 * checked. */
struct gm_thread_hint {
	pid_t thread;
	uint64_t state;
	uint64_t cframe;
	uint64_t chunk;
	uint64_t top;
	uint64_t ident;
	bool by_pthread;
	bool unknown; /* Python had no such thread when `stamp` was read */
	uint64_t stamp[2];
	uint64_t used; /* the last walk that used it */
};

/* A frame as the walk sees it, before code objects are examined. */
struct gm_raw_frame {
	uint64_t address;
	uint64_t code;
	uint64_t instruction; /* 3.11+: an address; before: f_lasti */
	uint8_t owner;
	bool entered;  /* it was called from C: the frames outside it are another evaluation's */
	uint64_t loop; /* 3.12+: the frame of C's that stands outside this evaluation; 0: not known
	                */
	struct gm_code_entry *entry;
};

enum gm_frame_owner {
	GM_OWNED_BY_THREAD = 0,
	GM_OWNED_BY_GENERATOR,
	GM_OWNED_BY_OBJECT,
	GM_OWNED_BY_C /* and above: 3.14 tells the interpreter and the C stack apart */
};

enum { GM_ITERATOR_TYPES = 4 };
enum { GM_CODE_BUCKETS = 4096, GM_TYPE_BUCKETS = 4096, GM_STACK_WINDOW = 32 << 10 };

struct gm_python {
	struct gm_image *image;
	struct gm_symbols *symbols;
	struct gm_python_layout layout; /* a copy: 3.13's own debug offsets are put over it */
	const struct gm_opcode *opcodes;
	int version;
	bool unfit; /* the layout is not this build's */
	char version_text[48];
	const char *found_by;
	uint64_t runtime;
	uint64_t type_type; /* PyType_Type */
	uint64_t stamp_address;
	uint64_t generator_types[3];
	bool generator_types_sought;
	uint64_t code_type;                         /* PyCode_Type, 0 until the first one is seen */
	uint64_t iterator_types[GM_ITERATOR_TYPES]; /* loop_position.c: those that count, once seen
	                                             */
	uint64_t other_iterator_type;               /* the last one seen that does not */

	struct gm_code_entry *codes[GM_CODE_BUCKETS];
	uint32_t code_count;
	struct gm_type *types[GM_TYPE_BUCKETS];
	uint32_t type_count;
	uint32_t type_fields; /* of all types: members, and fields of the layouts */

	struct gm_thread_hint hints[GM_THREAD_HINTS];
	uint64_t walk;
	GM_ARRAY(struct gm_raw_frame) raw;
	GM_ARRAY(struct gm_read) reads;
	GM_ARRAY(struct gm_code_entry *) checked;
	GM_ARRAY(uint8_t) heads;
	uint8_t window[GM_STACK_WINDOW];
	uint64_t window_start;
	size_t window_size;
	uint64_t current_frame; /* of the last walk: tstate's current frame, trampolines included */
	uint64_t stack_top;     /* of the last walk: datastack_top */
	struct gm_address_set running; /* gm_python_note_running() */
};

static inline void gm_py_use_tables(struct gm_python *python, const struct gm_python_tables *tables)
{
	python->version = tables->version;
	python->layout = *tables->layout;
	python->opcodes = tables->opcodes;
}

/* --- reading --- */
static inline bool gm_py_u64(struct gm_python *python, uint64_t address, uint64_t *ret)
{
	return gm_image_try_read(python->image, address, ret, sizeof(*ret));
}
static inline uint64_t gm_u64_at(const uint8_t *bytes, int32_t offset)
{
	uint64_t value;
	__builtin_memcpy(&value, bytes + offset, sizeof(value));
	return value;
}
static inline int32_t gm_i32_at(const uint8_t *bytes, int32_t offset)
{
	int32_t value;
	__builtin_memcpy(&value, bytes + offset, sizeof(value));
	return value;
}
/* A pointer field of an object: 0 where unreadable or the version has no such field. */
static inline uint64_t gm_py_field(struct gm_python *python, uint64_t object, int32_t offset)
{
	uint64_t value = 0;
	if (offset == GM_NO_FIELD || !gm_py_u64(python, object + (uint64_t)(int64_t)offset, &value))
		return 0;
	return value;
}

/* --- threads.c --- */
typedef bool (*gm_thread_visit)(
        void *context, struct gm_python *python, uint64_t state, const uint8_t *bytes);
bool gm_py_each_interpreter(struct gm_python *python,
        bool (*visit)(void *context, struct gm_python *python, uint64_t interpreter),
        void *context);
/* Visits each thread state, its first `thread_size` bytes read. */
void gm_py_each_thread(struct gm_python *python, gm_thread_visit visit, void *context);
pid_t gm_py_native_id(struct gm_python *python, const uint8_t *state_bytes);
/* The same by pthread_self() alone, which stays right in a forked child. */
pid_t gm_py_tid_of_pthread(struct gm_python *python, const uint8_t *state_bytes);

/* --- code.c --- */
/* The entry of the code object whose head was just read into `head` (layout.code_size bytes). */
struct gm_code_entry *gm_py_code(struct gm_python *python, uint64_t address, const uint8_t *head);
struct gm_code_entry *gm_py_code_find(struct gm_python *python, uint64_t address);
bool gm_py_code_same(
        const struct gm_python *python, const struct gm_code_entry *entry, const uint8_t *head);
/* The same, reading the head. NULL: no code object there. */
struct gm_code_entry *gm_py_code_at(struct gm_python *python, uint64_t address);
void gm_py_code_destroy(struct gm_code_entry *entry);
static inline struct gm_code_entry *gm_py_entry_of(const struct gm_code *code)
{
	return (struct gm_code_entry *)(uintptr_t)code; /* `code` is its first member */
}
const char *gm_py_code_name_at(
        struct gm_python *python, struct gm_code_entry *entry, uint32_t index);

/* The content of a bytes object; NULL: unreadable, absurd or no memory. */
uint8_t *gm_py_bytes(struct gm_python *python, uint64_t object, size_t *ret_size);

/* --- exceptions.c --- */
/* The next entry of a co_exceptiontable from *at on, in code units; false: its end, or damaged. */
bool gm_py_exception_next(const uint8_t *table, size_t size, size_t *at, uint32_t *ret_start,
        uint32_t *ret_length, uint32_t *ret_target, uint32_t *ret_depth);

/* --- depth.c --- */
bool gm_py_depths_find(struct gm_code_entry *entry, int version, const struct gm_opcode *opcodes,
        const uint8_t *exceptions, size_t exceptions_size);
/* How many values the stack of a running frame holds while the instruction at `offset` runs; -1:
 * not known. */
int gm_py_depth_at(struct gm_python *python, struct gm_code_entry *entry, uint32_t offset);

/* --- lines.c, loops.c: pure decoding --- */
/* Decodes a line table; false where there is no memory. Rows come out by offset. */
bool gm_py_lines_decode(struct gm_code_entry *entry, int version, const uint8_t *table, size_t size,
        uint32_t first_line, uint32_t bytecode_size);
uint32_t gm_py_line_at(const struct gm_code_entry *entry, uint32_t offset);
/* From this version on the co_exceptiontable (`exceptions`; may be NULL) decides whether a jump
 * back is a loop: without it, the code of a handler may count as one. */
enum { GM_HANDLERS_AT_THE_END = 0x030c, GM_COMPREHENSIONS_INLINED = 0x030c };
/* `loop_slots` is the layout's; 0: comprehensions are not marked. */
bool gm_py_loops_find(struct gm_code_entry *entry, int version, const struct gm_opcode *opcodes,
        int loop_slots, const uint8_t *exceptions, size_t exceptions_size);
/* An instruction of the loop has this line; 0: none. */
static inline void gm_py_loop_take_line(struct gm_loop *loop, uint32_t line)
{
	if (line && (line < loop->line || !loop->line))
		loop->line = line;
	if (line > loop->line_end)
		loop->line_end = line;
}
/* Of each of the entry's loops the end and the lines, by what leads to the jumps back.
 * `handlers`: of each code unit its handler's, UINT32_MAX: none; `jumps`: of each unit whether a
 * jump of a loop begins there. False: no memory. */
bool gm_py_loop_bodies_find(struct gm_code_entry *entry, const struct gm_opcode *opcodes,
        int version, const uint32_t *handlers, const uint8_t *jumps);

/* --- instruction.c --- */
struct gm_decoded {
	uint32_t start;    /* of the instruction with its EXTENDED_ARGs left out */
	uint32_t argument; /* EXTENDED_ARGs put in */
	uint8_t opcode;
	bool in_cache; /* the offset asked for is one of its cache units */
};
/* The target of a jump with `argument`, in code units, where `next` is the instruction after it and
 * its caches and `count` the size of the code; UINT32_MAX: outside of the code, or no jump. */
uint32_t gm_py_jump_target(const struct gm_opcode *opcode, int version, uint32_t next,
        uint32_t argument, uint32_t count);
bool gm_py_units_mark(struct gm_code_entry *entry, const struct gm_opcode *opcodes);
bool gm_py_decode(const struct gm_code_entry *entry, const struct gm_opcode *opcodes,
        uint32_t offset, struct gm_decoded *ret);
/* Where the instruction that begins at a code unit may lead: its handler (`handlers`: of each unit,
 * UINT32_MAX: none), its jump's target, the instruction after it. Returns to how many units. */
size_t gm_py_leads_to(const struct gm_code_entry *entry, const struct gm_opcode *opcodes,
        int version, const uint32_t *handlers, uint32_t unit, uint32_t ret_to[3]);
/* The code unit of the instruction after this one and its caches. */
static inline uint32_t gm_py_next_unit(
        const struct gm_opcode *opcodes, const struct gm_decoded *decoded)
{
	return decoded->start / 2 + 1 + opcodes[decoded->opcode].caches;
}

/* --- called.c --- */
/* The name of the function of C that a call is of, if it is one that may release objects; NULL:
 * it is not, or not known. Also of a POP_TOP, for the call whose result it drops. */
const char *gm_py_called_name(
        struct gm_python *python, struct gm_code_entry *entry, const struct gm_decoded *decoded);

/* --- stack.c --- */
/* Reads a frame at `address` (layout's frame, 3.11+) into raw. */
bool gm_py_read_frame(struct gm_python *python, uint64_t address, struct gm_raw_frame *ret,
        uint64_t *ret_previous);
uint32_t gm_py_lasti(const struct gm_python *python, const struct gm_raw_frame *raw);
/* localsplus of a frame, or of a frame object before 3.11 */
static inline uint64_t gm_py_slot_address(
        const struct gm_python *python, uint64_t frame, uint64_t slot)
{
	return frame + (uint64_t)python->layout.frame_localsplus + 8 * slot;
}

/* --- types.c --- */
struct gm_type *gm_py_type(struct gm_python *python, uint64_t address);
struct gm_type *gm_py_type_of(struct gm_python *python, uint64_t object);
void gm_py_types_destroy(struct gm_python *python);

/* --- references_small.c --- */
bool gm_py_has_small_layout(const char *type_name, int version);

/* --- dict.c --- */
/* Where the entries of a PyDictKeysObject are. */
struct gm_dict_keys {
	uint64_t entries; /* address of the first */
	uint64_t count;
	unsigned size; /* of an entry: 24 bytes (hash, key, value), or 16 (key, value) where all
	                  keys are str */
};
enum { GM_KEYS_HEAD = 48 }; /* at least layout.keys_indices */
bool gm_py_keys_decode(const struct gm_python_layout *layout, uint64_t address, const uint8_t *head,
        struct gm_dict_keys *ret);
bool gm_py_read_keys(struct gm_python *python, uint64_t address, struct gm_dict_keys *ret);
typedef bool (*gm_dict_visit)(void *context, uint64_t key, uint64_t value);
/* Visits the entries of a dict. False: not readable as one (what was read was visited). */
bool gm_py_dict_each(struct gm_python *python, uint64_t dict, gm_dict_visit visit, void *context);
/* Visits the inline attribute values of an instance (key object, value). */
bool gm_py_values_each(struct gm_python *python, uint64_t keys, uint64_t values, uint64_t max,
        gm_dict_visit visit, void *context);
uint64_t gm_py_dict_get_str(struct gm_python *python, uint64_t dict, const char *key);
uint64_t gm_py_dict_get_int(struct gm_python *python, uint64_t dict, int64_t key);

/* --- attributes.c --- */
enum { GM_MAX_INLINE_VALUES = 256, GM_DICT_TAG = 1 };
/* The instance dict of an object; 0: none (yet). */
uint64_t gm_py_instance_dict(struct gm_python *python, uint64_t object, const struct gm_type *type);
/* Visits attribute values that are kept inline, without a dict. */
bool gm_py_inline_values(struct gm_python *python, uint64_t object, const struct gm_type *type,
        gm_dict_visit visit, void *context);
uint64_t gm_py_attribute(struct gm_python *python, uint64_t object, const char *name);

/* --- values.c --- */
bool gm_py_str_equals(struct gm_python *python, uint64_t object, const char *text);
bool gm_py_int(struct gm_python *python, uint64_t object, int64_t *ret_value);
uint64_t gm_py_size(struct gm_python *python, uint64_t object); /* ob_size, 0 where absurd */
/* A tuple's items, at most max; returns their number. */
size_t gm_py_tuple(struct gm_python *python, uint64_t tuple, uint64_t *ret_items, size_t max);

#endif
