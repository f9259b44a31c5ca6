#include "ask/oom/oom_sums.h"
#include "ask/oom/oom_facts.h"

void gm_oom_add_line(
        struct gm_oom_judgement *judgement, char sign, enum gm_oom_part part, uint64_t bytes)
{
	if (judgement->line_count < GM_OOM_LINES_MAX)
		judgement->lines[judgement->line_count++] =
		        (struct gm_oom_line){.sign = sign, .part = part, .bytes = bytes};
}

bool gm_oom_would_do(
        const struct gm_oom_facts *facts, const struct gm_oom_sums *sums, uint64_t bytes)
{
	return gm_oom_known(sums->missing) ? sums->missing > 0 && bytes >= sums->missing
	                                   : gm_oom_known(facts->needed) && bytes >= facts->needed;
}
