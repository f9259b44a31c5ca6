/* Whether autograd records in the thread. */
#ifndef GM_AGENT_GRAD_MODE_H
#define GM_AGENT_GRAD_MODE_H

#include "agent/agent.h"

/* The bit of an event that says that autograd does not record in this thread, or 0 */
uint32_t gm_agent_grad_bits(const struct gm_agent_event *event);
void gm_agent_grad_mode_begin(void); /* a file begins */

#endif
