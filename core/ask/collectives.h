/*
 * Collectives in a recording: each call that moves data between ranks, with its place in the order
 * of the events, its step and its phase; and the calls of one step and phase taken together.
 */
#ifndef GM_ASK_COLLECTIVES_H
#define GM_ASK_COLLECTIVES_H

#include "ask/context.h"
#include "ask/recording/place.h"
#include "model/model.h"

struct gm_collective {
	struct gm_log_collective call;
	uint32_t after; /* the last event before it; GM_NO_EVENT: none */
	uint32_t step;  /* 0: none */
	enum gm_phase phase;
	/* Blocks that begin where the call sends from and receives at; GM_NO_BLOCK: none, or it is
	 * within a block. */
	uint32_t send_block, receive_block;
};

/* Calls of one kind in a step and phase, by one group and of one dtype. */
struct gm_collective_group {
	uint32_t step;
	enum gm_phase phase;
	uint32_t kind, group, dtype;
	uint32_t first, last; /* in gm_collectives.items */
	uint64_t calls, send_bytes, receive_bytes;
};

struct gm_collectives {
	const struct gm_model *model;
	struct gm_collective *items; /* in the order of their calls */
	size_t count;
	struct gm_collective_group *groups; /* in the order of their first calls */
	size_t group_count;
};

struct gm_error *gm_ask_collectives(
        struct gm_context *context, struct gm_collectives *ret_collectives);
/* The same without the blocks, for an answer of which they are a part. */
struct gm_error *gm_collectives_find(
        const struct gm_model *model, struct gm_collectives *ret_collectives);
/* The innermost frame of the program's own code; where there is none, as in a hook that autograd
 * calls, the innermost one that is not of torch.distributed's collectives themselves. False: the
 * call has no Python stack. */
bool gm_collective_place(const struct gm_log *log, const struct gm_log_collective *call,
        struct gm_frame_place *ret_place);
void gm_collectives_deinit(struct gm_collectives *collectives);

#endif
