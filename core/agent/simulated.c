#include "agent/simulated.h"

#include <stdatomic.h>

#include "agent/lookup.h"

const struct gm_sim_account *gm_agent_simulation(void)
{
	static const struct gm_sim_account *_Atomic account;
	static _Atomic bool looked;
	if (!atomic_load(&looked)) {
		atomic_store(&account, gm_agent_lookup("libgpumem-sim.so", GM_SIM_ACCOUNT_SYMBOL));
		atomic_store(&looked, true);
	}
	const struct gm_sim_account *sim = atomic_load(&account);
	return sim && sim->magic == GM_SIM_ACCOUNT_MAGIC ? sim : NULL;
}
