/* The error itself, in a process or core. Internal to core/ask. */
#ifndef GM_ASK_OOM_FIND_H
#define GM_ASK_OOM_FIND_H

#include "ask/context.h"
#include "ask/oom/oom_answer.h"

/* The error of a process or core; fills what is known of it. */
struct gm_error *gm_oom_find(struct gm_context *context, struct gm_oom *oom);

#endif
