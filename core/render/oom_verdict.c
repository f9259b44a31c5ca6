/* The sentence of a verdict on an out-of-memory error, and its arithmetic. */
#include "render/oom_verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "render/say.h"
#include "render/text.h"
#include "ask/oom/oom_facts.h"

/* --- verdicts --------------------------------------------------------------------------------- */

static char *say_fragmented(const struct gm_oom_facts *facts, const struct gm_oom_sums *sums)
{
	struct gm_said_sizes w = {0};
	char largest[64] = "";
	if (gm_oom_known(facts->largest_hole))
		snprintf(largest, sizeof(largest), " (the largest %s)",
		        gm_say_size(&w, facts->largest_hole));
	if (!gm_oom_known(facts->free))
		return gm_say("Enough memory is free, but not in one piece: %s is free within "
		              "PyTorch's segments%s, and the %s needed have to be contiguous.",
		        gm_say_size(&w, sums->fragments_bytes), largest,
		        gm_say_size(&w, facts->needed));
	return gm_say("Enough memory is free, but not in one piece: %s is free within PyTorch's "
	              "segments%s and %s on the device, %s together; the %s needed have to be "
	              "contiguous.",
	        gm_say_size(&w, sums->fragments_bytes), largest, gm_say_size(&w, facts->free),
	        gm_say_size(&w, sums->fragments_bytes + facts->free),
	        gm_say_size(&w, facts->needed));
}

static char *say_not_pytorch(const struct gm_oom_facts *facts, const struct gm_oom_sums *sums)
{
	struct gm_said_sizes w = {0};
	return gm_say(
	        "%s of the device's %s is held outside PyTorch's allocator%s; PyTorch has %s. "
	        "A CUDA context explains up to 0.8 GiB of it; without the rest the %s needed "
	        "would fit.",
	        gm_say_size(&w, sums->outside), gm_say_size(&w, facts->total),
	        !gm_oom_known(sums->others) ? ""
	        : sums->others >= sums->significant
	                ? ", by this process and others"
	                : " by this process: by other libraries or calls of CUDA",
	        gm_say_size(&w, facts->reserved), gm_say_size(&w, facts->needed));
}

static char *say_tensors(const struct gm_oom_facts *facts, const struct gm_oom_sums *sums)
{
	struct gm_said_sizes w = {0};
	/* PyTorch's text counts the memory of private pools as allocated, and does not say how much
	 * of it is free */
	char kept[96] = "";
	if (!facts->rounded && gm_oom_or_zero(facts->private_pools) >= facts->needed / 2)
		snprintf(kept, sizeof(kept), ", %s is free but kept for private pools",
		        gm_say_size(&w, facts->private_pools));
	if (!gm_oom_known(facts->total) && gm_oom_known(facts->free))
		return gm_say(
		        "There is too little memory: %s is in use by PyTorch's tensors%s and %s "
		        "was free on the device; %s more was needed, %s too much.",
		        gm_say_size(&w, facts->allocated), kept, gm_say_size(&w, facts->free),
		        gm_say_size(&w, facts->needed), gm_say_size(&w, sums->missing));
	if (!gm_oom_known(facts->total) || !gm_oom_known(facts->free))
		return gm_say("There is too little memory: %s is allocated%s, %s more was needed, "
		              "and the free parts (%s) are not enough.",
		        gm_say_size(&w, facts->allocated), kept, gm_say_size(&w, facts->needed),
		        gm_say_size(&w, sums->fragments_bytes));
	return gm_say("There is too little memory: of the device's %s, %s is in use by PyTorch's "
	              "tensors%s and %s was free; %s more was needed, %s too much.",
	        gm_say_size(&w, facts->total), gm_say_size(&w, facts->allocated), kept,
	        gm_say_size(&w, facts->free), gm_say_size(&w, facts->needed),
	        gm_say_size(&w, sums->missing));
}

/* "train.py:12 in train"; "" where it is not known. NULL: no memory. */
static char *say_place(const struct gm_oom_place *place)
{
	return place->file ? gm_say("%s:%u in %s", gm_text_path(place->file), place->line,
	                             place->function)
	                   : strdup("");
}

char *gm_oom_growth_text(const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement)
{
	struct gm_said_sizes w = {0};
	const struct gm_oom_growth *growth = facts->growth;
	if (!growth)
		return strdup("");
	_cleanup_free_ char *at = say_place(&growth->at);
	_cleanup_free_ char *loop =
	        growth->loop.file ? gm_say("the loop at %s:%u", gm_text_path(growth->loop.file),
	                                    growth->loop.line)
	                          : gm_say("a loop");
	_cleanup_free_ char *others = growth->lines > 1
	                                      ? gm_say(" and %zu other line%s", growth->lines - 1,
	                                                gm_text_s(growth->lines - 1))
	                                      : strdup("");
	_cleanup_free_ char *later = NULL;
	bool grew = judgement->reason == GM_OOM_GREW;
	if (grew || judgement->verdict == GM_OOM_FRAGMENTATION)
		later = gm_say(" %s the free memory would serve %sabout %" PRIu64
		               " more iteration%s.",
		        grew ? "Even in one piece," : "In one piece,", grew ? "only " : "",
		        judgement->sums.more_iterations,
		        gm_text_s(judgement->sums.more_iterations));
	else
		later = gm_say(" No setting of the allocator helps against that for long.");
	if (!at || !loop || !others || !later)
		return NULL;
	return gm_say("The memory grows by %s with each iteration of %s: %s%s kept %" PRIu64
	              " block%s (%s) of %u iterations.%s",
	        gm_say_size(&w, growth->each), loop, at[0] ? at : "a line that is not known",
	        others, growth->blocks, gm_text_s(growth->blocks), gm_say_size(&w, growth->bytes),
	        growth->iterations, later);
}

static char *say_grew(const struct gm_oom_facts *facts, const struct gm_oom_sums *sums)
{
	struct gm_said_sizes w = {0};
	return gm_say("What a loop keeps fills the memory. %s is free, in parts, and the %s needed "
	              "have to be contiguous, but no setting of the allocator helps for long.",
	        gm_say_size(&w, sums->fragments_bytes + gm_oom_or_zero(facts->free)),
	        gm_say_size(&w, facts->needed));
}

char *gm_oom_sentence(const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement)
{
	struct gm_said_sizes w = {0};
	const struct gm_oom_sums *sums = &judgement->sums;
	switch (judgement->reason) {
	case GM_OOM_MPS_OTHERS:
		return gm_say("Other Metal allocations take %s of the %s that are allowed; without "
		              "them the %s asked for would fit.",
		        gm_say_size(&w, sums->outside), gm_say_size(&w, facts->limit),
		        gm_say_size(&w, facts->needed));
	case GM_OOM_MPS_TENSORS:
		return gm_say(
		        "PyTorch's tensors take %s of the %s that are allowed; %s more does not "
		        "fit.",
		        gm_say_size(&w, facts->allocated), gm_say_size(&w, facts->limit),
		        gm_say_size(&w, facts->needed));
	case GM_OOM_LIMIT_FRAGMENTED:
		return gm_say("PyTorch may use %s (a limit set for this process) and holds %s of "
		              "it; %s of that is free, in parts too small for the %s needed.",
		        gm_say_size(&w, facts->limit), gm_say_size(&w, facts->reserved),
		        gm_say_size(&w, sums->fragments_bytes), gm_say_size(&w, facts->needed));
	case GM_OOM_LIMIT_REACHED:
		return gm_say(
		        "The limit set for this process (set_per_process_memory_fraction) is "
		        "reached: %s is allowed, %s is held and %s was needed. The device itself "
		        "has %s free.",
		        gm_say_size(&w, facts->limit), gm_say_size(&w, facts->reserved),
		        gm_say_size(&w, facts->needed),
		        gm_oom_known(facts->free) ? gm_say_size(&w, facts->free) : "some");
	case GM_OOM_FREE_WAS_ENOUGH:
		return gm_say("The figures do not explain it: the device had %s free and %s was "
		              "needed. Something else refused, or memory was released before the "
		              "message was written: another process or thread, a limit of the "
		              "driver or of the system (WSL, a virtual GPU, a container, an "
		              "integrated GPU), or an earlier fault of the device.",
		        gm_say_size(&w, facts->free), gm_say_size(&w, facts->needed));
	case GM_OOM_FRAGMENTED:
		return say_fragmented(facts, sums);
	case GM_OOM_WAITS_FOR_STREAM:
		return gm_say(
		        "The program has released %s that still waits for another stream "
		        "(record_stream): PyTorch does not wait for it while a CUDA graph is "
		        "captured or a MemPool is in use. With it, the %s needed would be there.",
		        gm_say_size(&w, facts->pending), gm_say_size(&w, facts->needed));
	case GM_OOM_OTHER_PROCESSES:
		return gm_say("Other processes hold %s of the device's %s; PyTorch has %s here. "
		              "Without them the %s needed would fit.",
		        gm_say_size(&w, sums->others), gm_say_size(&w, facts->total),
		        gm_say_size(&w, facts->reserved), gm_say_size(&w, facts->needed));
	case GM_OOM_NOT_PYTORCH:
		return say_not_pytorch(facts, sums);
	case GM_OOM_OVER_DEVICE:
		return gm_say("The request alone, %s, is more than the whole device has: %s.",
		        gm_say_size(&w, facts->needed), gm_say_size(&w, facts->total));
	case GM_OOM_TENSORS:
		return say_tensors(facts, sums);
	case GM_OOM_GREW:
		return say_grew(facts, sums);
	case GM_OOM_FEW_FIGURES:
	case GM_OOM_REASON_NONE:
		break;
	}
	return gm_say("The message has too few figures for a verdict.");
}

/* --- the arithmetic --------------------------------------------------------------------------- */

static char *say_process(const struct gm_oom_facts *facts, size_t i)
{
	const char *name = facts->others[i].name;
	if (facts->others[i].pid == 0)
		return gm_say("further processes");
	return gm_say("process %" PRIu64 "%s%s%s", facts->others[i].pid, name[0] ? " (" : "", name,
	        name[0] ? ")" : "");
}

char *gm_oom_line_text(const struct gm_oom_facts *facts, const struct gm_oom_judgement *judgement,
        const struct gm_oom_line *line)
{
	char text[GM_SIZE_TEXT];
	switch (line->part) {
	case GM_OOM_PART_DEVICE:
		return gm_say("the device");
	case GM_OOM_PART_TENSORS:
		return gm_say("in PyTorch's tensors");
	case GM_OOM_PART_PENDING:
		return gm_say("released, waiting for a stream");
	case GM_OOM_PART_PRIVATE_POOLS:
		return gm_say("free, kept for private pools (CUDA graphs, MemPools)");
	case GM_OOM_PART_FRAGMENTS:
		return gm_oom_known(facts->largest_hole)
		               ? gm_say("free within PyTorch's segments, the largest part %s",
		                         gm_text_size(facts->largest_hole, text))
		               : gm_say("free within PyTorch's segments");
	case GM_OOM_PART_OWN_OUTSIDE:
		return gm_say("outside PyTorch in this process: CUDA's context, other libraries");
	case GM_OOM_PART_PROCESS:
		return say_process(facts, line->process);
	case GM_OOM_PART_PROCESSES:
		return gm_say("other processes");
	case GM_OOM_PART_REST_OUTSIDE:
		return gm_say("otherwise outside PyTorch: CUDA's context, other libraries");
	case GM_OOM_PART_OUTSIDE:
		return gm_say("outside PyTorch: CUDA's context, other libraries, other processes");
	case GM_OOM_PART_FREE:
		return gm_say("free on the device");
	case GM_OOM_PART_NEEDED:
		return gm_say("needed: %s short", gm_text_size(judgement->sums.missing, text));
	case GM_OOM_PART_MPS_LIMIT:
		return gm_say("allowed (the high watermark of MPS)");
	case GM_OOM_PART_MPS_OTHERS:
		return gm_say("in other Metal allocations");
	case GM_OOM_PART_MPS_REQUEST:
		break;
	}
	return gm_say("asked for");
}
