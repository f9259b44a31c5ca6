/* The facts below a verdict on an out-of-memory error: where the device's memory is, and what would
 * have been enough. */
#include "ask/oom/oom_remedies.h"

#include "ask/oom/oom_sums.h"
#include "ask/oom/oom_facts.h"

/* Memory in use outside PyTorch, by owner, as far as the owner is known. */
static void add_outside(const struct gm_oom_facts *facts, struct gm_oom_judgement *judgement)
{
	const struct gm_oom_sums *sums = &judgement->sums;
	bool others_known = gm_oom_known(sums->others);
	uint64_t listed = 0;
	if (!gm_oom_known(sums->outside))
		return;
	if (others_known && !facts->other_count && sums->others) {
		uint64_t own = sums->outside > sums->others ? sums->outside - sums->others : 0;
		gm_oom_add_line(judgement, '-', GM_OOM_PART_OWN_OUTSIDE, own);
		gm_oom_add_line(judgement, '-', GM_OOM_PART_PROCESSES, sums->outside - own);
		return;
	}
	for (size_t i = 0; i < facts->other_count; i++) {
		gm_oom_add_line(judgement, '-', GM_OOM_PART_PROCESS, facts->others[i].bytes);
		judgement->lines[judgement->line_count - 1].process = i;
		listed += facts->others[i].bytes;
	}
	gm_oom_add_line(judgement, '-',
	        listed         ? GM_OOM_PART_REST_OUTSIDE
	        : others_known ? GM_OOM_PART_OWN_OUTSIDE
	                       : GM_OOM_PART_OUTSIDE,
	        sums->outside > listed ? sums->outside - listed : 0);
}

void gm_oom_add_arithmetic(const struct gm_oom_facts *facts, struct gm_oom_judgement *judgement)
{
	const struct gm_oom_sums *sums = &judgement->sums;
	if (!gm_oom_known(facts->total) || !gm_oom_known(facts->reserved))
		return;
	gm_oom_add_line(judgement, ' ', GM_OOM_PART_DEVICE, facts->total);
	gm_oom_add_line(judgement, '-', GM_OOM_PART_TENSORS, facts->allocated);
	if (gm_oom_or_zero(facts->pending))
		gm_oom_add_line(judgement, '-', GM_OOM_PART_PENDING, facts->pending);
	if (!facts->rounded &&
	        gm_oom_or_zero(facts->private_pools)) /* PyTorch's text includes these bytes in the
	                                                 first figure */
		gm_oom_add_line(judgement, '-', GM_OOM_PART_PRIVATE_POOLS, facts->private_pools);
	if (facts->unallocated)
		gm_oom_add_line(judgement, '-', GM_OOM_PART_FRAGMENTS, sums->fragments_bytes);
	add_outside(facts, judgement);
	if (gm_oom_known(facts->free)) {
		gm_oom_add_line(judgement, '=', GM_OOM_PART_FREE, facts->free);
		if (!sums->limited && sums->missing)
			gm_oom_add_line(judgement, ' ', GM_OOM_PART_NEEDED, facts->needed);
	}
}

static struct gm_oom_remedy *add_remedy(struct gm_oom_judgement *judgement,
        enum gm_oom_remedy_kind kind, enum gm_oom_answer sufficient, uint64_t bytes)
{
	/* each kind once: there is one place for each */
	struct gm_oom_remedy *remedy = &judgement->remedies[judgement->remedy_count++];
	*remedy = (struct gm_oom_remedy){.kind = kind, .sufficient = sufficient, .bytes = bytes};
	return remedy;
}

static enum gm_oom_answer yes_if(bool condition)
{
	return condition ? GM_OOM_YES : GM_OOM_NO;
}

static void add_expandable(const struct gm_oom_facts *facts, struct gm_oom_judgement *judgement)
{
	const struct gm_oom_sums *sums = &judgement->sums;
	if (facts->expandable) {
		add_remedy(judgement, GM_OOM_EXPANDABLE_SEGMENTS, GM_OOM_NO, 0);
		return;
	}
	/*
	 * With expandable segments the same requests would be at other addresses. All fragments
	 * together are an upper bound of the gain; the large fragments are a lower bound, because
	 * small blocks lie between other blocks there too.
	 */
	uint64_t sure = gm_oom_or_zero(facts->movable);
	/* Segments grow in steps of 2 MiB, and a block leaves up to 1 MiB of its segment unused,
	 * which does not happen in an expandable segment. A text does not say how much that is:
	 * seldom more than a hundredth. */
	uint64_t most = sums->fragments_bytes +
	                (gm_oom_known(facts->rounding) ? facts->rounding
	                                               : gm_oom_or_zero(facts->allocated) / 100);
	add_remedy(judgement, GM_OOM_EXPANDABLE_SEGMENTS,
	        gm_oom_would_do(facts, sums, sure)   ? GM_OOM_YES
	        : gm_oom_would_do(facts, sums, most) ? GM_OOM_MAYBE
	                                             : GM_OOM_NO,
	        sure)
	        ->most = most;
}

/* Of the blocks that wait for a stream, whole segments could be released, and a block that is large
 * enough could be used. */
static void add_waiting(const struct gm_oom_facts *facts, struct gm_oom_judgement *judgement)
{
	uint64_t missing = gm_oom_missing(facts, &judgement->sums);
	bool enough = gm_oom_or_zero(facts->waited_whole) >= missing ||
	              gm_oom_or_zero(facts->waited_largest) >= facts->requested;
	bool perhaps = facts->pending + judgement->sums.fragments_bytes >= missing;
	add_remedy(judgement, GM_OOM_WAIT_FOR_STREAM,
	        enough    ? GM_OOM_YES
	        : perhaps ? GM_OOM_MAYBE
	                  : GM_OOM_NO,
	        facts->pending);
}

void gm_oom_add_remedies(const struct gm_oom_facts *facts, struct gm_oom_judgement *judgement)
{
	const struct gm_oom_sums *sums = &judgement->sums;
	if (judgement->verdict == GM_OOM_UNKNOWN)
		return;
	uint64_t missing = gm_oom_missing(facts, sums);
	if (gm_oom_known(facts->total) && facts->needed > facts->total) {
		add_remedy(judgement, GM_OOM_SMALLER_REQUEST, GM_OOM_YES, 0);
		return;
	}
	if (judgement->verdict == GM_OOM_OUTSIDE)
		add_remedy(judgement, GM_OOM_LESS_OUTSIDE, GM_OOM_YES, missing);
	if (gm_oom_or_zero(facts->pending))
		add_waiting(facts, judgement);
	if (sums->limited)
		add_remedy(judgement, GM_OOM_HIGHER_LIMIT,
		        yes_if(gm_oom_or_zero(facts->free) >= facts->needed),
		        facts->reserved + facts->needed);
	add_remedy(judgement, GM_OOM_FREE_MEMORY, GM_OOM_YES, missing);
	add_expandable(facts, judgement);
	uint64_t whole = gm_oom_or_zero(facts->whole_free);
	add_remedy(
	        judgement, GM_OOM_EMPTY_CACHE, yes_if(gm_oom_would_do(facts, sums, whole)), whole);
	if (gm_oom_or_zero(facts->private_pools))
		add_remedy(judgement, GM_OOM_FEWER_POOLS,
		        facts->private_pools >= missing ? GM_OOM_MAYBE : GM_OOM_NO,
		        facts->private_pools);
}

const char *gm_oom_remedy_name(enum gm_oom_remedy_kind kind)
{
	static const char *const names[] = {
	        [GM_OOM_SMALLER_REQUEST] = "smaller_request",
	        [GM_OOM_LESS_OUTSIDE] = "outside",
	        [GM_OOM_WAIT_FOR_STREAM] = "wait_for_stream",
	        [GM_OOM_HIGHER_LIMIT] = "limit",
	        [GM_OOM_FREE_MEMORY] = "free_memory",
	        [GM_OOM_EXPANDABLE_SEGMENTS] = "expandable_segments",
	        [GM_OOM_EMPTY_CACHE] = "empty_cache",
	        [GM_OOM_FEWER_POOLS] = "private_pools",
	};
	return names[kind];
}
