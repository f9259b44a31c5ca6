#include "model/steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "model/phase.h"

enum {
	FRAMES_MAX = 256,
	LOOPS_MAX = 1024, /* followed at once; a program that has more is no training script */
	GM_STEP_LOOPS_MAX = 64, /* of one code object */
	TURNS_MAX = 64,         /* loops that turned and had no event within since */
	SEEN_MAX = 1 << 12,     /* allocation sites remembered per pass of a thin loop */
};

/* One loop that has been on a stack. */
struct followed {
	uint32_t code, loop, line;
	uint32_t depth;     /* of its frame from the outermost, the least seen */
	uint32_t nesting;   /* loops of the same code around it */
	bool candidate;     /* without landmarks too */
	unsigned landmarks; /* seen within */
	uint64_t events;
	uint64_t fed; /* the number of the last event in it */
	bool inside;  /* that was the event before this one */
	bool told;    /* its iterator tells its passes */
	bool turned;  /* and it has moved since the last event within */
	uint32_t last_lasti;
	uint32_t last_inner; /* index + 1 of the loop right within it that the last event was in */
	uint32_t last_stack; /* of the last event in what its frame calls, at last_lasti; 0: none */
	uint32_t passes;     /* by control going up */
	uint32_t thin_passes;    /* the same and by repeated allocations */
	uint32_t alloc_lasti;    /* of the first allocation within, plus 1 */
	bool thick;              /* allocations come from several instructions */
	GM_ARRAY(uint64_t) seen; /* allocation sites of this pass, while thin */
};

/* A loop that a stack stands in. */
struct standing {
	uint32_t followed; /* index */
	uint32_t depth;    /* of its frame from the outermost */
	uint32_t lasti;
	uint32_t inner;   /* index + 1 in the code's loops of the loop right within, 0: none */
	bool inner_loops; /* some loop within it, in its frame or in one further in, is under way */
	bool leaving;     /* its frame is leaving a `with`: in a snapshot, whose lines are all that
	                     is known, it stands on the first line of that again */
};

/* Where one frame stands, and in which of its code's loops (bit i: loop i). */
struct place {
	uint32_t code, lasti;
	uint64_t loops;
};

/* What a stack says, worked out once. */
struct summary {
	bool known;
	uint32_t outermost; /* code of the outermost frame: tells threads apart */
	unsigned landmarks;
	enum gm_phase phase;  /* OTHER: its frames do not tell */
	bool evaluates;       /* some frame says that no training is done */
	uint64_t generation;  /* which call of generate() it stands in, 0: in none */
	struct place turning; /* within that the outermost frame that stands in a loop */
	uint32_t count;
	struct standing *standing;
	/* the frames from the outermost in, up to the first of torch's own */
	uint32_t place_count;
	struct place *places;
	uint64_t places_hash;
};

/* A loop that is in another pass since the last event that stood in it. */
struct turn {
	uint32_t code, loop;
	bool told;
};

struct gm_steps {
	gm_step_frames frames;
	void *context;
	GM_ARRAY(struct followed) followed;
	GM_ARRAY(struct summary) summaries; /* by stack id */
	struct turn turns[TURNS_MAX];
	size_t turn_count;
	unsigned landmarks; /* seen in all */
	bool fixed;
	struct gm_step_loop fixed_loop;
	uint32_t main_code; /* outermost frame of the first stack */
	uint32_t step;
	enum gm_phase phase;
	enum gm_phase pass_phase; /* how far this pass has come: FORWARD, BACKWARD or OTHER */
	uint32_t phase_step;
	bool entered;        /* the loop has been entered once */
	bool modules;        /* some module has been called */
	uint64_t generation; /* the call of generate() that the last event was in */
	struct place turning;
	bool decoding;         /* its loop has gone round */
	uint64_t fed;          /* events of the main thread that told something */
	uint32_t latest_stack; /* of the last of them; 0: another thread's came since */
	bool settled;          /* a further allocation at that stack tells nothing either */
	uint64_t repeated;     /* events since that told nothing new */
};

struct gm_steps *gm_steps_create(gm_step_frames frames, void *context)
{
	struct gm_steps *steps = calloc(1, sizeof(*steps));
	if (!steps)
		return NULL;
	steps->frames = frames;
	steps->context = context;
	return steps;
}

void gm_steps_destroy(struct gm_steps *steps)
{
	if (!steps)
		return;
	for (size_t i = 0; i < steps->followed.count; i++)
		gm_array_deinit(&steps->followed.items[i].seen);
	for (size_t i = 0; i < steps->summaries.count; i++) {
		free(steps->summaries.items[i].standing);
		free(steps->summaries.items[i].places);
	}
	gm_array_deinit(&steps->followed);
	gm_array_deinit(&steps->summaries);
	free(steps);
}

void gm_steps_fix(struct gm_steps *steps, const struct gm_step_loop *loop)
{
	steps->fixed = true;
	steps->fixed_loop = *loop;
}

static bool within(const struct gm_log_loop *loop, uint32_t lasti)
{
	return lasti >= loop->start && lasti < loop->end;
}

static bool wider(const struct gm_log_loop *a, const struct gm_log_loop *b)
{
	return a->start <= b->start && a->end >= b->end && (a->start < b->start || a->end > b->end);
}

/* The index of a followed loop; UINT32_MAX: none can be followed any more. */
static uint32_t follow(struct gm_steps *steps, const struct gm_step_frame *frame, uint32_t loop,
        uint32_t depth, uint32_t nesting, bool candidate)
{
	for (uint32_t i = 0; i < steps->followed.count; i++) {
		struct followed *known = &steps->followed.items[i];
		if (known->code != frame->code || known->loop != loop)
			continue;
		known->depth = depth < known->depth ? depth : known->depth;
		known->candidate |= candidate;
		return i;
	}
	const struct followed fresh = {
	        .code = frame->code,
	        .loop = loop,
	        .line = frame->loops[loop].line,
	        .depth = depth,
	        .nesting = nesting,
	        .candidate = candidate,
	};
	if (steps->followed.count == LOOPS_MAX || !gm_array_push(&steps->followed, fresh))
		return UINT32_MAX;
	return (uint32_t)steps->followed.count - 1;
}

/* The loops of one frame that it stands in, appended to the summary. */
static bool summarise_frame(struct gm_steps *steps, struct summary *summary,
        const struct gm_step_frame *frame, uint32_t depth, bool candidate)
{
	uint32_t limit =
	        frame->loop_count < GM_STEP_LOOPS_MAX ? frame->loop_count : GM_STEP_LOOPS_MAX;
	for (uint32_t i = 0; i < limit; i++) {
		const struct gm_log_loop *loop = &frame->loops[i];
		if (!within(loop, frame->lasti))
			continue;
		if (steps->fixed &&
		        (frame->code != steps->fixed_loop.code || i != steps->fixed_loop.loop))
			continue;
		uint32_t nesting = 0, inner = 0;
		for (uint32_t j = 0; j < limit; j++) {
			nesting += wider(&frame->loops[j], loop);
			/* the widest of those within that the frame stands in */
			if (wider(loop, &frame->loops[j]) &&
			        within(&frame->loops[j], frame->lasti) &&
			        (!inner || wider(&frame->loops[j], &frame->loops[inner - 1])))
				inner = j + 1;
		}
		uint32_t index = follow(steps, frame, i, depth, nesting, candidate);
		if (index == UINT32_MAX)
			continue;
		struct standing *grown = realloc(
		        summary->standing, (summary->count + 1) * sizeof(*summary->standing));
		if (!grown)
			return false;
		summary->standing = grown;
		grown[summary->count++] = (struct standing){
		        .followed = index,
		        .depth = depth,
		        .lasti = frame->lasti,
		        .inner = inner,
		        .inner_loops = inner != 0,
		};
	}
	return true;
}

/* The loops of its code that a frame stands in: bit i for loop i. */
static uint64_t frame_loops(const struct gm_step_frame *frame)
{
	uint64_t loops = 0;
	for (uint32_t i = 0; i < frame->loop_count && i < GM_STEP_LOOPS_MAX; i++)
		if (within(&frame->loops[i], frame->lasti))
			loops |= UINT64_C(1) << i;
	return loops;
}

/* Keeps where the frames stand, outermost first, down to where torch's own begin: what runs within those may
 * be called again and again by native code (hooks, workers), which is no pass of anybody's loop. */
static void keep_places(struct summary *summary, const struct gm_step_frame *frames, size_t count)
{
	summary->places = count ? malloc(count * sizeof(*summary->places)) : NULL;
	for (size_t i = count; summary->places && i-- > 0 && !gm_frame_in_torch(frames[i].file);) {
		summary->places[summary->place_count++] =
		        (struct place){frames[i].code, frames[i].lasti, frame_loops(&frames[i])};
		uint64_t place = (uint64_t)frames[i].code << 32 | frames[i].lasti;
		summary->places_hash = gm_hash_mix(summary->places_hash ^ place) + 1;
	}
}

/* Evaluation and generation. `calls` is a hash of the frames so far: one call of a function has one. */
static void summarise_use(struct summary *summary, const struct gm_step_frame *frame,
        enum gm_phase phase, uint64_t *calls)
{
	*calls = gm_hash_mix(*calls ^ ((uint64_t)frame->code << 32 | frame->lasti));
	if (summary->phase == GM_PHASE_OTHER && phase == GM_PHASE_OTHER &&
	        gm_frame_evaluates(frame))
		summary->evaluates = true;
	if (!summary->generation && gm_frame_generates(frame)) {
		summary->generation = *calls | 1;
		summary->evaluates = false; /* generate() is under no_grad() as a whole */
	} else if (summary->generation && !summary->turning.loops) {
		summary->turning = (struct place){frame->code, frame->lasti, frame_loops(frame)};
	}
}

static void summarise(struct gm_steps *steps, uint32_t stack, struct summary *summary)
{
	struct gm_step_frame frames[FRAMES_MAX];
	size_t count = steps->frames(steps->context, stack, frames, FRAMES_MAX);
	bool candidate = true, in_landmark = false;
	uint64_t calls = 0;
	summary->known = true;
	keep_places(summary, frames, count);
	/* from the outermost in */
	for (size_t i = count; i-- > 0;) {
		const struct gm_step_frame *frame = &frames[i];
		uint32_t depth = (uint32_t)(count - 1 - i);
		if (depth == 0)
			summary->outermost = frame->code;
		unsigned landmark = gm_frame_landmark(frame);
		summary->landmarks |= landmark;
		in_landmark |= landmark != 0;
		candidate = candidate && !gm_frame_shuts(frame);
		enum gm_phase phase = gm_frame_phase(frame);
		if (summary->phase == GM_PHASE_OPTIMIZER && i + 1 < count &&
		        gm_frame_leaves_optimizer(frame, &frames[i + 1]))
			summary->phase = GM_PHASE_OTHER;
		summarise_use(summary, frame, phase, &calls);
		/* A module that runs within the backward pass runs again, for a checkpoint. */
		if (phase == GM_PHASE_FORWARD && summary->phase == GM_PHASE_BACKWARD)
			summary->phase = GM_PHASE_RECOMPUTE;
		else if (phase && summary->phase == GM_PHASE_OTHER)
			summary->phase = phase;
		else if (phase == GM_PHASE_ZERO_GRAD)
			summary->phase = phase;
		if (frame_loops(frame))
			for (uint32_t j = 0; j < summary->count; j++)
				if (depth > 0)
					summary->standing[j].inner_loops = true;
		/* torch's own loops, and those within a landmark, are never the user's training loop. */
		size_t before = summary->count;
		if (!gm_frame_in_torch(frame->file) && !in_landmark &&
		        !summarise_frame(steps, summary, frame, depth, candidate))
			break;
		for (; before < summary->count; before++)
			summary->standing[before].leaving = i && gm_frame_leaves(&frames[i - 1]);
	}
}

static struct summary *summary_of(struct gm_steps *steps, uint32_t stack)
{
	if (stack >= steps->summaries.count) {
		size_t more = stack + 1 - steps->summaries.count;
		if (!gm_array_reserve(&steps->summaries, more))
			return NULL;
		memset(steps->summaries.items + steps->summaries.count, 0,
		        more * sizeof(*steps->summaries.items));
		steps->summaries.count += more;
	}
	struct summary *summary = &steps->summaries.items[stack];
	if (!summary->known)
		summarise(steps, stack, summary);
	return summary;
}

/* ---- passes --------------------------------------------------------------------------------------- */

static bool seen_before(struct followed *loop, uint64_t site)
{
	for (size_t i = 0; i < loop->seen.count; i++)
		if (loop->seen.items[i] == site)
			return true;
	if (loop->seen.count < SEEN_MAX && !gm_array_push(&loop->seen, site))
		return false;
	return false;
}

/*
 * Whether a function that the loop's frame calls, at the same place as before, has begun anew: the first frame
 * that stands elsewhere stands further up, and no loop nearer to it explains that.
 */
static bool called_anew(
        const struct summary *before, const struct summary *now, const struct standing *standing)
{
	/* most often nothing differs: what does is within torch's own frames */
	if (standing->inner || (before->places_hash == now->places_hash &&
	                               before->place_count == now->place_count))
		return false;
	for (uint32_t i = standing->depth + 1; i < before->place_count && i < now->place_count;
	        i++) {
		const struct place *a = &before->places[i], *b = &now->places[i];
		if (a->code != b->code)
			return false;
		if (a->lasti != b->lasti)
			return b->lasti < a->lasti && (a->loops & b->loops) == 0;
		if (b->loops)
			return false;
	}
	return false;
}

static void pass(struct gm_steps *steps, struct followed *loop, const struct standing *standing,
        uint32_t stack, uint64_t site, bool alloc)
{
	bool begins = !loop->inside;
	if (loop->inside && standing->leaving && standing->lasti < loop->last_lasti)
		return;
	if (loop->inside && standing->lasti < loop->last_lasti)
		begins = !(standing->inner && standing->inner == loop->last_inner);
	else if (loop->inside && standing->lasti == loop->last_lasti && loop->last_stack)
		begins = called_anew(&steps->summaries.items[loop->last_stack],
		        &steps->summaries.items[stack], standing);
	if (standing->lasti != loop->last_lasti)
		loop->last_stack = 0;
	/* An event after the call's return, at the same place, does not hide how far the call had come. */
	if (steps->summaries.items[stack].place_count > standing->depth + 1)
		loop->last_stack = stack;
	if (alloc) {
		if (loop->alloc_lasti == 0)
			loop->alloc_lasti = standing->lasti + 1;
		else if (loop->alloc_lasti != standing->lasti + 1)
			loop->thick = true;
	}
	if (loop->told || loop->turned)
		begins = !loop->inside || loop->turned;
	loop->turned = false;
	bool repeats = false;
	if (begins)
		loop->seen.count = 0;
	if (!loop->told && alloc && !loop->thick && !standing->inner_loops &&
	        seen_before(loop, site)) {
		repeats = true;
		loop->seen.count = 0;
		seen_before(loop, site);
	}
	loop->passes += begins;
	loop->thin_passes += begins || repeats;
	loop->events++;
	loop->last_lasti = standing->lasti;
	loop->last_inner = standing->inner;
}

void gm_steps_turn(struct gm_steps *steps, uint32_t code, uint32_t loop, bool told)
{
	size_t i = 0;
	while (i < steps->turn_count &&
	        (steps->turns[i].code != code || steps->turns[i].loop != loop))
		i++;
	if (i == TURNS_MAX)
		i = 0;
	else if (i == steps->turn_count)
		steps->turn_count++;
	steps->turns[i] = (struct turn){code, loop, told};
}

/* What is known of the iterator of a loop that an event stands in. */
static void take_turn(struct gm_steps *steps, struct followed *loop)
{
	for (size_t i = 0; i < steps->turn_count; i++) {
		const struct turn turn = steps->turns[i];
		if (turn.code != loop->code || turn.loop != loop->loop)
			continue;
		/* the first sight of its iterator is no move of it */
		loop->turned = loop->told;
		loop->told = turn.told;
		steps->turns[i] = steps->turns[--steps->turn_count];
		return;
	}
}

/* Which of two loops is rather the training loop; by what has been seen so far. */
static bool better(const struct gm_steps *steps, const struct followed *a, const struct followed *b)
{
	if (!b)
		return true;
	if (steps->landmarks) {
		int count_a = __builtin_popcount(a->landmarks),
		    count_b = __builtin_popcount(b->landmarks);
		if (count_a != count_b)
			return count_a > count_b;
		if (count_a) {
			if (a->depth != b->depth)
				return a->depth > b->depth;
			if (a->nesting != b->nesting)
				return a->nesting > b->nesting;
			return a->events > b->events;
		}
	}
	if (a->depth != b->depth)
		return a->depth < b->depth;
	if (a->nesting != b->nesting)
		return a->nesting < b->nesting;
	return a->events > b->events;
}

static struct followed *training_loop(const struct gm_steps *steps)
{
	struct followed *best = NULL;
	for (size_t i = 0; i < steps->followed.count; i++) {
		struct followed *loop = &steps->followed.items[i];
		if (!steps->fixed && !loop->candidate && !loop->landmarks)
			continue;
		if (better(steps, loop, best))
			best = loop;
	}
	return best;
}

static bool is_thin(const struct gm_steps *steps, const struct followed *loop)
{
	return steps->fixed ? steps->fixed_loop.thin : !loop->thick && !loop->landmarks;
}

/* A phase that the frames do not prove: where in the pass the event stands. */
static enum gm_phase place_phase(struct gm_steps *steps)
{
	if (!steps->step && steps->pass_phase == GM_PHASE_EVALUATION)
		return GM_PHASE_EVALUATION;
	if (!steps->step)
		return steps->entered ? GM_PHASE_OTHER : GM_PHASE_INIT;
	switch (steps->pass_phase) {
	case GM_PHASE_FORWARD:
	case GM_PHASE_EVALUATION:
		return steps->pass_phase; /* the loss */
	case GM_PHASE_OTHER:
		/* A program without modules computes where others read their data. */
		return steps->fixed && !steps->fixed_loop.modules ? GM_PHASE_FORWARD
		                                                  : GM_PHASE_DATA;
	default:
		return GM_PHASE_OTHER;
	}
}

/* The first pass of generate() reads the prompt, the others decode a token each: the first is over when the loop
 * around the model's call has gone round. */
static enum gm_phase generation_phase(struct gm_steps *steps, const struct summary *summary)
{
	const struct place *now = &summary->turning;
	if (summary->generation != steps->generation) {
		steps->generation = summary->generation;
		steps->turning = (struct place){0};
		steps->decoding = false;
	}
	if (now->loops && now->code == steps->turning.code && now->lasti < steps->turning.lasti)
		steps->decoding = true;
	if (now->loops && (summary->phase == GM_PHASE_FORWARD || now->code == steps->turning.code))
		steps->turning = *now;
	return steps->decoding ? GM_PHASE_DECODE : GM_PHASE_PREFILL;
}

static void set_phase(struct gm_steps *steps, const struct summary *summary)
{
	if (steps->step != steps->phase_step) {
		steps->phase_step = steps->step;
		steps->pass_phase = GM_PHASE_OTHER;
	}
	enum gm_phase phase = summary->phase;
	bool forward = phase == GM_PHASE_FORWARD;
	if (summary->generation && (forward || phase == GM_PHASE_OTHER)) {
		steps->phase = generation_phase(steps, summary);
		return;
	}
	steps->generation = 0;
	if (forward && (summary->evaluates || (!steps->step && steps->entered &&
	                                              steps->landmarks & GM_LANDMARK_BACKWARD)))
		phase = GM_PHASE_EVALUATION;
	else if (phase == GM_PHASE_OTHER && summary->evaluates && steps->entered)
		phase = GM_PHASE_EVALUATION;
	else if (!steps->step && !steps->entered &&
	         (phase == GM_PHASE_DATA || phase == GM_PHASE_OTHER))
		phase = GM_PHASE_INIT;
	else if (phase == GM_PHASE_OTHER)
		phase = place_phase(steps);
	if (phase == GM_PHASE_EVALUATION || summary->phase == GM_PHASE_FORWARD ||
	        summary->phase == GM_PHASE_BACKWARD || summary->phase == GM_PHASE_OPTIMIZER)
		steps->pass_phase = phase;
	steps->phase = phase;
}

/* The stack of another thread: the autograd thread's own Python, a loader's. */
static void set_thread_phase(struct gm_steps *steps, const struct summary *summary)
{
	switch (summary->phase) {
	case GM_PHASE_FORWARD:
		/* Only a checkpoint calls modules on the autograd thread. */
		steps->phase = steps->pass_phase == GM_PHASE_BACKWARD ? GM_PHASE_RECOMPUTE
		                                                      : GM_PHASE_FORWARD;
		break;
	case GM_PHASE_OTHER:
		break;
	default:
		steps->phase = summary->phase;
	}
}

static void count_repeated(struct gm_steps *steps)
{
	for (uint32_t i = 0; steps->repeated && i < steps->followed.count; i++)
		if (steps->followed.items[i].fed == steps->fed)
			steps->followed.items[i].events += steps->repeated;
	steps->repeated = 0;
}

/* Tells each loop that the stack stands in of the event. */
static void feed_loops(struct gm_steps *steps, const struct summary *summary, uint32_t python_stack,
        uint32_t native_stack, bool made)
{
	/* Without a native stack two allocations of one call cannot be told from two calls. */
	uint64_t site = (uint64_t)python_stack << 32 | native_stack;
	uint64_t before = steps->fed++;
	steps->settled = true;
	for (uint32_t i = 0; i < summary->count; i++) {
		const struct standing *standing = &summary->standing[i];
		struct followed *loop = &steps->followed.items[standing->followed];
		if (loop->fed == steps->fed)
			continue; /* a function that calls itself: its outermost frame was taken */
		loop->inside = before && loop->fed == before;
		loop->fed = steps->fed;
		loop->landmarks |= summary->landmarks;
		take_turn(steps, loop);
		pass(steps, loop, standing, python_stack, site, made);
		steps->settled &= loop->thick;
	}
}

bool gm_steps_heeds_allocations(const struct gm_steps *steps)
{
	return !steps->fixed || steps->fixed_loop.thin;
}

/* An event of the main thread with a stack that may tell something: its summary; NULL: it is none. */
static const struct summary *feed(struct gm_steps *steps, uint32_t python_stack,
        uint32_t native_stack, bool allocates, bool borrowed)
{
	bool made = allocates && !borrowed && native_stack;
	/* Two events of one stack tell what one does: but allocations, which may be passes of a thin loop. */
	if (python_stack && python_stack == steps->latest_stack && !steps->turn_count &&
	        (!made || steps->settled || !gm_steps_heeds_allocations(steps))) {
		steps->repeated++;
		return NULL;
	}
	struct summary *summary = python_stack ? summary_of(steps, python_stack) : NULL;
	if (!summary)
		return NULL;
	count_repeated(steps);
	steps->latest_stack = 0;
	if (!steps->main_code)
		steps->main_code = summary->outermost;
	/* Another thread's own stack says nothing about where the loop is. */
	if (summary->outermost != steps->main_code) {
		set_thread_phase(steps, summary);
		return NULL;
	}
	steps->latest_stack = python_stack;
	steps->modules |= summary->phase == GM_PHASE_FORWARD;
	steps->landmarks |= summary->landmarks;
	feed_loops(steps, summary, python_stack, native_stack, made);
	return summary;
}

void gm_steps_learn(struct gm_steps *steps, uint32_t python_stack, uint32_t native_stack,
        bool allocates, bool borrowed)
{
	feed(steps, python_stack, native_stack, allocates, borrowed);
}

uint32_t gm_steps_feed(struct gm_steps *steps, uint32_t python_stack, uint32_t native_stack,
        bool allocates, bool borrowed)
{
	const struct summary *summary =
	        feed(steps, python_stack, native_stack, allocates, borrowed);
	if (!summary)
		return steps->step;
	const struct followed *loop = training_loop(steps);
	steps->step = 0;
	if (loop && loop->fed == steps->fed) {
		steps->step = is_thin(steps, loop) ? loop->thin_passes : loop->passes;
		steps->entered = true;
	}
	set_phase(steps, summary);
	return steps->step;
}

enum gm_phase gm_steps_phase(const struct gm_steps *steps)
{
	return steps->phase;
}

bool gm_steps_loop(struct gm_steps *steps, struct gm_step_loop *ret_loop)
{
	count_repeated(steps);
	const struct followed *loop = training_loop(steps);
	if (!loop)
		return false;
	*ret_loop = (struct gm_step_loop){
	        loop->code, loop->loop, loop->line, is_thin(steps, loop), steps->modules};
	return true;
}
