/* Gives the agent, as it begins in a process, what PyTorch's allocator had handed out before
 * (agent/existing.h). */
#ifndef GM_CLI_ATTACH_EXISTING_H
#define GM_CLI_ATTACH_EXISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "ask/context.h"
#include "inject/inject.h"

struct gm_attach_existing {
	struct gm_context *context;
	const struct gm_inject_identity *identity;
	uint64_t variable; /* of the agent; 0: not found yet */
	double until;      /* CLOCK_MONOTONIC, seconds: how long there is time for it */
	bool done;
	double stopped; /* seconds that all threads was stopped for it */
};

/* Reads all that can be read beforehand. Whether the agent is to ask: there is an allocator that
 * has memory. */
bool gm_attach_existing_prepare(struct gm_attach_existing *existing, struct gm_context *context,
        const struct gm_inject_identity *identity);
/* From now on there are so many seconds. */
void gm_attach_existing_limit(struct gm_attach_existing *existing, double seconds);
/* While the agent begins: answers it, once. Of type gm_inject_options.meanwhile. */
void gm_attach_existing_answer(void *existing);

/*
 * For a debugger that has stopped all threads and will start the agent with none of the others
 * running: writes what there is to `table` in the process, of `size` bytes, and tells the agent so.
 * Returns the bytes that it takes, 0: nothing is there; more than `size`: nothing was written.
 */
uint64_t gm_attach_existing_give(struct gm_context *context, uint64_t table, uint64_t size);

#endif
