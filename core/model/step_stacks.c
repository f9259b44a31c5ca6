/* What a stack means for steps: computed when it is first seen. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/packages.h"
#include "model/phase.h"
#include "model/step_plan.h"
#include "model/steps_internal.h"

enum {
	FRAMES_MAX = 256,
	LOOPS_MAX = 1024, /* known at once; a program with more is not a training script */
};

void gm_steps_free_summaries(struct gm_steps *steps)
{
	for (size_t i = 0; i < steps->summaries.count; i++) {
		free(steps->summaries.items[i].standing);
		free(steps->summaries.items[i].places);
		free(steps->summaries.items[i].marked);
	}
	gm_array_deinit(&steps->summaries);
	for (size_t i = 0; i < steps->known.count; i++)
		free(steps->known.items[i].file);
	gm_array_deinit(&steps->known);
}

static bool within(const struct gm_log_loop *loop, const struct gm_step_frame *frame)
{
	return gm_log_loop_contains(loop, frame->lasti, frame->line);
}

static bool wider(const struct gm_log_loop *a, const struct gm_log_loop *b)
{
	return gm_log_loop_contains(a, b->start, b->line) && a->end >= b->end &&
	       (a->start < b->start || a->end > b->end);
}

/* The number of a loop; UINT32_MAX: the table is full. */
static uint32_t know(struct gm_steps *steps, const struct gm_step_frame *frame, uint32_t loop,
        uint32_t depth, uint32_t nesting, bool candidate)
{
	for (uint32_t i = 0; i < steps->known.count; i++) {
		struct known_loop *known = &steps->known.items[i];
		if (known->code != frame->code || known->loop != loop)
			continue;
		known->depth = depth < known->depth ? depth : known->depth;
		known->candidate |= candidate;
		return i;
	}
	const struct known_loop fresh = {
	        .code = frame->code,
	        .loop = loop,
	        .line = frame->loops[loop].line,
	        .line_end = frame->loops[loop].line_end,
	        .depth = depth,
	        .nesting = nesting,
	        .candidate = candidate,
	        .library = gm_file_is_library(frame->file),
	        .file = strdup(frame->file),
	};
	if (steps->known.count == LOOPS_MAX || !gm_array_push(&steps->known, fresh)) {
		free(fresh.file);
		return UINT32_MAX;
	}
	steps->changed = true;
	return (uint32_t)steps->known.count - 1;
}

/* The loops around the plan's may enter these again, and nothing else that is recorded may show it
 * (`for phase in ("train", "val"): for batch in loaders[phase]: ...`). */
static bool heeds_surrounding(const struct gm_steps *steps)
{
	return steps->plan.rule == GM_STEPS_CHOSEN || steps->plan.rule == GM_STEPS_AROUND_WORK;
}

/* Must only one of the plan's loops be followed, and this is not it? */
static bool passed_over(const struct gm_steps *steps, uint32_t code, uint32_t loop)
{
	return steps->fixed && !heeds_surrounding(steps) &&
	       !gm_step_plan_has(&steps->plan, code, loop);
}

/* Of a known plan's loops and those around them, the ones within are not followed. */
static void leave_out_inner(const struct gm_steps *steps, struct summary *summary)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < summary->count; i++) {
		const struct known_loop *known = &steps->known.items[summary->standing[i].known];
		if (gm_step_plan_has(&steps->plan, known->code, known->loop))
			kept = i + 1;
	}
	summary->count = kept;
}

/* The loops of one frame that it is in, from the outermost in, appended to the summary. */
static bool summarise_frame(struct gm_steps *steps, struct summary *summary,
        const struct gm_step_frame *frame, uint32_t depth, uint64_t callers, bool candidate)
{
	uint32_t limit =
	        frame->loop_count < GM_STEP_LOOPS_MAX ? frame->loop_count : GM_STEP_LOOPS_MAX;
	uint32_t first = summary->count;
	for (uint32_t i = 0; i < limit; i++) {
		const struct gm_log_loop *loop = &frame->loops[i];
		bool comprehension = loop->line && !loop->line_end;
		if (comprehension || !within(loop, frame) || passed_over(steps, frame->code, i))
			continue;
		uint32_t nesting = 0, inner = 0;
		for (uint32_t j = 0; j < limit; j++) {
			nesting += wider(&frame->loops[j], loop);
			/* the outermost of the remaining loops that the frame is in */
			if (wider(loop, &frame->loops[j]) && within(&frame->loops[j], frame) &&
			        (!inner || wider(&frame->loops[j], &frame->loops[inner - 1])))
				inner = j + 1;
		}
		uint32_t number = know(steps, frame, i, depth, nesting, candidate);
		if (number == UINT32_MAX)
			continue;
		struct standing *grown = realloc(
		        summary->standing, (summary->count + 1) * sizeof(*summary->standing));
		if (!grown)
			return false;
		summary->standing = grown;
		uint32_t at = summary->count++;
		for (; at > first && steps->known.items[grown[at - 1].known].nesting > nesting;
		        at--)
			grown[at] = grown[at - 1];
		grown[at] = (struct standing){
		        .known = number,
		        .depth = depth,
		        .callers = callers,
		        .lasti = frame->lasti,
		        .inner = inner,
		        .inner_loops = inner != 0,
		        .at_head = frame->iterates && !inner,
		};
	}
	return true;
}

/* The loops of its code that a frame is in: bit i for loop i. */
static uint64_t frame_loops(const struct gm_step_frame *frame)
{
	uint64_t loops = 0;
	for (uint32_t i = 0; i < frame->loop_count && i < GM_STEP_LOOPS_MAX; i++)
		if (within(&frame->loops[i], frame))
			loops |= UINT64_C(1) << i;
	return loops;
}

/* Stores the positions of the frames, outermost first, down to the beginning of torch's own: native
 * code (hooks, workers) may call functions within those repeatedly, which is not an iteration of a
 * loop. */
static void keep_places(struct summary *summary, const struct gm_step_frame *frames, size_t count)
{
	summary->places = count ? malloc(count * sizeof(*summary->places)) : NULL;
	for (size_t i = count; summary->places && i-- > 0 && !gm_file_is_torch(frames[i].file);) {
		summary->places[summary->place_count++] =
		        (struct place){frames[i].code, frames[i].lasti, frame_loops(&frames[i])};
		uint64_t place = (uint64_t)frames[i].code << 32 | frames[i].lasti;
		summary->places_hash = gm_hash_mix(summary->places_hash ^ place) + 1;
	}
}

/* Evaluation and generation. `calls` is a hash of the frames so far: the functions that are called
 * at one place have one value. */
static void summarise_use(struct summary *summary, const struct gm_step_frame *frame,
        enum gm_phase phase, uint64_t *calls)
{
	const uint64_t callers = *calls;
	*calls = gm_hash_mix(callers ^ ((uint64_t)frame->code << 32 | frame->lasti));
	if (summary->phase == GM_PHASE_OTHER && phase == GM_PHASE_OTHER &&
	        gm_frame_evaluates(frame))
		summary->evaluates = true;
	if (!summary->generation && gm_frame_generates(frame)) {
		summary->generation = gm_hash_mix(callers ^ frame->code) | 1;
		summary->evaluates = false; /* generate() is completely under no_grad() */
	}
	if (!summary->generation)
		return;
	if (summary->model_call) {
		if (!summary->model && !gm_file_is_torch(frame->file))
			summary->model = frame->code;
	} else if (phase == GM_PHASE_FORWARD) {
		summary->model_call = *calls | 1;
	} else if (frame_loops(frame)) {
		summary->turning = (struct place){frame->code, frame->lasti, frame_loops(frame)};
	}
}

/* The frame of a comprehension, until CPython 3.11 (later it is a loop without `line_end`); or of a
 * generator expression. */
static bool is_expression(const char *name)
{
	name = gm_plain_name(name);
	return name[0] == '<' && strcmp(name, "<module>") != 0;
}

static void summarise(struct gm_steps *steps, uint32_t stack, struct summary *summary)
{
	struct gm_step_frame frames[FRAMES_MAX];
	size_t count = steps->frames(steps->context, stack, frames, FRAMES_MAX);
	bool candidate = true;
	uint64_t calls = 0, around = 0;
	bool within_work = false, constructs = false;
	summary->known = true;
	keep_places(summary, frames, count);
	/* from the outermost in */
	for (size_t i = count; i-- > 0;) {
		const struct gm_step_frame *frame = &frames[i];
		uint32_t depth = (uint32_t)(count - 1 - i);
		if (depth == 0) {
			summary->outermost = frame->code;
			summary->threading = gm_frame_begins_thread(frame);
		}
		unsigned landmark = gm_frame_landmark(frame);
		/* Modules that a constructor in a loop calls do no step's work. */
		constructs |= summary->count && gm_frame_constructs(frame);
		if (constructs && landmark == GM_LANDMARK_MODULE) {
			within_work = true;
			landmark = 0;
		}
		if (summary->landmarks & GM_LANDMARK_OPTIMIZER && i + 1 < count &&
		        gm_frame_leaves_optimizer(frame, &frames[i + 1])) {
			summary->landmarks &= ~(unsigned)GM_LANDMARK_OPTIMIZER;
			summary->closure = true;
		}
		if (landmark & GM_LANDMARK_MODULE && !within_work)
			summary->call = gm_hash_mix(around) | 1;
		const uint64_t callers = around;
		around = gm_hash_mix(around ^ ((uint64_t)frame->code << 32 | frame->lasti)) + 1;
		summary->landmarks |= landmark;
		within_work |= landmark != 0;
		candidate = candidate && !gm_frame_shuts(frame);
		enum gm_phase phase = gm_frame_phase(frame);
		summary->phase = gm_phase_around(
		        summary->phase, frame, i + 1 < count ? &frames[i + 1] : NULL);
		summarise_use(summary, frame, phase, &calls);
		summary->phase = gm_phase_within(summary->phase, phase);
		if (frame_loops(frame))
			for (uint32_t j = 0; j < summary->count; j++)
				if (depth > 0)
					summary->standing[j].inner_loops = true;
		/* torch's own loops, and those within the work and in expressions, never have
		 * steps. */
		size_t before = summary->count;
		if (!gm_file_is_torch(frame->file) && !within_work && !is_expression(frame->name) &&
		        !gm_frame_runs_tasks(frame) &&
		        !summarise_frame(steps, summary, frame, depth, callers, candidate))
			break;
		for (; before < summary->count; before++) {
			summary->standing[before].leaving = i && gm_frame_leaves(&frames[i - 1]);
			summary->standing[before].innermost = i == 0;
		}
	}
	if (steps->fixed && steps->plan.rule == GM_STEPS_AROUND_WORK)
		leave_out_inner(steps, summary);
}

struct summary *gm_steps_summary(struct gm_steps *steps, uint32_t stack)
{
	if (!gm_array_reach(&steps->summaries, stack))
		return NULL;
	struct summary *summary = &steps->summaries.items[stack];
	if (!summary->known)
		summarise(steps, stack, summary);
	return summary;
}
