/* The verdict on an out-of-memory error in words. Each text is the caller's to free; NULL: no
 * memory. */
#ifndef GM_RENDER_OOM_VERDICT_H
#define GM_RENDER_OOM_VERDICT_H

#include "ask/oom/oom_facts.h"

/* The judgement is one of these facts and has a verdict. */
char *gm_oom_sentence(const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement);
/* What grows, and how far a setting of the allocator would go; "": nothing is known to grow. */
char *gm_oom_growth_text(
        const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement);
/* A line of its arithmetic: what the bytes are. */
char *gm_oom_line_text(const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement,
        const struct gm_oom_line *line);
/* oom_remedies.c: what would have been enough, or why that would not. */
char *gm_oom_remedy_text(const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement,
        const struct gm_oom_remedy *remedy);

#endif
