/*
 * leaks: lines whose memory grows with each iteration of a loop: of the steps, the epochs, or any
 * other loop around the steps.
 *
 * A line leaks if blocks that it allocates in iterations throughout the run are all still alive at
 * the end, or if it appends to its one block (core/ask/recording/growth.h). Memory that is kept for
 * a while and replaced (the last output, a window of the last ten losses) is no leak: none of its
 * older blocks is alive. Blocks of the last step never count, because the next step may free them.
 *
 * With a live process or a core, the answer also has the current holders of the blocks.
 */
#ifndef GM_ASK_LEAKS_H
#define GM_ASK_LEAKS_H

#include "ask/context.h"
#include "ask/recording/growth.h"
#include "ask/recording/leak.h"

/* Of the main device. */
struct gm_error *gm_ask_leaks(struct gm_context *context, struct gm_leaks *ret_leaks);
/* Of another one; SIZE_MAX: the main device. */
struct gm_error *gm_ask_leaks_of(
        struct gm_context *context, size_t device, struct gm_leaks *ret_leaks);
/* The same of given blocks of the main device, which are allocated now: costs as many as there are.
 * Categories are not shown. */
struct gm_error *gm_leaks_among(const struct gm_model *model, const uint32_t *blocks, size_t count,
        struct gm_leaks *ret_leaks);
/* The same of one loop, of any device, for the iterations `from` to `to` and the blocks that are
 * there after the level's last event. `ret_shares`: the blocks that its leaks left (of one that
 * joins: the one block); the caller frees them. */
struct gm_error *gm_leaks_of_loop(const struct gm_model *model, size_t device,
        const struct gm_level *level, struct gm_leaks *ret_leaks, struct gm_share **ret_shares,
        size_t *ret_count);
/* Asks the context's process or core who holds the oldest block that each line left in the
 * iterations that were examined (the latest may be in a variable of the step in progress too):
 * joined by the block's address, and only where a storage of its size is there. At most
 * GM_LEAK_HOLDERS_MAX lines are asked about. */
struct gm_error *gm_ask_leaks_holders(struct gm_context *context, struct gm_leaks *leaks);

#endif
