/* What stands below a verdict on an out-of-memory error. Internal to core/ask. */
#ifndef GM_ASK_OOM_REMEDIES_H
#define GM_ASK_OOM_REMEDIES_H

#include "ask/oom/oom_facts.h"

/* The arithmetic of the device, and what would have been enough, to a verdict that stands. */
void gm_oom_add_arithmetic(const struct gm_oom_facts *facts, struct gm_oom_judgement *judgement);
void gm_oom_add_remedies(const struct gm_oom_facts *facts, struct gm_oom_judgement *judgement);

#endif
