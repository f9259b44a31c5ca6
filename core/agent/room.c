/* Where `gpumem attach` keeps what it once mapped here, for the next time: it writes these
 * itself. */
#include "agent/agent.h"

GM_AGENT_EXPORT extern uint64_t gpumem_agent_room[2];
uint64_t gpumem_agent_room[2];
