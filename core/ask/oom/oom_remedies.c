/* The facts below a verdict on an out-of-memory error: where the device's memory is, and what would
 * have been enough. */
#include "ask/oom/oom_remedies.h"

#include "ask/oom/oom_sums.h"
#include "ask/oom/oom_facts.h"
#include "torch/allocator.h"

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

/* How many iterations more a remedy gives a loop that grows, with so many bytes gained, if it is
 * enough; 0: nothing is known to grow. */
static uint64_t delay(const struct gm_oom_facts *facts, uint64_t missing, uint64_t gained)
{
	if (!facts->growth || !facts->growth->each_needs)
		return 0;
	return gained < missing ? 1 : (gained - missing) / facts->growth->each_needs + 1;
}

/* After how many iterations so much is there again. */
static uint64_t regrown(const struct gm_oom_facts *facts, uint64_t bytes)
{
	if (!facts->growth || !facts->growth->each)
		return 0;
	uint64_t iterations = bytes / facts->growth->each;
	return iterations ? iterations : 1;
}

/* What a segment for the request would have beyond the request itself. One that grows by pages may
 * have a page of which only so much is free. A text has the size of the segment alone. */
static uint64_t spare(const struct gm_oom_facts *facts)
{
	if (!gm_oom_known(facts->requested) || facts->needed < facts->requested)
		return 0;
	if (facts->rounded && facts->requested == GM_TORCH_LARGE_SEGMENT)
		return facts->requested - GM_TORCH_SMALL_REQUEST;
	if (facts->rounded && facts->requested == GM_TORCH_SMALL_SEGMENT)
		return facts->requested;
	return facts->needed - facts->requested;
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
	uint64_t joined = sums->fragments_bytes +
	                  (gm_oom_known(facts->rounding) ? facts->rounding
	                                                 : gm_oom_or_zero(facts->allocated) / 100);
	uint64_t most = joined + spare(facts);
	struct gm_oom_remedy *remedy = add_remedy(judgement, GM_OOM_EXPANDABLE_SEGMENTS,
	        gm_oom_would_do(facts, sums, sure)   ? GM_OOM_YES
	        : gm_oom_would_do(facts, sums, most) ? GM_OOM_MAYBE
	                                             : GM_OOM_NO,
	        sure);
	remedy->most = most;
	if (remedy->sufficient != GM_OOM_NO)
		remedy->delays = delay(facts, gm_oom_missing(facts, sums), joined);
}

/* Fewer tensors: as few as possible where the places of the blocks are known. Otherwise as many as
 * are missing, but not more than there are: then they lie between free parts, and these count too.
 */
static void add_less(const struct gm_oom_facts *facts, struct gm_oom_judgement *judgement)
{
	const struct gm_oom_sums *sums = &judgement->sums;
	uint64_t missing = gm_oom_missing(facts, sums);
	struct gm_oom_remedy *remedy;
	if (facts->release && facts->release->known) {
		remedy = add_remedy(judgement, GM_OOM_FREE_MEMORY, yes_if(facts->release->possible),
		        facts->release->bytes);
		/* what is given up may be what grows: it is there again after as many iterations */
		if (facts->release->possible)
			remedy->delays = regrown(facts, facts->release->bytes);
		return;
	}
	bool all = gm_oom_known(facts->allocated) && facts->allocated < missing;
	remedy = add_remedy(judgement, GM_OOM_FREE_MEMORY,
	        yes_if(!all || facts->allocated + sums->fragments_bytes >= missing),
	        all ? facts->allocated : missing);
	if (remedy->sufficient)
		remedy->delays = regrown(facts, remedy->bytes);
}

/* To keep nothing of earlier iterations. */
static void add_stop(const struct gm_oom_facts *facts, struct gm_oom_judgement *judgement)
{
	const struct gm_oom_growth *growth = facts->growth;
	if (growth)
		add_remedy(judgement, GM_OOM_STOP_GROWTH,
		        growth->enough   ? GM_OOM_YES
		        : facts->release ? GM_OOM_NO
		                         : GM_OOM_MAYBE,
		        growth->bytes);
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
	add_stop(facts, judgement);
	if (judgement->verdict == GM_OOM_OUTSIDE)
		add_remedy(judgement, GM_OOM_LESS_OUTSIDE, GM_OOM_YES, missing);
	if (gm_oom_or_zero(facts->pending))
		add_waiting(facts, judgement);
	if (sums->limited)
		add_remedy(judgement, GM_OOM_HIGHER_LIMIT,
		        yes_if(gm_oom_or_zero(facts->free) >= facts->needed),
		        facts->reserved + facts->needed);
	add_less(facts, judgement);
	if (facts->release && facts->release->known && !facts->release->possible &&
	        judgement->verdict == GM_OOM_CAPACITY && !sums->limited)
		add_remedy(judgement, GM_OOM_SMALLER_REQUEST, GM_OOM_YES, 0);
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
	        [GM_OOM_STOP_GROWTH] = "stop_growth",
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
