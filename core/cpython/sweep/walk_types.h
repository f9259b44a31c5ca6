/* What a walk (walk.h) and a sweep (sweep.h) are asked for, and what they give. */
#ifndef GM_CPYTHON_WALK_TYPES_H
#define GM_CPYTHON_WALK_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "base/address_set.h"

enum { GM_SWEEP_THREADS = 8 };

/* In `extra`, beside an enum gm_edge_kind: the link from an object to its own __dict__. */
enum { GM_WALK_OWN_DICT = 1 << 8 };

/* From one object of the set to another, both by number. References to classes are left out. */
struct gm_walk_reference {
	uint32_t from, to;
	uint32_t extra;
};

/* To an object that is not of the set and may hold something: no str, number or code. The collector
 * does not track it, or not at the moment. */
struct gm_walk_outside {
	uint64_t to;
	uint32_t from;
	uint32_t extra;
};

struct gm_walk_batch {
	struct gm_walk_reference *references;
	size_t reference_count;
	struct gm_walk_outside *outside;
	size_t outside_count;
};

struct gm_walk_result {
	struct gm_walk_batch *batches;
	size_t count;
};

struct gm_walk_options {
	const struct gm_address_set *objects; /* numbered: what references may lead to */
	const uint64_t *addresses;            /* what to walk, ascending; NULL: all of `objects` */
	const uint32_t *numbers;              /* of these; NULL where `addresses` is */
	size_t count;
	unsigned threads; /* 0: as many as the machine has, at most 8 */
	/* Names of types whose own part the caller reads itself: no guesses at it (GM_EDGE_GUESS);
	 * the last is NULL. May be NULL. */
	const char *const *read_by_caller;
};

#endif
