#include "sim/kernels/kernels.h"
bool gm_sim_various_plan(struct gm_sim_text name, struct gm_sim_text base,
        const struct gm_sim_text *arguments, unsigned count, struct gm_sim_plan *ret)
{
	return false;
}
