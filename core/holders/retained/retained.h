/*
 * Retained bytes: of all blocks of a device, which variable, if it went away, would free how much.
 *
 * The dominators' tree of the references (holders.h) says which object's end would be the end of
 * which blocks. It is told as a tree of names: variables; within each, what a user would call its
 * parts. Blocks that no single variable keeps are in a group of those that share them; those that
 * nothing found refers to are unknown. All groups of one level add up to the one above, and the
 * first level to what the allocator calls allocated.
 */
#ifndef GM_HOLDERS_RETAINED_H
#define GM_HOLDERS_RETAINED_H

#include "holders/holders.h"
#include "holders/retained/answer.h"

/* host: tensors in host memory instead. GM_INTERNAL: no memory. */
struct gm_error *gm_holders_retained(
        struct gm_holders *holders, bool host, struct gm_retained *ret_retained);

#endif
