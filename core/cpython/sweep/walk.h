/*
 * The references of all Python objects at once: gm_python_references() for a million objects, about
 * thirty times as fast, without names.
 *
 * A few threads process the objects in batches, ordered by address. The tables and arrays that an
 * object owns, and the heads of referents outside the set of objects, are examined immediately if
 * the image keeps them (image/kept.h). Otherwise those of a batch are sorted by address, so that
 * memory is read forward in large parts. The result depends neither on this nor on the threads.
 */
#ifndef GM_CPYTHON_WALK_H
#define GM_CPYTHON_WALK_H

#include "cpython/cpython.h"
#include "cpython/sweep/walk_types.h"

/* GM_INTERNAL (no memory) only: what cannot be read is left out. */
struct gm_error *gm_python_walk(struct gm_python *python, const struct gm_walk_options *options,
        struct gm_walk_result *ret_result);
void gm_walk_result_deinit(struct gm_walk_result *result);

#endif
