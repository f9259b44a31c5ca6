/*
 * What all of Python's objects refer to, at once: gm_python_references() for a million objects,
 * some thirty times as fast, without names.
 *
 * Objects are gone through in the order of their addresses, in batches that a few threads take. The
 * tables and arrays that an object owns, and the heads of what it refers to and the set of objects
 * does not have, are examined at once where the image keeps them (image/kept.h); else those of a
 * batch are sorted by address, so that memory is read forward in large parts. The outcome depends
 * neither on that nor on the threads.
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
