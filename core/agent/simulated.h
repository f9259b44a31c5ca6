/* The simulated device, where the program runs on one. */
#ifndef GM_AGENT_SIMULATED_H
#define GM_AGENT_SIMULATED_H

#include "sim/account.h"

/* What it says of itself; looked up once. NULL: there is none. */
const struct gm_sim_account *gm_agent_simulation(void);

#endif
