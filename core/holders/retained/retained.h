/*
 * Retained bytes: how much of a device's memory would be freed with each variable.
 *
 * The dominator tree of the references (holders.h) shows which blocks would be freed with an
 * object. The answer is a tree of names: variables, and within each the parts that a user knows.
 * Blocks that several variables share are in a group for these; blocks without a known reference
 * are unknown. The groups of a level add up to the one above, and the first level to the
 * allocator's allocated bytes.
 */
#ifndef GM_HOLDERS_RETAINED_H
#define GM_HOLDERS_RETAINED_H

#include "holders/holders.h"
#include "holders/retained/answer.h"

/* host: tensors in host memory instead. GM_INTERNAL: no memory. */
struct gm_error *gm_holders_retained(
        struct gm_holders *holders, bool host, struct gm_retained *ret_retained);

#endif
