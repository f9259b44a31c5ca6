/* A launch with copies of its arguments: what a graph keeps of it. */
#ifndef GM_SIM_CAPTURED_H
#define GM_SIM_CAPTURED_H

#include "sim/kernels/kernels.h"

struct gm_sim_kept;
/* NULL where the arguments cannot be determined. */
struct gm_sim_kept *gm_sim_launch_keep(
        const char *mangled, const struct gm_sim_kernel_launch *launch);
const struct gm_sim_kernel_launch *gm_sim_kept_launch(const struct gm_sim_kept *kept);
struct gm_sim_kept *gm_sim_kept_again(struct gm_sim_kept *kept);
void gm_sim_kept_free(struct gm_sim_kept *kept);

#endif
