/*
 * leaks: lines that leave more behind each time a loop goes round: a step, an epoch, any loop
 * around the steps.
 *
 * A line leaks where blocks that it allocates in iterations all over the run are all still there at
 * its end, or where it joins what comes to its one block (core/ask/recording/growth.h). What is
 * kept for a while and replaced (the last output, a window of the last ten losses) does not: of its
 * older blocks none is left. The last step's blocks never count, as the next step may free them.
 *
 * Where the process still lives, or a core of it is there, the blocks are joined to what holds them
 * now.
 */
#ifndef GM_ASK_LEAKS_H
#define GM_ASK_LEAKS_H

#include "ask/context.h"
#include "ask/recording/leak.h"

struct gm_error *gm_ask_leaks(struct gm_context *context, struct gm_leaks *ret_leaks);
/* The same of given blocks of the main device, which are allocated now: costs as many as there are.
 * Categories are not told. */
struct gm_error *gm_leaks_among(const struct gm_model *model, const uint32_t *blocks, size_t count,
        struct gm_leaks *ret_leaks);
/* Asks the context's process or core who holds each line's oldest block (the latest may be in a
 * variable of the step in progress too): joined by the block's address, and only where a storage of
 * its size is there. At most GM_LEAK_HOLDERS_MAX lines are asked about. */
struct gm_error *gm_ask_leaks_holders(struct gm_context *context, struct gm_leaks *leaks);

#endif
