/* What stands below a verdict on an out-of-memory error: where the device's memory is, and what would have been enough. */
#include <inttypes.h>
#include <stdlib.h>

#include "ask/oom/oom_sums.h"

static char *other_text(const struct gm_oom_facts *facts, size_t i)
{
	const char *name = facts->others[i].name;
	if (facts->others[i].pid == 0)
		return gm_oom_say("further processes");
	return gm_oom_say("process %" PRIu64 "%s%s%s", facts->others[i].pid, name[0] ? " (" : "",
	        name, name[0] ? ")" : "");
}

void gm_oom_add_arithmetic(const struct gm_oom_sums *sums, struct gm_oom_judgement *judgement)
{
	const struct gm_oom_facts *facts = sums->facts;
	struct gm_oom_words w = {0};
	if (!gm_oom_known(facts->total) || !gm_oom_known(facts->reserved))
		return;
	gm_oom_add_line(judgement, ' ', facts->total, gm_oom_say("the device"));
	gm_oom_add_line(judgement, '-', facts->allocated, gm_oom_say("in PyTorch's tensors"));
	if (gm_oom_or_zero(facts->pending))
		gm_oom_add_line(
		        judgement, '-', facts->pending, gm_oom_say("let go, waiting for a stream"));
	if (!facts->rounded &&
	        gm_oom_or_zero(facts->private_pools)) /* PyTorch's text has them in the first */
		gm_oom_add_line(judgement, '-', facts->private_pools,
		        gm_oom_say("free, kept for private pools (CUDA graphs, MemPools)"));
	if (facts->unallocated)
		gm_oom_add_line(judgement, '-', sums->pieces,
		        gm_oom_known(facts->largest_hole)
		                ? gm_oom_say("free within PyTorch's segments, the largest piece %s",
		                          gm_oom_size(&w, facts->largest_hole))
		                : gm_oom_say("free within PyTorch's segments"));
	if (gm_oom_known(sums->outside) && gm_oom_known(sums->others) && !facts->other_count &&
	        sums->others) {
		uint64_t own = sums->outside > sums->others ? sums->outside - sums->others : 0;
		gm_oom_add_line(judgement, '-', own,
		        gm_oom_say("outside PyTorch in this process: CUDA's context, other "
		                   "libraries"));
		gm_oom_add_line(judgement, '-', sums->outside - own, gm_oom_say("other processes"));
	} else if (gm_oom_known(sums->outside)) {
		uint64_t listed = 0;
		for (size_t i = 0; i < facts->other_count; i++) {
			gm_oom_add_line(
			        judgement, '-', facts->others[i].bytes, other_text(facts, i));
			listed += facts->others[i].bytes;
		}
		gm_oom_add_line(judgement, '-', sums->outside > listed ? sums->outside - listed : 0,
		        gm_oom_say(
		                listed ? "else outside PyTorch: CUDA's context, other libraries"
		                : gm_oom_known(sums->others)
		                        ? "outside PyTorch in this process: CUDA's context, other "
		                          "libraries"
		                        : "outside PyTorch: CUDA's context, other libraries, other "
		                          "processes"));
	}
	if (gm_oom_known(facts->free)) {
		gm_oom_add_line(judgement, '=', facts->free, gm_oom_say("free on the device"));
		if (!sums->limited && sums->missing)
			gm_oom_add_line(judgement, ' ', facts->needed,
			        gm_oom_say("needed: %s short", gm_oom_size(&w, sums->missing)));
	}
}

static void add_remedy(struct gm_oom_judgement *judgement, const char *name,
        enum gm_oom_answer sufficient, char *text)
{
	if (judgement->remedy_count == GM_OOM_REMEDIES_MAX) {
		free(text);
		return;
	}
	judgement->remedies[judgement->remedy_count++] =
	        (struct gm_oom_remedy){name, sufficient, text};
}

static enum gm_oom_answer yes_if(bool condition)
{
	return condition ? GM_OOM_YES : GM_OOM_NO;
}

static void add_expandable(const struct gm_oom_sums *sums, struct gm_oom_judgement *judgement)
{
	struct gm_oom_words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	if (facts->expandable) {
		add_remedy(judgement, "expandable_segments", GM_OOM_NO,
		        gm_oom_say("expandable_segments:True is set already"));
		return;
	}
	/*
	 * Under expandable segments the same requests would lie elsewhere. What is in pieces is an upper bound of what they gain,
	 * what is in large pieces a lower one: small ones lie between others' there too.
	 */
	uint64_t sure = gm_oom_or_zero(facts->movable);
	/* Segments are of 2 MiB steps, and a block keeps a rest of up to 1 MiB of its segment, which an expandable segment
	 * has not. A text does not tell how much that is: seldom more than a hundredth. */
	uint64_t most = sums->pieces + (gm_oom_known(facts->rounding)
	                                               ? facts->rounding
	                                               : gm_oom_or_zero(facts->allocated) / 100);
	const char *missing =
	        gm_oom_size(&w, gm_oom_known(sums->missing) ? sums->missing : facts->needed);
	if (gm_oom_would_do(sums, sure))
		add_remedy(judgement, "expandable_segments", GM_OOM_YES,
		        gm_oom_say(
		                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets pieces be "
		                "put together: %s of the %s, %s was missing",
		                gm_oom_size(&w, sure), gm_oom_size(&w, sums->pieces), missing));
	else if (gm_oom_would_do(sums, most))
		add_remedy(judgement, "expandable_segments", GM_OOM_MAYBE,
		        gm_oom_say(
		                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: it reuses whole "
		                "pages of 20 MiB elsewhere, which small pieces are not sure to "
		                "make: between %s and %s, %s was missing",
		                gm_oom_size(&w, sure), gm_oom_size(&w, most), missing));
	else
		add_remedy(judgement, "expandable_segments", GM_OOM_NO,
		        gm_oom_say(
		                "expandable_segments:True would gain at most %s of the %s missing",
		                gm_oom_size(&w, most), missing));
}

/* Of what waits for a stream, whole segments could be given back, and a piece that is large enough used. */
static void add_waiting(
        const struct gm_oom_sums *sums, uint64_t missing, struct gm_oom_judgement *judgement)
{
	struct gm_oom_words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	bool enough = gm_oom_or_zero(facts->waited_whole) >= missing ||
	              gm_oom_or_zero(facts->waited_largest) >= facts->requested;
	bool perhaps = facts->pending + sums->pieces >= missing;
	add_remedy(judgement, "wait_for_stream",
	        enough    ? GM_OOM_YES
	        : perhaps ? GM_OOM_MAYBE
	                  : GM_OOM_NO,
	        enough || perhaps
	                ? gm_oom_say("the %s that waits: wait for that stream (Stream.synchronize) "
	                             "before "
	                             "the capture or the MemPool's `with`, or let go of it there",
	                          gm_oom_size(&w, facts->pending))
	                : gm_oom_say("the %s that waits for a stream is less than the %s missing",
	                          gm_oom_size(&w, facts->pending), gm_oom_size(&w, missing)));
}

void gm_oom_add_remedies(const struct gm_oom_sums *sums, struct gm_oom_judgement *judgement)
{
	struct gm_oom_words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	if (judgement->verdict == GM_OOM_UNKNOWN)
		return;
	uint64_t missing = gm_oom_known(sums->missing) ? sums->missing : facts->needed;
	if (gm_oom_known(facts->total) && facts->needed > facts->total) {
		add_remedy(judgement, "smaller_request", GM_OOM_YES,
		        gm_oom_say("only a smaller request: a smaller batch, or in parts"));
		return;
	}
	if (judgement->verdict == GM_OOM_OUTSIDE)
		add_remedy(judgement, "outside", GM_OOM_YES,
		        gm_oom_say("%s less outside PyTorch: %s", gm_oom_size(&w, missing),
		                !gm_oom_known(sums->others)
		                        ? "nvidia-smi lists the processes; other "
		                          "libraries of this process do not show up "
		                          "in it singly"
		                : sums->others < sums->significant
		                        ? "in other libraries of this process, or in what it "
		                          "allocates from CUDA itself"
		                : facts->other_count ? "in the processes listed above, or in other "
		                                       "libraries of this one"
		                                     : "nvidia-smi lists the processes"));
	if (gm_oom_or_zero(facts->pending))
		add_waiting(sums, missing, judgement);
	if (sums->limited)
		add_remedy(judgement, "limit", yes_if(gm_oom_or_zero(facts->free) >= facts->needed),
		        gm_oom_say("a limit of %s or more",
		                gm_oom_size(&w, facts->reserved + facts->needed)));
	add_remedy(judgement, "free_memory", GM_OOM_YES,
	        gm_oom_say("%s less in tensors, in one piece or in whole segments",
	                gm_oom_size(&w, missing)));
	add_expandable(sums, judgement);
	uint64_t whole = gm_oom_or_zero(facts->whole_free);
	add_remedy(judgement, "empty_cache", yes_if(gm_oom_would_do(sums, whole)),
	        gm_oom_would_do(sums, whole)
	                ? gm_oom_say("torch.cuda.empty_cache(): %s is in whole free segments now",
	                          gm_oom_size(&w, whole))
	        : gm_oom_or_zero(facts->pending)
	                ? gm_oom_say("torch.cuda.empty_cache() would give back %s: too little",
	                          gm_oom_size(&w, whole))
	                : gm_oom_say("torch.cuda.empty_cache() gains nothing: PyTorch gave back "
	                             "all whole free segments %sbefore it gave up",
	                          gm_oom_or_zero(facts->private_pools)
	                                  ? "that are not a private pool's "
	                                  : ""));
	if (gm_oom_or_zero(facts->private_pools))
		add_remedy(judgement, "private_pools",
		        facts->private_pools >= missing ? GM_OOM_MAYBE : GM_OOM_NO,
		        gm_oom_say("%s belongs to private pools (CUDA graphs, MemPools): fewer or "
		                   "shared pools, or none that is kept once it is not used",
		                gm_oom_size(&w, facts->private_pools)));
}
