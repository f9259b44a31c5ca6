/*
 * The question `retained`: of all device memory at this moment of a live process or in a core dump,
 * which variable, if it went away, would free how much.
 *
 * It asks core/holders, and checks the sum against the allocator's own figure.
 */
#ifndef GM_ASK_RETAINED_H
#define GM_ASK_RETAINED_H

#include "ask/context.h"
#include "ask/target/pause.h"
#include "holders/retained/retained.h"

struct gm_retained_answer {
	struct gm_retained retained;
	struct gm_holders_cost cost;
	/* by retained.devices: what the allocator's own statistics say, 0 where they cannot be
	 * read */
	uint64_t *allocator_bytes;
	struct gm_pause pause;
};

/* host: tensors in host memory. GM_TARGET: no process, no PyTorch, or no CUDA memory in it. */
struct gm_error *gm_ask_retained(
        struct gm_context *context, bool host, struct gm_retained_answer *ret_answer);
void gm_retained_answer_deinit(struct gm_retained_answer *answer);

#endif
