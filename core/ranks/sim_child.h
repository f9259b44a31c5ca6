/*
 * One rank of a simulated job, as a process: `gpumem run --sim --rank R --world W`, as it is typed
 * in a shell.
 */
#ifndef GM_RANKS_SIM_CHILD_H
#define GM_RANKS_SIM_CHILD_H

#include <sys/types.h>

#include "ranks/sim_folder.h"

struct gm_sim_child {
	pid_t pid; /* and its process group; 0: none runs */
	uint32_t rank;
	double started;
};

struct gm_error *gm_sim_child_start(
        const struct gm_sim_job *job, uint32_t rank, struct gm_sim_child *ret_child);
/* False: it still runs. Otherwise what it did is in *ret_result, and the child is none. */
struct gm_error *gm_sim_child_look(const struct gm_sim_job *job, struct gm_sim_child *child,
        bool *ret_ended, struct gm_sim_result *ret_result);
/* Ends it, with its children. */
void gm_sim_child_stop(struct gm_sim_child *child);

#endif
