/*
 * One thread of gm_python_walk() or of a sweep, inside of the cpython room: what it keeps, and how
 * it notes the references that walk_objects.c and walk_arrays.c find.
 */
#ifndef GM_CPYTHON_WALKER_H
#define GM_CPYTHON_WALKER_H

#include <pthread.h>

#include "cpython/python.h"
#include "cpython/sweep/store.h"
#include "cpython/sweep/walk_types.h"

enum {
	GM_WALK_TYPES = 4096,     /* slots of a thread's table of types */
	GM_WALK_ATOMS = 1 << 11,  /* slots of its table of strings and numbers met lately */
	GM_WALK_AHEAD = 16,       /* heads of objects that are fetched before they are examined */
	GM_WALK_FRAMES = 128,     /* of memory that a thread keeps: 8 MiB */
	GM_WALK_FEW_FRAMES = 24,  /* where there is little to walk */
	GM_WALK_LARGE = 64 << 10, /* bytes of an array that are read at a time */
	GM_WALK_MET = 1 << 12,    /* slots of a sweep's table of what was met lately */
	GM_WALK_HEAD = 32,        /* bytes of an object up to its type, at most */
};

/* In a sweep's `extra`: what it leads to was examined, and is no string, number or code. */
#define GM_WALK_LOOKED_AT (UINT32_C(1) << 31)

/* What is to be read of an array or a table that an object owns. */
enum gm_walk_array {
	GM_WALK_ITEMS,  /* `detail` pointers */
	GM_WALK_KEYS,   /* a dict's table */
	GM_WALK_VALUES, /* of a split dict, the keys at `detail` */
	GM_WALK_SET,    /* entries of key and hash, `detail` of them */
};
struct gm_walk_request {
	uint64_t address;
	uint64_t detail;
	uint32_t from, position; /* whose it is: its number, and which of the batch */
	uint16_t array;          /* enum gm_walk_array */
	uint16_t extra;
};

/* A reference that was found after those of the objects after it. */
struct gm_walk_late {
	struct gm_walk_reference reference;
	uint32_t position;
};

/* A type as this walk uses it: NULL where no type is at the address. */
struct gm_walk_type {
	uint64_t address;
	const struct gm_type *type;
	uint32_t inline_count; /* attributes that its class's keys know of */
	int32_t guess_from;    /* as in struct gm_type; 0 where the caller reads it */
	bool special;          /* of a sweep: the caller looks at its objects itself */
};

struct gm_list_walk;

struct gm_walker {
	struct gm_list_walk *walk;
	struct gm_python *python;
	pthread_t thread;
	struct gm_store store;
	struct gm_walk_type types[GM_WALK_TYPES];
	uint64_t atoms[GM_WALK_ATOMS];
	uint64_t shared_keys, shared_count; /* of the split dict seen last */
	uint8_t *large;
	struct gm_address_set large_pages; /* numbers of pages, times 8: read as parts of arrays */
	GM_ARRAY(uint64_t) addresses;      /* of the batch */
	GM_ARRAY(struct gm_walk_request) requests;
	GM_ARRAY(struct gm_walk_outside) unknown;
	GM_ARRAY(struct gm_walk_reference) references; /* by object, as `starts` tells */
	GM_ARRAY(struct gm_walk_outside) slow;         /* of one object of a rare kind */
	GM_ARRAY(uint32_t) starts;
	GM_ARRAY(struct gm_walk_late) late;
	uint32_t position; /* of the object whose references are being found */
	bool is_late;
	GM_ARRAY(struct gm_walk_outside) outside;
	GM_ARRAY(uint8_t) scratch;
	const struct gm_address_chunk *near; /* where the last object was found */
	const struct gm_kept_chunk *near_kept;
	struct gm_walk_head {
		struct gm_walk_outside reference;
		const uint8_t *head; /* NULL: none waits here */
	} ahead[GM_WALK_AHEAD];
	unsigned next_ahead;
	/* Of a sweep (sweep.c): objects have no numbers yet, so references are noted by address in
	 * `raw`. */
	bool by_address;
	GM_ARRAY(struct gm_walk_outside) raw;
	size_t raw_checked,
	        raw_limit; /* squeezed up to here; how many more before it is done again */
	uint64_t raw_most; /* the words of the program's memory: no more can be references */
	void (*squeeze)(struct gm_walker *walker); /* sorts out what was noted, in `raw` */
	struct gm_sweeper *sweeper;
	struct gm_walk_met {
		uint64_t address;
		uint32_t times, looked;
	} met[GM_WALK_MET];
	bool no_memory;
};

struct gm_list_walk {
	struct gm_python *python;
	const struct gm_walk_options *options;
	const char *const *special; /* of a sweep: names of types; may be NULL */
	pthread_mutex_t lock;       /* for the handle's tables of types and code */
};

/* `frames`: of memory that it may keep. NULL: no memory. */
struct gm_walker *gm_walker_create(struct gm_list_walk *walk, size_t frames);
void gm_walker_destroy(struct gm_walker *walker);
/* Sorts out what is unknown, and passes what was found. */
void gm_walk_batch_end(struct gm_walker *walker, struct gm_walk_batch *batch);
/* Notes that a string, number or code is here. */
void gm_walk_is_atom(struct gm_walker *walker, uint64_t address);
/* Where nothing that is at hand is of use any more: notes may be sorted out. */
static inline void gm_walk_pause(struct gm_walker *walker)
{
	if (walker->by_address && walker->raw.count - walker->raw_checked > walker->raw_limit)
		walker->squeeze(walker);
}
enum gm_looked { GM_NOT_LOOKED, GM_HOLDS_NOTHING, GM_NO_OBJECT, GM_MAY_HOLD };
/* What is at an address, by its first bytes. */
enum gm_looked gm_walk_look_at(struct gm_walker *walker, uint64_t target, const uint8_t *head);
/* The same, of an address anywhere. */
enum gm_looked gm_walk_look_there(struct gm_walker *walker, uint64_t target);
/* Is it a count that the object at `head` begins with? A capsule, or a field that is guessed to be
 * one, may lead to a table of pointers, of which the second is a class; no count is as large as the
 * first. */
bool gm_walk_is_counted(const struct gm_walker *walker, const uint8_t *head);
/* The type at an address; NULL: there is none. Until the next call. The look-up of one seen before
 * takes no lock. */
const struct gm_walk_type *gm_walk_type_at(struct gm_walker *walker, uint64_t address);
/* Notes a reference: known, or to be examined when those that nothing keeps are sorted. */
void gm_walk_emit(struct gm_walker *walker, uint32_t from, uint64_t target, uint32_t extra);
/* Looks at those that wait for it. */
void gm_walk_emit_rest(struct gm_walker *walker);
/* walk_objects.c: the objects of a batch, ascending; `numbers` may be NULL: they count from `first`
 * on. */
void gm_walk_objects(struct gm_walker *walker, const uint64_t *addresses, const uint32_t *numbers,
        uint32_t first, size_t count);
/* walk_arrays.c: one array; `head` has as many of its bytes as tell what it is. */
size_t gm_walk_head_size(const struct gm_walker *walker, const struct gm_walk_request *request);
void gm_walk_array(
        struct gm_walker *walker, const struct gm_walk_request *request, const uint8_t *head);
/* The arrays that they own and that were not at hand. */
void gm_walk_arrays(struct gm_walker *walker);

#endif
