/*
 * The verdict on an out-of-memory error. Each candidate is a sum: what there was if that cause were gone, against what was
 * needed. Several may be true at once; the biggest is named first, and the arithmetic shows them all.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/oom_facts.h"
#include "base/size.h"

/*
 * A process's CUDA context and the kernels loaded into it take 0.3 to 0.8 GiB of a device that nobody can avoid: that
 * much outside PyTorch explains nothing, nor does a twentieth of the device beyond it. Free pieces of less than a fiftieth of the device are no cause to look for:
 * the device is as good as full.
 */
static const uint64_t ordinary_context = UINT64_C(800) << 20;
enum { SIGNIFICANT = 50, SIGNIFICANT_OUTSIDE = 20 };

static bool known(uint64_t bytes)
{
	return bytes != GM_NOT_KNOWN;
}

static uint64_t or_zero(uint64_t bytes)
{
	return known(bytes) ? bytes : 0;
}

/* --- text ------------------------------------------------------------------------------------------ */

__attribute__((format(printf, 1, 2))) static char *say(const char *format, ...)
{
	char *text;
	va_list arguments;
	va_start(arguments, format);
	int length = vasprintf(&text, format, arguments);
	va_end(arguments);
	return length < 0 ? NULL : text;
}

struct words {
	char text[8][GM_SIZE_TEXT];
	unsigned next;
};

static const char *size(struct words *words, uint64_t bytes)
{
	return gm_text_size(bytes, words->text[words->next++ % 8]);
}

static void add_line(struct gm_oom_judgement *judgement, char sign, uint64_t bytes, char *text)
{
	if (judgement->line_count == GM_OOM_LINES_MAX) {
		free(text);
		return;
	}
	judgement->lines[judgement->line_count++] = (struct gm_oom_line){sign, bytes, text};
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

/* --- the sums -------------------------------------------------------------------------------------- */

struct sums {
	const struct gm_oom_facts *facts;
	uint64_t missing;     /* that the device was short of; GM_NOT_KNOWN */
	uint64_t pieces;      /* free within PyTorch's segments */
	uint64_t outside;     /* in use and not PyTorch's; GM_NOT_KNOWN */
	uint64_t others;      /* of that, other processes'; GM_NOT_KNOWN */
	uint64_t avoidable;   /* of `outside`: more than a context's own */
	uint64_t significant; /* bytes that are worth a verdict */
	bool limited;         /* the process's limit refused, not the device */
};

static struct sums sums_of(const struct gm_oom_facts *facts)
{
	struct sums sums = {.facts = facts,
	        .missing = GM_NOT_KNOWN,
	        .outside = GM_NOT_KNOWN,
	        .others = GM_NOT_KNOWN};
	sums.pieces = or_zero(facts->unallocated);
	sums.significant = known(facts->total) ? facts->total / SIGNIFICANT : facts->needed;
	uint64_t limit = known(facts->limit) ? facts->limit : 0;
	/* a text's figures are rounded: what is as good as the limit is at it */
	uint64_t slack = facts->rounded ? limit / 200 : 0;
	uint64_t wanted = known(facts->reserved) ? facts->reserved + facts->needed : 0;
	sums.limited = limit && wanted && wanted + slack > limit &&
	               !(known(facts->free) && facts->free < facts->needed);
	if (sums.limited)
		sums.missing = wanted > limit ? wanted - limit : 0;
	else if (known(facts->free) && known(facts->needed))
		sums.missing = facts->needed > facts->free ? facts->needed - facts->free : 0;
	if (known(facts->total) && known(facts->free) && known(facts->reserved)) {
		uint64_t accounted = facts->free + facts->reserved;
		sums.outside = facts->total > accounted ? facts->total - accounted : 0;
	}
	uint64_t listed = 0;
	for (size_t i = 0; i < facts->other_count; i++)
		listed += facts->others[i].bytes;
	if (facts->other_count)
		sums.others = listed;
	else if (known(facts->process) && known(facts->total) && known(facts->free)) {
		uint64_t ours = facts->process + facts->free;
		sums.others = facts->total > ours ? facts->total - ours : 0;
	}
	if (known(sums.outside) && sums.outside > ordinary_context)
		sums.avoidable = sums.outside - ordinary_context;
	if (known(sums.others) && known(sums.outside)) {
		/* what is told of other processes needs no allowance */
		uint64_t own = sums.outside > sums.others ? sums.outside - sums.others : 0;
		sums.avoidable =
		        sums.others + (own > ordinary_context ? own - ordinary_context : 0);
	}
	return sums;
}

/* Would the request have been served with so many bytes more? */
static bool would_do(const struct sums *sums, uint64_t bytes)
{
	return known(sums->missing) ? sums->missing > 0 && bytes >= sums->missing
	                            : known(sums->facts->needed) && bytes >= sums->facts->needed;
}

/* --- verdicts -------------------------------------------------------------------------------------- */

static char *judge_mps(const struct gm_oom_facts *facts, struct gm_oom_judgement *judgement)
{
	struct words w = {0};
	uint64_t others = facts->process - facts->allocated;
	judgement->outside = others;
	judgement->missing = facts->process + facts->needed > facts->limit
	                             ? facts->process + facts->needed - facts->limit
	                             : 0;
	add_line(judgement, ' ', facts->limit, say("allowed (the high watermark of MPS)"));
	add_line(judgement, '-', facts->allocated, say("in PyTorch's tensors"));
	add_line(judgement, '-', others, say("in other Metal allocations"));
	add_line(judgement, '-', facts->needed, say("asked for"));
	if (others >= judgement->missing && facts->allocated + facts->needed <= facts->limit) {
		judgement->verdict = GM_OOM_OUTSIDE;
		return say(
		        "Other Metal allocations take %s of the %s that are allowed; without them "
		        "the %s asked for would fit.",
		        size(&w, others), size(&w, facts->limit), size(&w, facts->needed));
	}
	judgement->verdict = GM_OOM_CAPACITY;
	return say("PyTorch's tensors take %s of the %s that are allowed; %s more does not fit.",
	        size(&w, facts->allocated), size(&w, facts->limit), size(&w, facts->needed));
}

static char *judge_limit(const struct sums *sums, struct gm_oom_judgement *judgement)
{
	struct words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	if (sums->pieces >= sums->missing && sums->pieces >= sums->significant) {
		judgement->verdict = GM_OOM_FRAGMENTATION;
		return say(
		        "PyTorch may have %s (a limit set for this process) and holds %s of it; %s "
		        "of that is free, in pieces too small for the %s needed.",
		        size(&w, facts->limit), size(&w, facts->reserved), size(&w, sums->pieces),
		        size(&w, facts->needed));
	}
	judgement->verdict = GM_OOM_CAPACITY;
	return say(
	        "The limit set for this process (set_per_process_memory_fraction) is reached: %s "
	        "is allowed, %s is held and %s was needed. The device itself has %s free.",
	        size(&w, facts->limit), size(&w, facts->reserved), size(&w, facts->needed),
	        known(facts->free) ? size(&w, facts->free) : "some");
}

static char *judge_room(const struct sums *sums, struct gm_oom_judgement *judgement)
{
	struct words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	judgement->verdict = GM_OOM_UNKNOWN;
	return say("The figures do not explain it: the device had %s free and %s was needed. "
	           "Something else refused, or memory was let go before the message was written: "
	           "another process or thread, a limit of the driver or of the system (WSL, "
	           "a virtual GPU, a container, an integrated GPU), or an earlier fault of the "
	           "device.",
	        size(&w, facts->free), size(&w, facts->needed));
}

static char *judge_fragments(const struct sums *sums, struct gm_oom_judgement *judgement)
{
	struct words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	char largest[64] = "";
	judgement->verdict = GM_OOM_FRAGMENTATION;
	if (known(facts->largest_hole))
		snprintf(largest, sizeof(largest), " (the largest %s)",
		        size(&w, facts->largest_hole));
	if (!known(facts->free))
		return say("There is memory, in the wrong pieces: %s is free within PyTorch's "
		           "segments%s, and the %s needed have to be one piece.",
		        size(&w, sums->pieces), largest, size(&w, facts->needed));
	return say(
	        "There is memory, in the wrong pieces: %s is free within PyTorch's segments%s and "
	        "%s on the device, %s together; the %s needed have to be one piece.",
	        size(&w, sums->pieces), largest, size(&w, facts->free),
	        size(&w, sums->pieces + facts->free), size(&w, facts->needed));
}

static char *judge_pending(const struct sums *sums, struct gm_oom_judgement *judgement)
{
	struct words w = {0};
	judgement->verdict = GM_OOM_PENDING;
	return say("%s has been let go by the program and still waits for another stream "
	           "(record_stream): PyTorch does not wait for it while a CUDA graph is captured "
	           "or a MemPool is in use. With it, the %s needed would be there.",
	        size(&w, sums->facts->pending), size(&w, sums->facts->needed));
}

static char *judge_outside(const struct sums *sums, struct gm_oom_judgement *judgement)
{
	struct words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	judgement->verdict = GM_OOM_OUTSIDE;
	if (known(sums->others) && sums->others >= sums->missing)
		return say(
		        "Other processes hold %s of the device's %s; PyTorch has %s here. Without "
		        "them the %s needed would fit.",
		        size(&w, sums->others), size(&w, facts->total), size(&w, facts->reserved),
		        size(&w, facts->needed));
	return say("%s of the device's %s is held outside PyTorch's allocator%s; PyTorch has %s. A "
	           "CUDA context explains up to 0.8 GiB of it; without the rest the %s needed "
	           "would fit.",
	        size(&w, sums->outside), size(&w, facts->total),
	        !known(sums->others) ? ""
	        : sums->others >= sums->significant
	                ? ", by this process and others"
	                : " by this process: by other libraries or calls of CUDA",
	        size(&w, facts->reserved), size(&w, facts->needed));
}

static char *judge_capacity(const struct sums *sums, struct gm_oom_judgement *judgement)
{
	struct words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	judgement->verdict = GM_OOM_CAPACITY;
	if (known(facts->total) && facts->needed > facts->total)
		return say("The request alone, %s, is more than the whole device has: %s.",
		        size(&w, facts->needed), size(&w, facts->total));
	if (!known(facts->total) || !known(facts->free))
		return say("There is too little memory: %s is allocated, %s more was needed, and "
		           "the free pieces (%s) do not make it.",
		        size(&w, facts->allocated), size(&w, facts->needed),
		        size(&w, sums->pieces));
	return say(
	        "There is too little memory: of the device's %s, %s is in use by PyTorch's tensors "
	        "and %s was free; %s more was needed, %s too much.",
	        size(&w, facts->total), size(&w, facts->allocated), size(&w, facts->free),
	        size(&w, facts->needed), size(&w, sums->missing));
}

static char *judge_figures(const struct sums *sums, struct gm_oom_judgement *judgement)
{
	const struct gm_oom_facts *facts = sums->facts;
	if (known(facts->total) && facts->needed > facts->total)
		return judge_capacity(sums, judgement);
	if (sums->limited)
		return judge_limit(sums, judgement);
	if (known(facts->free) && facts->free >= facts->needed)
		return judge_room(sums, judgement);
	if (!known(facts->allocated) || !known(facts->reserved)) {
		judgement->verdict = GM_OOM_UNKNOWN;
		return say("The message has too few figures for a verdict.");
	}
	uint64_t left = sums->pieces + or_zero(facts->free);
	bool fragments = would_do(sums, sums->pieces) && left - facts->needed >= sums->significant;
	if (!known(facts->total)) /* no scale: as much again as was asked for */
		fragments = would_do(sums, sums->pieces);
	bool outside = known(sums->missing) && known(facts->total) &&
	               would_do(sums, sums->avoidable) &&
	               sums->avoidable >= facts->total / SIGNIFICANT_OUTSIDE;
	bool pending = known(facts->pending) && facts->pending &&
	               would_do(sums, facts->pending + sums->pieces);
	if (pending && !fragments)
		return judge_pending(sums, judgement);
	if (fragments && (!outside || sums->pieces >= sums->avoidable))
		return judge_fragments(sums, judgement);
	if (outside)
		return judge_outside(sums, judgement);
	return judge_capacity(sums, judgement);
}

/* --- the arithmetic -------------------------------------------------------------------------------- */

static char *other_text(const struct gm_oom_facts *facts, size_t i)
{
	const char *name = facts->others[i].name;
	if (facts->others[i].pid == 0)
		return say("further processes");
	return say("process %" PRIu64 "%s%s%s", facts->others[i].pid, name[0] ? " (" : "", name,
	        name[0] ? ")" : "");
}

static void add_arithmetic(const struct sums *sums, struct gm_oom_judgement *judgement)
{
	const struct gm_oom_facts *facts = sums->facts;
	struct words w = {0};
	if (!known(facts->total) || !known(facts->reserved))
		return;
	add_line(judgement, ' ', facts->total, say("the device"));
	add_line(judgement, '-', facts->allocated, say("in PyTorch's tensors"));
	if (or_zero(facts->pending))
		add_line(judgement, '-', facts->pending, say("let go, waiting for a stream"));
	if (!facts->rounded &&
	        or_zero(facts->private_pools)) /* PyTorch's text has them in the first */
		add_line(judgement, '-', facts->private_pools,
		        say("free, kept for private pools (CUDA graphs, MemPools)"));
	if (facts->unallocated)
		add_line(judgement, '-', sums->pieces,
		        known(facts->largest_hole)
		                ? say("free within PyTorch's segments, the largest piece %s",
		                          size(&w, facts->largest_hole))
		                : say("free within PyTorch's segments"));
	if (known(sums->outside) && known(sums->others) && !facts->other_count && sums->others) {
		uint64_t own = sums->outside > sums->others ? sums->outside - sums->others : 0;
		add_line(judgement, '-', own,
		        say("outside PyTorch in this process: CUDA's context, other libraries"));
		add_line(judgement, '-', sums->outside - own, say("other processes"));
	} else if (known(sums->outside)) {
		uint64_t listed = 0;
		for (size_t i = 0; i < facts->other_count; i++) {
			add_line(judgement, '-', facts->others[i].bytes, other_text(facts, i));
			listed += facts->others[i].bytes;
		}
		add_line(judgement, '-', sums->outside > listed ? sums->outside - listed : 0,
		        say(listed ? "else outside PyTorch: CUDA's context, other libraries"
		                : known(sums->others)
		                        ? "outside PyTorch in this process: CUDA's context, other "
		                          "libraries"
		                        : "outside PyTorch: CUDA's context, other libraries, other "
		                          "processes"));
	}
	if (known(facts->free)) {
		add_line(judgement, '=', facts->free, say("free on the device"));
		if (!sums->limited && sums->missing)
			add_line(judgement, ' ', facts->needed,
			        say("needed: %s short", size(&w, sums->missing)));
	}
}

static enum gm_oom_answer yes_if(bool condition)
{
	return condition ? GM_OOM_YES : GM_OOM_NO;
}

static void add_expandable(const struct sums *sums, struct gm_oom_judgement *judgement)
{
	struct words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	if (facts->expandable) {
		add_remedy(judgement, "expandable_segments", GM_OOM_NO,
		        say("expandable_segments:True is set already"));
		return;
	}
	bool exact = known(facts->movable);
	uint64_t gain = exact ? facts->movable : sums->pieces;
	bool enough = would_do(sums, gain);
	add_remedy(judgement, "expandable_segments",
	        enough && !exact ? GM_OOM_MAYBE : yes_if(enough),
	        say(enough ? exact ? "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets pieces "
	                             "be "
	                             "put together: %s of them are whole pages, %s was missing"
	                           : "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets pieces "
	                             "be "
	                             "put together: up to %s, %s was missing"
	                   : "expandable_segments:True would gain at most %s of the %s missing",
	                size(&w, gain),
	                size(&w, known(sums->missing) ? sums->missing : facts->needed)));
}

/* Of what waits for a stream, whole segments could be given back, and a piece that is large enough used. */
static void add_waiting(
        const struct sums *sums, uint64_t missing, struct gm_oom_judgement *judgement)
{
	struct words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	bool enough = or_zero(facts->waited_whole) >= missing ||
	              or_zero(facts->waited_largest) >= facts->requested;
	bool perhaps = facts->pending + sums->pieces >= missing;
	add_remedy(judgement, "wait_for_stream",
	        enough    ? GM_OOM_YES
	        : perhaps ? GM_OOM_MAYBE
	                  : GM_OOM_NO,
	        enough || perhaps
	                ? say("the %s that waits: wait for that stream (Stream.synchronize) before "
	                      "the capture or the MemPool's `with`, or let go of it there",
	                          size(&w, facts->pending))
	                : say("the %s that waits for a stream is less than the %s missing",
	                          size(&w, facts->pending), size(&w, missing)));
}

static void add_remedies(const struct sums *sums, struct gm_oom_judgement *judgement)
{
	struct words w = {0};
	const struct gm_oom_facts *facts = sums->facts;
	if (judgement->verdict == GM_OOM_UNKNOWN)
		return;
	uint64_t missing = known(sums->missing) ? sums->missing : facts->needed;
	if (known(facts->total) && facts->needed > facts->total) {
		add_remedy(judgement, "smaller_request", GM_OOM_YES,
		        say("only a smaller request: a smaller batch, or in parts"));
		return;
	}
	if (judgement->verdict == GM_OOM_OUTSIDE)
		add_remedy(judgement, "outside", GM_OOM_YES,
		        say("%s less outside PyTorch: %s", size(&w, missing),
		                !known(sums->others) ? "nvidia-smi lists the processes; other "
		                                       "libraries of this process do not show up "
		                                       "in it singly"
		                : sums->others < sums->significant
		                        ? "in other libraries of this process, or in what it "
		                          "allocates from CUDA itself"
		                : facts->other_count ? "in the processes listed above, or in other "
		                                       "libraries of this one"
		                                     : "nvidia-smi lists the processes"));
	if (or_zero(facts->pending))
		add_waiting(sums, missing, judgement);
	if (sums->limited)
		add_remedy(judgement, "limit", yes_if(or_zero(facts->free) >= facts->needed),
		        say("a limit of %s or more", size(&w, facts->reserved + facts->needed)));
	add_remedy(judgement, "free_memory", GM_OOM_YES,
	        say("%s less in tensors, in one piece or in whole segments", size(&w, missing)));
	add_expandable(sums, judgement);
	uint64_t whole = or_zero(facts->whole_free);
	add_remedy(judgement, "empty_cache", yes_if(would_do(sums, whole)),
	        would_do(sums, whole)
	                ? say("torch.cuda.empty_cache(): %s is in whole free segments now",
	                          size(&w, whole))
	        : or_zero(facts->pending)
	                ? say("torch.cuda.empty_cache() would give back %s: too little",
	                          size(&w, whole))
	                : say("torch.cuda.empty_cache() gains nothing: PyTorch gave back all whole "
	                      "free segments before it gave up"));
	if (or_zero(facts->private_pools))
		add_remedy(judgement, "private_pools",
		        facts->private_pools >= missing ? GM_OOM_MAYBE : GM_OOM_NO,
		        say("%s belongs to private pools (CUDA graphs): fewer or shared pools",
		                size(&w, facts->private_pools)));
}

/* --- all ------------------------------------------------------------------------------------------- */

bool gm_oom_judge(const struct gm_oom_facts *facts, struct gm_oom_judgement *ret_judgement)
{
	struct gm_oom_judgement judgement = {.missing = GM_NOT_KNOWN, .outside = GM_NOT_KNOWN};
	if (strcmp(facts->platform, "MPS") == 0 && known(facts->process) && known(facts->limit)) {
		judgement.sentence = judge_mps(facts, &judgement);
	} else {
		struct sums sums = sums_of(facts);
		judgement.missing = sums.missing;
		judgement.outside = sums.outside;
		judgement.sentence = judge_figures(&sums, &judgement);
		add_arithmetic(&sums, &judgement);
		add_remedies(&sums, &judgement);
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
