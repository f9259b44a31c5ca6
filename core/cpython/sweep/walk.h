/*
 * What all of Python's objects refer to, at once: gm_python_references() for a million objects,
 * some thirty times as fast, without names.
 *
 * Objects are gone through in the order of their addresses, in batches that a few threads take. The
 * tables and arrays that an object owns, and the heads of what it refers to and the set of objects
 * does not have, are looked at at once where the image keeps them (image/kept.h); else those of a
 * batch are sorted by address, so that memory is read forward in large parts. The outcome depends
 * neither on that nor on the threads.
 */
#ifndef GM_CPYTHON_WALK_H
#define GM_CPYTHON_WALK_H

#include "base/address_set.h"
#include "cpython/cpython.h"

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

/* GM_INTERNAL (no memory) only: what cannot be read is left out. */
struct gm_error *gm_python_walk(struct gm_python *python, const struct gm_walk_options *options,
        struct gm_walk_result *ret_result);
void gm_walk_result_deinit(struct gm_walk_result *result);

#endif
