/*
 * PyTorch's own trace in a process or core, made into a log: what events, steps and why are asked
 * of where nothing was recorded by gpumem.
 */
#ifndef GM_ASK_TRACE_H
#define GM_ASK_TRACE_H

#include "ask/context.h"

/* GM_TARGET: there is no such trace (says how one is made). The caller closes the log. */
struct gm_error *gm_trace_log(struct gm_context *context, struct gm_log **ret_log);

#endif
