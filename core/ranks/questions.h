/* The questions about a job, one command each. */
#ifndef GM_RANKS_QUESTIONS_H
#define GM_RANKS_QUESTIONS_H

#include "ranks/command.h"

extern const struct gm_ranks_command gm_ranks_info, gm_ranks_peak, gm_ranks_diff, gm_ranks_steps,
        gm_ranks_phases, gm_ranks_leaks, gm_ranks_oom, gm_ranks_timeline, gm_ranks_zero;

#endif
