/*
 * The verdict on an out-of-memory error. Each candidate is a sum: what there was if that cause were gone, against what was
 * needed. Several may be true at once; the biggest is named first, and the arithmetic shows them all.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/oom/oom_sums.h"

/*
 * A process's CUDA context and the kernels loaded into it take 0.3 to 0.8 GiB of a device that nobody can avoid: that
 * much outside PyTorch explains nothing, nor does a twentieth of the device beyond it. Free pieces of less than a
 * fiftieth of the device are no cause to look for: the device is as good as full.
 */
static const uint64_t ordinary_context = UINT64_C(800) << 20;
enum { SIGNIFICANT = 50, SIGNIFICANT_OUTSIDE = 20 };

/* --- text ------------------------------------------------------------------------------------------ */

char *gm_oom_say(const char *format, ...)
{
	char *text;
	va_list arguments;
	va_start(arguments, format);
	int length = vasprintf(&text, format, arguments);
	va_end(arguments);
	return length < 0 ? NULL : text;
}

void gm_oom_add_line(struct gm_oom_judgement *judgement, char sign, uint64_t bytes, char *text)
{
	if (judgement->line_count == GM_OOM_LINES_MAX) {
		free(text);
		return;
	}
	judgement->lines[judgement->line_count++] = (struct gm_oom_line){sign, bytes, text};
}

/* --- the sums -------------------------------------------------------------------------------------- */

static struct gm_oom_sums sums_of(const struct gm_oom_facts *facts)
{
	struct gm_oom_sums sums = {.facts = facts,
	        .missing = GM_NOT_KNOWN,
	        .outside = GM_NOT_KNOWN,
	        .others = GM_NOT_KNOWN};
	sums.pieces = gm_oom_or_zero(facts->unallocated);
	sums.significant = gm_oom_known(facts->total) ? facts->total / SIGNIFICANT : facts->needed;
	uint64_t limit = gm_oom_known(facts->limit) ? facts->limit : 0;
	/* a text's figures are rounded: what is as good as the limit is at it */
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
		/* what is told of other processes needs no allowance */
		uint64_t own = sums.outside > sums.others ? sums.outside - sums.others : 0;
		sums.avoidable =
		        sums.others + (own > ordinary_context ? own - ordinary_context : 0);
	}
	return sums;
}

bool gm_oom_would_do(const struct gm_oom_sums *sums, uint64_t bytes)
{
	return gm_oom_known(sums->missing)
	               ? sums->missing > 0 && bytes >= sums->missing
	               : gm_oom_known(sums->facts->needed) && bytes >= sums->facts->needed;
}

/* --- verdicts -------------------------------------------------------------------------------------- */

static char *judge_mps(const struct gm_oom_facts *facts, struct gm_oom_judgement *judgement)
{
	struct gm_oom_words w = {0};
	uint64_t others = facts->process - facts->allocated;
	judgement->outside = others;
	judgement->missing = facts->process + facts->needed > facts->limit
	                             ? facts->process + facts->needed - facts->limit
	                             : 0;
	gm_oom_add_line(
	        judgement, ' ', facts->limit, gm_oom_say("allowed (the high watermark of MPS)"));
	gm_oom_add_line(judgement, '-', facts->allocated, gm_oom_say("in PyTorch's tensors"));
	gm_oom_add_line(judgement, '-', others, gm_oom_say("in other Metal allocations"));
	gm_oom_add_line(judgement, '-', facts->needed, gm_oom_say("asked for"));
	if (others >= judgement->missing && facts->allocated + facts->needed <= facts->limit) {
		judgement->verdict = GM_OOM_OUTSIDE;
		return gm_oom_say(
		        "Other Metal allocations take %s of the %s that are allowed; without them "
		        "the %s asked for would fit.",
		        gm_oom_size(&w, others), gm_oom_size(&w, facts->limit),
		        gm_oom_size(&w, facts->needed));
	}
	judgement->verdict = GM_OOM_CAPACITY;
	return gm_oom_say(
	        "PyTorch's tensors take %s of the %s that are allowed; %s more does not fit.",
	        gm_oom_size(&w, facts->allocated), gm_oom_size(&w, facts->limit),
	        gm_oom_size(&w, facts->needed));
}

static char *judge_limit(const struct gm_oom_sums *sums, struct gm_oom_judgement *judgement)
{
	struct gm_oom_words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	if (sums->pieces >= sums->missing && sums->pieces >= sums->significant) {
		judgement->verdict = GM_OOM_FRAGMENTATION;
		return gm_oom_say(
		        "PyTorch may have %s (a limit set for this process) and holds %s of it; %s "
		        "of that is free, in pieces too small for the %s needed.",
		        gm_oom_size(&w, facts->limit), gm_oom_size(&w, facts->reserved),
		        gm_oom_size(&w, sums->pieces), gm_oom_size(&w, facts->needed));
	}
	judgement->verdict = GM_OOM_CAPACITY;
	return gm_oom_say(
	        "The limit set for this process (set_per_process_memory_fraction) is reached: %s "
	        "is allowed, %s is held and %s was needed. The device itself has %s free.",
	        gm_oom_size(&w, facts->limit), gm_oom_size(&w, facts->reserved),
	        gm_oom_size(&w, facts->needed),
	        gm_oom_known(facts->free) ? gm_oom_size(&w, facts->free) : "some");
}

static char *judge_room(const struct gm_oom_sums *sums, struct gm_oom_judgement *judgement)
{
	struct gm_oom_words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	judgement->verdict = GM_OOM_UNKNOWN;
	return gm_oom_say(
	        "The figures do not explain it: the device had %s free and %s was needed. "
	        "Something else refused, or memory was let go before the message was written: "
	        "another process or thread, a limit of the driver or of the system (WSL, "
	        "a virtual GPU, a container, an integrated GPU), or an earlier fault of the "
	        "device.",
	        gm_oom_size(&w, facts->free), gm_oom_size(&w, facts->needed));
}

static char *judge_fragments(const struct gm_oom_sums *sums, struct gm_oom_judgement *judgement)
{
	struct gm_oom_words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	char largest[64] = "";
	judgement->verdict = GM_OOM_FRAGMENTATION;
	if (gm_oom_known(facts->largest_hole))
		snprintf(largest, sizeof(largest), " (the largest %s)",
		        gm_oom_size(&w, facts->largest_hole));
	if (!gm_oom_known(facts->free))
		return gm_oom_say(
		        "There is memory, in the wrong pieces: %s is free within PyTorch's "
		        "segments%s, and the %s needed have to be one piece.",
		        gm_oom_size(&w, sums->pieces), largest, gm_oom_size(&w, facts->needed));
	return gm_oom_say(
	        "There is memory, in the wrong pieces: %s is free within PyTorch's segments%s and "
	        "%s on the device, %s together; the %s needed have to be one piece.",
	        gm_oom_size(&w, sums->pieces), largest, gm_oom_size(&w, facts->free),
	        gm_oom_size(&w, sums->pieces + facts->free), gm_oom_size(&w, facts->needed));
}

static char *judge_pending(const struct gm_oom_sums *sums, struct gm_oom_judgement *judgement)
{
	struct gm_oom_words w = {0};
	judgement->verdict = GM_OOM_PENDING;
	return gm_oom_say(
	        "%s has been let go by the program and still waits for another stream "
	        "(record_stream): PyTorch does not wait for it while a CUDA graph is captured "
	        "or a MemPool is in use. With it, the %s needed would be there.",
	        gm_oom_size(&w, sums->facts->pending), gm_oom_size(&w, sums->facts->needed));
}

static char *judge_outside(const struct gm_oom_sums *sums, struct gm_oom_judgement *judgement)
{
	struct gm_oom_words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	judgement->verdict = GM_OOM_OUTSIDE;
	if (gm_oom_known(sums->others) && sums->others >= sums->missing)
		return gm_oom_say(
		        "Other processes hold %s of the device's %s; PyTorch has %s here. Without "
		        "them the %s needed would fit.",
		        gm_oom_size(&w, sums->others), gm_oom_size(&w, facts->total),
		        gm_oom_size(&w, facts->reserved), gm_oom_size(&w, facts->needed));
	return gm_oom_say(
	        "%s of the device's %s is held outside PyTorch's allocator%s; PyTorch has %s. A "
	        "CUDA context explains up to 0.8 GiB of it; without the rest the %s needed "
	        "would fit.",
	        gm_oom_size(&w, sums->outside), gm_oom_size(&w, facts->total),
	        !gm_oom_known(sums->others) ? ""
	        : sums->others >= sums->significant
	                ? ", by this process and others"
	                : " by this process: by other libraries or calls of CUDA",
	        gm_oom_size(&w, facts->reserved), gm_oom_size(&w, facts->needed));
}

static char *judge_capacity(const struct gm_oom_sums *sums, struct gm_oom_judgement *judgement)
{
	struct gm_oom_words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	judgement->verdict = GM_OOM_CAPACITY;
	if (gm_oom_known(facts->total) && facts->needed > facts->total)
		return gm_oom_say("The request alone, %s, is more than the whole device has: %s.",
		        gm_oom_size(&w, facts->needed), gm_oom_size(&w, facts->total));
	/* PyTorch's text counts what private pools keep among what is allocated, and does not tell what of it is free */
	char kept[96] = "";
	if (!facts->rounded && gm_oom_or_zero(facts->private_pools) >= facts->needed / 2)
		snprintf(kept, sizeof(kept), ", %s is free but kept for private pools",
		        gm_oom_size(&w, facts->private_pools));
	if (!gm_oom_known(facts->total) && gm_oom_known(facts->free))
		return gm_oom_say("There is too little memory: %s is in use by PyTorch's tensors%s "
		                  "and %s was "
		                  "free on the device; %s more was needed, %s too much.",
		        gm_oom_size(&w, facts->allocated), kept, gm_oom_size(&w, facts->free),
		        gm_oom_size(&w, facts->needed), gm_oom_size(&w, sums->missing));
	if (!gm_oom_known(facts->total) || !gm_oom_known(facts->free))
		return gm_oom_say(
		        "There is too little memory: %s is allocated%s, %s more was needed, and "
		        "the free pieces (%s) do not make it.",
		        gm_oom_size(&w, facts->allocated), kept, gm_oom_size(&w, facts->needed),
		        gm_oom_size(&w, sums->pieces));
	return gm_oom_say(
	        "There is too little memory: of the device's %s, %s is in use by PyTorch's "
	        "tensors%s and %s was free; %s more was needed, %s too much.",
	        gm_oom_size(&w, facts->total), gm_oom_size(&w, facts->allocated), kept,
	        gm_oom_size(&w, facts->free), gm_oom_size(&w, facts->needed),
	        gm_oom_size(&w, sums->missing));
}

static char *judge_figures(const struct gm_oom_sums *sums, struct gm_oom_judgement *judgement)
{
	const struct gm_oom_facts *facts = sums->facts;
	if (gm_oom_known(facts->total) && facts->needed > facts->total)
		return judge_capacity(sums, judgement);
	if (sums->limited)
		return judge_limit(sums, judgement);
	if (gm_oom_known(facts->free) && facts->free >= facts->needed)
		return judge_room(sums, judgement);
	if (!gm_oom_known(facts->allocated) || !gm_oom_known(facts->reserved)) {
		judgement->verdict = GM_OOM_UNKNOWN;
		return gm_oom_say("The message has too few figures for a verdict.");
	}
	uint64_t left = sums->pieces + gm_oom_or_zero(facts->free);
	bool fragments =
	        gm_oom_would_do(sums, sums->pieces) && left - facts->needed >= sums->significant;
	if (!gm_oom_known(facts->total)) /* no scale: as much again as was asked for */
		fragments = gm_oom_would_do(sums, sums->pieces);
	bool outside = gm_oom_known(sums->missing) && gm_oom_known(facts->total) &&
	               gm_oom_would_do(sums, sums->avoidable) &&
	               sums->avoidable >= facts->total / SIGNIFICANT_OUTSIDE;
	bool pending = gm_oom_known(facts->pending) && facts->pending &&
	               gm_oom_would_do(sums, facts->pending + sums->pieces);
	if (pending && !fragments)
		return judge_pending(sums, judgement);
	if (fragments && (!outside || sums->pieces >= sums->avoidable))
		return judge_fragments(sums, judgement);
	if (outside)
		return judge_outside(sums, judgement);
	return judge_capacity(sums, judgement);
}

/* --- all ------------------------------------------------------------------------------------------- */

bool gm_oom_judge(const struct gm_oom_facts *facts, struct gm_oom_judgement *ret_judgement)
{
	struct gm_oom_judgement judgement = {.missing = GM_NOT_KNOWN, .outside = GM_NOT_KNOWN};
	if (strcmp(facts->platform, "MPS") == 0 && gm_oom_known(facts->process) &&
	        gm_oom_known(facts->limit)) {
		judgement.sentence = judge_mps(facts, &judgement);
	} else {
		struct gm_oom_sums sums = sums_of(facts);
		judgement.missing = sums.missing;
		judgement.outside = sums.outside;
		judgement.sentence = judge_figures(&sums, &judgement);
		gm_oom_add_arithmetic(&sums, &judgement);
		gm_oom_add_remedies(&sums, &judgement);
	}
	bool memory = judgement.sentence != NULL;
	for (size_t i = 0; i < judgement.line_count; i++)
		memory &= judgement.lines[i].text != NULL;
	for (size_t i = 0; i < judgement.remedy_count; i++)
		memory &= judgement.remedies[i].text != NULL;
	if (!memory)
		gm_oom_judgement_deinit(&judgement);
	else
		*ret_judgement = judgement;
	return memory;
}

void gm_oom_judgement_deinit(struct gm_oom_judgement *judgement)
{
	for (size_t i = 0; i < judgement->line_count; i++)
		free(judgement->lines[i].text);
	for (size_t i = 0; i < judgement->remedy_count; i++)
		free(judgement->remedies[i].text);
	free(judgement->sentence);
	*judgement = (struct gm_oom_judgement){0};
}

const char *gm_oom_verdict_name(enum gm_oom_verdict verdict)
{
	static const char *const names[] = {
	        NULL, "capacity", "fragmentation", "pending", "outside", "unknown"};
	return names[verdict];
}
