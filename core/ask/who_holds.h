/*
 * The question `who-holds`: what keeps a block of memory alive, at this moment of a live process or
 * in a core dump.
 *
 * It asks core/holders; here a block is found by what a user types. What held a block earlier is
 * the question `why`.
 */
#ifndef GM_ASK_WHO_HOLDS_H
#define GM_ASK_WHO_HOLDS_H

#include "ask/context.h"
#include "ask/target/pause.h"
#include "holders/holders.h"

struct gm_who_holds {
	struct gm_holders_answer answer;
	struct gm_holders_cost cost;
	struct gm_pause pause;
	bool complete; /* the answer is, and of one moment */
};

/*
 * block: an address ("0x7f…", anywhere within the block), "#N" (the number of the event of the
 * context's log that allocated it) or a variable path of the selected thread, else the main one
 * ("self.cache['kept']"). GM_USAGE: cannot be read so; no such variable, or no tensor. GM_TARGET:
 * an address in no block in use (says what is there), a block that is gone, or a process that
 * cannot be read.
 */
struct gm_error *gm_ask_who_holds(
        struct gm_context *context, const char *block, struct gm_who_holds *ret_result);
void gm_who_holds_deinit(struct gm_who_holds *result);

/* The address that `block` names, as above. For other questions about a live block too. */
struct gm_error *gm_ask_block_address(
        struct gm_context *context, const char *block, uint64_t *ret_address);

#endif
