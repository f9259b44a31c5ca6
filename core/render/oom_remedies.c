/* The remedies of an out-of-memory error, in words. */
#include "render/oom_verdict.h"
#include "render/say.h"
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
		              "parts: %s of the %s, %s was missing",
		        gm_say_size(&w, remedy->bytes), gm_say_size(&w, sums->fragments_bytes),
		        missing);
	case GM_OOM_MAYBE:
		return gm_say("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: it reuses only "
		              "whole pages of 20 MiB, which small free parts may not fill: between "
		              "%s and %s, %s was missing",
		        gm_say_size(&w, remedy->bytes), gm_say_size(&w, remedy->most), missing);
	default:
		return gm_say("expandable_segments:True would gain at most %s of the %s missing",
		        gm_say_size(&w, remedy->most), missing);
	}
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

char *gm_oom_remedy_text(const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement,
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
	case GM_OOM_FREE_MEMORY:
		return gm_say("%s less in tensors, in one block or in whole segments",
		        gm_say_size(&w, remedy->bytes));
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
