/* Whether and how a kernel is computed. */
#ifndef GM_SIM_PLAN_H
#define GM_SIM_PLAN_H

#include "sim/kernels/kernels.h"

/* True where it was computed. `plan` is the kernel's own place for its plan. */
bool gm_sim_kernel_compute(const char *mangled, struct gm_sim_plan *_Atomic *plan,
        const struct gm_sim_kernel_launch *launch);
/* True where it is small enough to be computed; nothing is read or changed. */
bool gm_sim_kernel_fits(const char *mangled, struct gm_sim_plan *_Atomic *plan,
        const struct gm_sim_kernel_launch *launch);
/* True where there is a plan for the kernel, so that a launch of it is worth keeping. */
bool gm_sim_kernel_planned(const char *mangled, struct gm_sim_plan *_Atomic *plan);

#endif
