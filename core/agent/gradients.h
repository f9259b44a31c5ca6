/* Which gradients are not finite, when GradScaler finds that one is not. */
#ifndef GM_AGENT_GRADIENTS_H
#define GM_AGENT_GRADIENTS_H

#include "agent/agent.h"

/* Writes a record of a check (amp.c). */
typedef void gm_agent_put_seen(
        enum gm_agent_amp kind, uint32_t number, const double *values, unsigned count);

/*
 * The gradients of a check, by their TensorImpls, after it; `found_inf`: the check's result. Where
 * it can be read on the host and says that something was found, the gradients that can be read too
 * are examined. Between enter and leave.
 */
void gm_agent_gradients_checked(const uint64_t *gradients, size_t count, uint64_t found_inf,
        uint32_t number, gm_agent_put_seen *put);

#endif
