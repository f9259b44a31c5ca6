/* What the files of a sweep share: sweep.c (chunks), sweep_lists.c (are they all?), sweep_resolve.c
 * (what they refer to), sweep_pools.c, sweep_squeeze.c. */
#ifndef GM_CPYTHON_SWEEP_INSIDE_H
#define GM_CPYTHON_SWEEP_INSIDE_H

#include <stdatomic.h>

#include "cpython/sweep/pools.h"
#include "cpython/sweep/walker.h"

enum { GM_SWEEP_GROUP = 1 << 16 /* references that become a batch, or a few more */ };

/* What the objects of one chunk refer to; or what one object does by a table or an array that lay
 * in other chunks. */
struct gm_sweep_part {
	uint64_t first_object; /* its address: they are sorted by it */
	size_t first, count;   /* of references, of one holder after the other */
	uint32_t thread;
	uint32_t chunk; /* in `parts`: which is its chunk's, it itself or one before it; until then
	                   GM_SWEEP_LATE or 0 */
};

/* A part of one object, whose table or array was not at hand when its chunk was. */
enum { GM_SWEEP_LATE = 1 };

struct gm_sweeper {
	struct gm_walker *walker; /* its references: `from` counts this thread's objects */
	struct gm_address_set found, linked;
	struct gm_address_set others; /* not tracked by the collector, and no strings or numbers */
	GM_ARRAY(uint64_t) objects;   /* both */
	GM_ARRAY(uint64_t) special;   /* others of the types that the caller looks at itself */
	GM_ARRAY(struct gm_sweep_part) parts;
	size_t part_first;    /* where the references of the part begin that is being made */
	size_t checked_parts; /* up to which they were squeezed */
	uint64_t shown;       /* bytes */
	GM_ARRAY(struct gm_pool_place) pools;
	struct gm_pool_object chunk[GM_CHUNK_POOL_MOST];
	uint64_t addresses[GM_CHUNK_POOL_MOST];
	bool no_memory;
};

struct gm_sweep {
	struct gm_list_walk walk;
	struct gm_walk_options options;
	struct gm_sweeper *sweepers[GM_SWEEP_THREADS];
	uint64_t words;       /* of the program's memory */
	uint64_t expected;    /* its bytes, for each thread */
	uint64_t least_noted; /* bytes of references that a thread may note in any case */
	atomic_bool missed;
	GM_ARRAY(uint64_t)
	followed; /* objects that were found by the lists' links alone, by address */
	/* of resolving */
	const struct gm_address_set *objects;
	struct gm_address_set others;
	GM_ARRAY(uint64_t) special; /* by address */
	GM_ARRAY(struct gm_sweep_part) parts;
	GM_ARRAY(size_t) groups;     /* where each begins, in parts */
	struct gm_pool_place *pools; /* by hash */
	size_t pool_capacity;        /* a power of two */
	struct gm_walk_batch *batches;
	GM_ARRAY(struct gm_walk_outside)
	unknown;                 /* to what may be a string or a number: of all groups */
	GM_ARRAY(size_t) ranges; /* of it, once it is sorted */
	struct gm_walker *idle[GM_SWEEP_THREADS]; /* that no thread uses */
	size_t idle_count;
	bool no_memory;
};

/* The thread's own; NULL: no memory. */
struct gm_sweeper *gm_sweeper_of(struct gm_sweep *sweep, unsigned thread);
/* sweep_squeeze.c: sorts out what was noted. */
void gm_sweep_squeeze(struct gm_walker *walker);
/* sweep_pools.c: makes the table of pools; false: no memory. */
bool gm_sweep_gather_pools(struct gm_sweep *sweep);
/* Does a block begin here whose object, if it has one, was examined? */
bool gm_sweep_is_block(const struct gm_sweep *sweep, uint64_t address);

#endif
