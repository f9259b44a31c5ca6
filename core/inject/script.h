/* A request to the program's own Python. Internal to core/inject. */
#ifndef GM_INJECT_SCRIPT_H
#define GM_INJECT_SCRIPT_H

#include "inject/inject.h"
#include "inject/script_folder.h"

struct gm_script_call {
	struct gm_image *image;
	struct gm_symbols *symbols;
	const struct gm_inject_options *options;
	bool start;
	bool loaded; /* the agent is in the process */
	double until;
	/* filled in by gm_inject_by_script() */
	uint32_t ticket;        /* 0: nothing was asked yet */
	uint64_t function;      /* as in gm_script_text */
	uint64_t thread_result; /* the agent's variable, 0: not found yet */
};

/*
 * Starts or stops the agent by a script that the program's Python runs, and fills in what came of
 * it. An error says why it cannot be done so, as ret_injected->refusal does; then nothing was done,
 * and nothing will be.
 */
struct gm_error *gm_inject_by_script(struct gm_script_call *call, struct gm_injected *ret_injected);
/* Whether the agent was begun by the script after all: it may have come by just as that was
 * withdrawn. */
bool gm_inject_script_came(struct gm_script_call *call, int *ret_result);

#endif
