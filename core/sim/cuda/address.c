/* Which device an address belongs to: a device of this process, one for which a mapping was made,
 * or another process's. */
#include "sim/cuda/sim.h"

struct gm_sim_device *gm_sim_device_of(const void *address)
{
	struct gm_sim_device *own = gm_sim_device_mapped(address);
	if (own)
		return own;
	struct gm_sim_view view;
	if (gm_sim_vmm_find(address, &view))
		return view.device;
	return gm_sim_foreign_of(address);
}
