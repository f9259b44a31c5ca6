/*
 * What the verdict on an out-of-memory error shares with the lines below it. For oom_verdict.c and
 * oom_remedies.c alone.
 */
#ifndef GM_ASK_OOM_SUMS_H
#define GM_ASK_OOM_SUMS_H

#include "ask/oom/oom_facts.h"

/* Lines beyond GM_OOM_LINES_MAX are left out. */
void gm_oom_add_line(
        struct gm_oom_judgement *judgement, char sign, enum gm_oom_part part, uint64_t bytes);
/* Would the request have been served with so many bytes more? */
bool gm_oom_would_do(
        const struct gm_oom_facts *facts, const struct gm_oom_sums *sums, uint64_t bytes);

#endif
