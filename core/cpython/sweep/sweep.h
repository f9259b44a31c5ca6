/*
 * All objects that Python's collector tracks, and their references, found in one pass over memory
 * that the caller reads: gm_sweep_chunks() gets each chunk, finds the objects in it, and notes
 * their references by address while the objects are in the processor's cache. Following the
 * collector's lists instead would need one thread to go from object to object before the references
 * could be read: twice through the heap, in random order.
 *
 * The lists are still the authority. Each object has the next object of its list; if that one was
 * not found, the list is followed there. If then each object is the next of exactly one, and
 * nothing else is, the found objects are exactly those of the lists. Otherwise (a running process,
 * a collection in progress, another allocator, damaged memory) the sweep fails, and the caller must
 * follow the lists.
 */
#ifndef GM_CPYTHON_SWEEP_H
#define GM_CPYTHON_SWEEP_H

#include "cpython/cpython.h"
#include "cpython/sweep/walk_types.h"
#include "image/image.h"
#include "image/kept.h"

struct gm_sweep;

/* `read_by_caller` as in struct gm_walk_options; `special`: names of types, see
 * gm_sweep_is_plain(). NULL: no memory. */
struct gm_sweep *gm_sweep_create(
        struct gm_python *python, const char *const *read_by_caller, const char *const *special);
void gm_sweep_destroy(struct gm_sweep *sweep);
/* By one of up to GM_SWEEP_THREADS threads at once, each with a number of its own. The chunks
 * follow one another; they need not be read whole. No byte may be shown twice. */
void gm_sweep_chunks(
        struct gm_sweep *sweep, unsigned thread, const struct gm_kept_chunk *chunks, size_t count);
/* Could objects be in [start, end) of this mapping, 16 MiB at most? If not, its chunks are to be
 * shown to gm_sweep_check() only, by any thread and at any time: should there be objects in them
 * after all, the sweep is not whole. */
bool gm_sweep_wants(
        struct gm_sweep *sweep, const struct gm_mapping *mapping, uint64_t start, uint64_t end);
void gm_sweep_check(struct gm_sweep *sweep, const struct gm_kept_chunk *chunks, size_t count);
/* Was there one? Once all are shown. */
bool gm_sweep_missed(const struct gm_sweep *sweep);
/* By each of these threads at its end: tables and arrays that lay in other chunks. */
void gm_sweep_rest(struct gm_sweep *sweep, unsigned thread);
/* The objects, not numbered yet, once all chunks were shown. False: they are not what the lists
 * have (or there is no memory), and ret_objects is not touched. */
bool gm_sweep_objects(struct gm_sweep *sweep, struct gm_address_set *ret_objects);
/* What they refer to, as gm_python_walk() gives it, once they have numbers; only once. */
struct gm_error *gm_sweep_references(struct gm_sweep *sweep, const struct gm_address_set *objects,
        struct gm_walk_result *ret_result);

/* The same for objects that the collector does not track, `addresses` ascending; of most of them
 * the sweep knows it. */
struct gm_error *gm_sweep_untracked(struct gm_sweep *sweep, const uint64_t *addresses,
        const uint32_t *numbers, size_t count, struct gm_walk_result *ret_result);
/* Is it known to be an object that the collector does not track, and of none of the special
 * types? */
bool gm_sweep_is_plain(const struct gm_sweep *sweep, uint64_t object);

#endif
