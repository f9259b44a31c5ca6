/*
 * top: what a recorded process has allocated at this moment, asked again and again. A look costs
 * what happened since the last one and what is allocated now, and not how long the process has run.
 */
#ifndef GM_ASK_TOP_H
#define GM_ASK_TOP_H

#include "ask/blocks.h"
#include "ask/leaks.h"

struct gm_top {
	const struct gm_model *model;
	uint64_t events;
	struct gm_blocks blocks; /* of the main device, by line and phase; without categories */
	struct gm_leaks growing; /* lines of it that left something in the steps so far, which is
	                            there yet */
	uint64_t events_read, blocks_read; /* the work that this look took */
};

/* The log is examined again. */
struct gm_error *gm_ask_top(struct gm_context *context, struct gm_top *ret_top);
void gm_top_deinit(struct gm_top *top);

#endif
