/*
 * The verdict on an out-of-memory error. Each candidate is a comparison: the memory that would be
 * available without that cause, and the needed memory. Several may be true at once; the largest is
 * named first, and the arithmetic shows all of them.
 */
#include <string.h>

#include "ask/oom/oom_sums.h"
#include "ask/oom/oom_facts.h"
#include "ask/oom/oom_remedies.h"

/*
 * A process's CUDA context and its loaded kernels take 0.3 to 0.8 GiB of the device, which cannot
 * be avoided. So much memory outside PyTorch is no cause, and neither is another twentieth of the
 * device. Free fragments of less than a fiftieth of the device are no cause either: the device is
 * practically full.
 */
static const uint64_t ordinary_context = UINT64_C(800) << 20;
enum { SIGNIFICANT = 50, SIGNIFICANT_OUTSIDE = 20 };

/* --- the sums --------------------------------------------------------------------------------- */

/* The iterations that all free memory in one piece would serve beyond the failed request: of a loop
 * that grows, the first is the one that failed. */
static uint64_t more_iterations(const struct gm_oom_facts *facts, const struct gm_oom_sums *sums)
{
	uint64_t left = sums->fragments_bytes + gm_oom_or_zero(facts->free);
	if (!facts->growth || !facts->growth->each_needs || !gm_oom_known(facts->needed) ||
	        left < facts->needed)
		return 0;
	return (left - facts->needed) / facts->growth->each_needs + 1;
}

static struct gm_oom_sums sums_of(const struct gm_oom_facts *facts)
{
	struct gm_oom_sums sums = {
	        .missing = GM_NOT_KNOWN, .outside = GM_NOT_KNOWN, .others = GM_NOT_KNOWN};
	sums.fragments_bytes = gm_oom_or_zero(facts->unallocated);
	sums.significant = gm_oom_known(facts->total) ? facts->total / SIGNIFICANT : facts->needed;
	uint64_t limit = gm_oom_known(facts->limit) ? facts->limit : 0;
	/* figures in a text are rounded: nearly the limit counts as the limit */
	uint64_t slack = facts->rounded ? limit / 200 : 0;
	uint64_t wanted = gm_oom_known(facts->reserved) ? facts->reserved + facts->needed : 0;
	sums.limited = limit && wanted && wanted + slack > limit &&
	               !(gm_oom_known(facts->free) && facts->free < facts->needed);
	if (sums.limited)
		sums.missing = wanted > limit ? wanted - limit : 0;
	else if (gm_oom_known(facts->free) && gm_oom_known(facts->needed))
		sums.missing = facts->needed > facts->free ? facts->needed - facts->free : 0;
	if (gm_oom_known(facts->total) && gm_oom_known(facts->free) &&
	        gm_oom_known(facts->reserved)) {
		uint64_t accounted = facts->free + facts->reserved;
		sums.outside = facts->total > accounted ? facts->total - accounted : 0;
	}
	uint64_t listed = 0;
	for (size_t i = 0; i < facts->other_count; i++)
		listed += facts->others[i].bytes;
	if (facts->other_count)
		sums.others = listed;
	else if (gm_oom_known(facts->process) && gm_oom_known(facts->total) &&
	         gm_oom_known(facts->free)) {
		uint64_t ours = facts->process + facts->free;
		sums.others = facts->total > ours ? facts->total - ours : 0;
	}
	if (gm_oom_known(sums.outside) && sums.outside > ordinary_context)
		sums.avoidable = sums.outside - ordinary_context;
	if (gm_oom_known(sums.others) && gm_oom_known(sums.outside)) {
		/* memory that is known to belong to other processes needs no allowance */
		uint64_t own = sums.outside > sums.others ? sums.outside - sums.others : 0;
		sums.avoidable =
		        sums.others + (own > ordinary_context ? own - ordinary_context : 0);
	}
	sums.more_iterations = more_iterations(facts, &sums);
	return sums;
}

/* --- verdicts --------------------------------------------------------------------------------- */

static void judge_mps(const struct gm_oom_facts *facts, struct gm_oom_judgement *judgement)
{
	struct gm_oom_sums *sums = &judgement->sums;
	uint64_t others = facts->process - facts->allocated;
	sums->outside = others;
	sums->missing = facts->process + facts->needed > facts->limit
	                        ? facts->process + facts->needed - facts->limit
	                        : 0;
	gm_oom_add_line(judgement, ' ', GM_OOM_PART_MPS_LIMIT, facts->limit);
	gm_oom_add_line(judgement, '-', GM_OOM_PART_TENSORS, facts->allocated);
	gm_oom_add_line(judgement, '-', GM_OOM_PART_MPS_OTHERS, others);
	gm_oom_add_line(judgement, '-', GM_OOM_PART_MPS_REQUEST, facts->needed);
	judgement->reason =
	        others >= sums->missing && facts->allocated + facts->needed <= facts->limit
	                ? GM_OOM_MPS_OTHERS
	                : GM_OOM_MPS_TENSORS;
}

/*
 * Does a line grow so much that joining all free memory would only delay the error? So it is if the
 * loop has made more iterations than that would add. A loop that keeps little of each iteration in
 * a device whose free memory is large would go on for long: then the fragmentation is the cause.
 */
static bool only_delays(const struct gm_oom_facts *facts, const struct gm_oom_sums *sums)
{
	return facts->growth && sums->more_iterations <= facts->growth->iterations;
}

static enum gm_oom_reason judge_figures(
        const struct gm_oom_facts *facts, const struct gm_oom_sums *sums)
{
	if (gm_oom_known(facts->total) && facts->needed > facts->total)
		return GM_OOM_OVER_DEVICE;
	if (sums->limited)
		return sums->fragments_bytes >= sums->missing &&
		                       sums->fragments_bytes >= sums->significant
		               ? GM_OOM_LIMIT_FRAGMENTED
		               : GM_OOM_LIMIT_REACHED;
	if (gm_oom_known(facts->free) && facts->free >= facts->needed)
		return GM_OOM_FREE_WAS_ENOUGH;
	if (!gm_oom_known(facts->allocated) || !gm_oom_known(facts->reserved))
		return GM_OOM_FEW_FIGURES;
	uint64_t left = sums->fragments_bytes + gm_oom_or_zero(facts->free);
	bool fragments = gm_oom_would_do(facts, sums, sums->fragments_bytes) &&
	                 left - facts->needed >= sums->significant;
	if (!gm_oom_known(facts->total)) /* no reference size: as much again as the request */
		fragments = gm_oom_would_do(facts, sums, sums->fragments_bytes);
	bool outside = gm_oom_known(sums->missing) && gm_oom_known(facts->total) &&
	               gm_oom_would_do(facts, sums, sums->avoidable) &&
	               sums->avoidable >= facts->total / SIGNIFICANT_OUTSIDE;
	bool pending = gm_oom_known(facts->pending) && facts->pending &&
	               gm_oom_would_do(facts, sums, facts->pending + sums->fragments_bytes);
	if (pending && !fragments)
		return GM_OOM_WAITS_FOR_STREAM;
	if (fragments && (!outside || sums->fragments_bytes >= sums->avoidable))
		return only_delays(facts, sums) ? GM_OOM_GREW : GM_OOM_FRAGMENTED;
	if (outside)
		return gm_oom_known(sums->others) && sums->others >= sums->missing
		               ? GM_OOM_OTHER_PROCESSES
		               : GM_OOM_NOT_PYTORCH;
	return GM_OOM_TENSORS;
}

/* --- all verdicts ----------------------------------------------------------------------------- */

static enum gm_oom_verdict verdict_of(enum gm_oom_reason reason)
{
	switch (reason) {
	case GM_OOM_MPS_OTHERS:
	case GM_OOM_OTHER_PROCESSES:
	case GM_OOM_NOT_PYTORCH:
		return GM_OOM_OUTSIDE;
	case GM_OOM_LIMIT_FRAGMENTED:
	case GM_OOM_FRAGMENTED:
		return GM_OOM_FRAGMENTATION;
	case GM_OOM_WAITS_FOR_STREAM:
		return GM_OOM_PENDING;
	case GM_OOM_MPS_TENSORS:
	case GM_OOM_LIMIT_REACHED:
	case GM_OOM_OVER_DEVICE:
	case GM_OOM_TENSORS:
	case GM_OOM_GREW:
		return GM_OOM_CAPACITY;
	default:
		return GM_OOM_UNKNOWN;
	}
}

void gm_oom_judge(const struct gm_oom_facts *facts, struct gm_oom_judgement *ret_judgement)
{
	struct gm_oom_judgement judgement = {0};
	bool mps = strcmp(facts->platform, "MPS") == 0 && gm_oom_known(facts->process) &&
	           gm_oom_known(facts->limit);
	if (mps) {
		judge_mps(facts, &judgement);
	} else {
		judgement.sums = sums_of(facts);
		judgement.reason = judge_figures(facts, &judgement.sums);
	}
	judgement.verdict = verdict_of(judgement.reason);
	if (!mps) {
		gm_oom_add_arithmetic(facts, &judgement);
		gm_oom_add_remedies(facts, &judgement);
	}
	*ret_judgement = judgement;
}

const char *gm_oom_verdict_name(enum gm_oom_verdict verdict)
{
	static const char *const names[] = {
	        NULL, "capacity", "fragmentation", "pending", "outside", "unknown"};
	return names[verdict];
}
