/*
 * `gpumem-ranks sim`: runs the ranks of a job on the simulated device, one after the other in each
 * of the processes that MPI started. Process 0 gives them out, each to the process that is free:
 * so the work is balanced by the time that ranks really take.
 */
#ifndef GM_RANKS_SIM_H
#define GM_RANKS_SIM_H

#include "ranks/command.h"

extern const struct gm_ranks_command gm_ranks_sim;

#endif
