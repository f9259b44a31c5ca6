/* The remedies of an out-of-memory error, in words. */
#include "render/oom_verdict.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "render/say.h"
#include "render/text.h"
#include "ask/oom/oom_facts.h"

static char *say_expandable(const struct gm_oom_facts *facts,
        const struct gm_oom_judgement *judgement, const struct gm_oom_remedy *remedy)
{
	struct gm_said_sizes w = {0};
	const struct gm_oom_sums *sums = &judgement->sums;
	if (facts->expandable)
		return gm_say("expandable_segments:True is set already");
	const char *missing = gm_say_size(&w, gm_oom_missing(facts, sums));
	switch (remedy->sufficient) {
	case GM_OOM_YES:
		return gm_say("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True can join free "
		              "parts: it would gain %s of the %s; %s was missing",
		        gm_say_size(&w, remedy->bytes), gm_say_size(&w, sums->fragments_bytes),
		        missing);
	case GM_OOM_MAYBE:
		return gm_say("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: it reuses only "
		              "whole pages of 20 MiB, which small free parts may not fill. It "
		              "would gain between %s and %s; %s was missing",
		        gm_say_size(&w, remedy->bytes), gm_say_size(&w, remedy->most), missing);
	default:
		return gm_say("expandable_segments:True would gain at most %s of the %s missing",
		        gm_say_size(&w, remedy->most), missing);
	}
}

/* "without the 3 blocks (72.00 MiB) of frag.py:11 in step: ..." */
static char *say_release(const struct gm_oom_release *release)
{
	struct gm_said_sizes w = {0};
	_cleanup_free_ char *of = strdup("");
	if (release->at.file) {
		free(of);
		of = gm_say("%s of %s:%u in %s",
		        release->at_blocks < release->blocks ? ", most" : "",
		        gm_text_path(release->at.file), release->at.line, release->at.function);
	}
	if (!of)
		return NULL;
	if (release->within)
		return gm_say("without %zu block%s (%s)%s: the part of a segment around %s would "
		              "be large enough",
		        release->blocks, gm_text_s(release->blocks),
		        gm_say_size(&w, release->bytes), of, release->blocks == 1 ? "it" : "them");
	return gm_say("without %zu block%s (%s)%s: %zu whole segment%s would be released",
	        release->blocks, gm_text_s(release->blocks), gm_say_size(&w, release->bytes), of,
	        release->segments, gm_text_s(release->segments));
}

static char *say_less(const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement,
        const struct gm_oom_remedy *remedy)
{
	struct gm_said_sizes w = {0};
	const struct gm_oom_release *release = facts->release;
	if (!remedy->sufficient)
		return gm_say("without any tensors (%s) the request would not fit either",
		        gm_say_size(&w, gm_oom_or_zero(facts->allocated)));
	if (release && (release->within || release->segments))
		return say_release(release);
	if (release || remedy->bytes < gm_oom_missing(facts, &judgement->sums))
		return gm_say("%s less in tensors, or a part of it: those between free parts",
		        gm_say_size(&w, remedy->bytes));
	return gm_say("%s less in tensors, in one block or in whole segments",
	        gm_say_size(&w, remedy->bytes));
}

static char *say_outside(const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement,
        const struct gm_oom_remedy *remedy)
{
	char size[GM_SIZE_TEXT];
	const struct gm_oom_sums *sums = &judgement->sums;
	return gm_say("%s less outside PyTorch: %s", gm_text_size(remedy->bytes, size),
	        !gm_oom_known(sums->others) ? "nvidia-smi lists the processes; it does not show "
	                                      "the other libraries of this process separately"
	        : sums->others < sums->significant
	                ? "in other libraries of this process, or in its own CUDA allocations"
	        : facts->other_count
	                ? "in the processes listed above, or in other libraries of this one"
	                : "nvidia-smi lists the processes");
}

static char *say_cache(const struct gm_oom_facts *facts, const struct gm_oom_remedy *remedy)
{
	char size[GM_SIZE_TEXT];
	gm_text_size(remedy->bytes, size);
	if (remedy->sufficient)
		return gm_say("torch.cuda.empty_cache(): %s is in whole free segments now", size);
	if (gm_oom_or_zero(facts->pending))
		return gm_say("torch.cuda.empty_cache() would release %s: too little", size);
	return gm_say("torch.cuda.empty_cache() gains nothing: PyTorch released all whole free "
	              "segments %sbefore it raised the error",
	        gm_oom_or_zero(facts->private_pools) ? "outside private pools " : "");
}

static char *say_remedy(const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement,
        const struct gm_oom_remedy *remedy)
{
	struct gm_said_sizes w = {0};
	switch (remedy->kind) {
	case GM_OOM_SMALLER_REQUEST:
		return gm_say("only a smaller request: a smaller batch, or in parts");
	case GM_OOM_LESS_OUTSIDE:
		return say_outside(facts, judgement, remedy);
	case GM_OOM_WAIT_FOR_STREAM:
		if (remedy->sufficient)
			return gm_say("the %s that waits: wait for that stream "
			              "(Stream.synchronize) before the capture or the MemPool's "
			              "`with`, or release the memory on that stream",
			        gm_say_size(&w, remedy->bytes));
		return gm_say("the %s that waits for a stream is less than the %s missing",
		        gm_say_size(&w, remedy->bytes),
		        gm_say_size(&w, gm_oom_missing(facts, &judgement->sums)));
	case GM_OOM_HIGHER_LIMIT:
		return gm_say("a limit of %s or more", gm_say_size(&w, remedy->bytes));
	case GM_OOM_STOP_GROWTH:
		return gm_say("without what the loop keeps of earlier iterations: %s less in "
		              "tensors",
		        gm_say_size(&w, remedy->bytes));
	case GM_OOM_FREE_MEMORY:
		return say_less(facts, judgement, remedy);
	case GM_OOM_EXPANDABLE_SEGMENTS:
		return say_expandable(facts, judgement, remedy);
	case GM_OOM_EMPTY_CACHE:
		return say_cache(facts, remedy);
	case GM_OOM_FEWER_POOLS:
		break;
	}
	return gm_say("%s belongs to private pools (CUDA graphs, MemPools): use fewer pools, share "
	              "them, or delete unused ones",
	        gm_say_size(&w, remedy->bytes));
}

char *gm_oom_remedy_text(const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement,
        const struct gm_oom_remedy *remedy)
{
	char *text = say_remedy(facts, judgement, remedy);
	if (!remedy->delays || !text)
		return text;
	_cleanup_free_ char *whole = text;
	return gm_say("%s; it only delays the error, by about %" PRIu64 " iteration%s", whole,
	        remedy->delays, gm_text_s(remedy->delays));
}
