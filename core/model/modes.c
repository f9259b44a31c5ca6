#include "model/modes.h"
#include "base/packages.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/text.h"
#include "model/phase.h"

enum { FRAMES_MAX = 256 };

/* The meaning of a stack, computed once. */
struct facts {
	bool known;
	bool loads; /* a dataset is being read */
	bool inner; /* PyTorch's own code has switched it off: a checkpoint, a function with its own
	               backward, a function of PyTorch with @torch.no_grad() */
	bool switched_on; /* PyTorch's own code has switched it on, whatever the program wants: a
	                     distribution computes its probs when they are first asked for */
	uint64_t call; /* the call of the outermost module: a hash of the frames around it; 0: none
	                */
};

struct gm_modes {
	gm_step_frames frames;
	void *context;
	GM_ARRAY(struct facts) facts; /* by stack id */
	/* the outermost module call of the previous event */
	uint64_t call;      /* 0: in none */
	uint32_t call_from; /* its first event */
	bool call_grad;     /* autograd has recorded in it */
	bool call_inner;    /* so far only PyTorch's own code has switched it off in it */
	/* the first call of a module outside of the iterations with autograd on, since there was
	 * anything else there than such calls; UINT32_MAX: none */
	uint32_t outside_from;
	/* consecutive events while autograd was off */
	bool off;
	uint32_t off_from;
	bool off_evaluates; /* a module was called in it */
	/* how far the iteration has come */
	uint32_t step;
	enum gm_phase reached;
};

struct gm_modes *gm_modes_create(gm_step_frames frames, void *context)
{
	struct gm_modes *modes = calloc(1, sizeof(*modes));
	if (!modes)
		return NULL;
	modes->frames = frames;
	modes->context = context;
	modes->outside_from = UINT32_MAX;
	return modes;
}

void gm_modes_destroy(struct gm_modes *modes)
{
	if (!modes)
		return;
	gm_array_deinit(&modes->facts);
	free(modes);
}

/* A function of PyTorch that @torch.no_grad() wraps, such as FSDP2's foreach_all_gather(): frame
 * `i` is the wrapper's, the previous one the function's. */
static bool is_wrapped_inside(const struct gm_step_frame *frames, size_t i)
{
	return i > 0 && gm_file_is_of_torch(frames[i].file, "/torch/utils/_contextlib.py") &&
	       gm_file_is_in_torch(frames[i - 1].file, "/torch/distributed/");
}

static void find_facts(struct gm_modes *modes, uint32_t stack, struct facts *facts)
{
	struct gm_step_frame frames[FRAMES_MAX];
	size_t count = modes->frames(modes->context, stack, frames, FRAMES_MAX);
	uint64_t hash = 1;
	facts->known = true;
	for (size_t i = count; i-- > 0;) {
		const struct gm_step_frame *frame = &frames[i];
		facts->inner |= gm_file_is_of_torch(frame->file, "/torch/autograd/function.py") ||
		                gm_file_is_of_torch(frame->file, "/torch/utils/checkpoint.py") ||
		                is_wrapped_inside(frames, i);
		facts->switched_on |=
		        gm_file_is_of_torch(frame->file, "/torch/distributions/utils.py");
		if (facts->call)
			continue;
		facts->loads |= gm_frame_phase(frame) == GM_PHASE_DATA;
		if (gm_frame_phase(frame) == GM_PHASE_FORWARD)
			facts->call = hash | 1;
		hash = gm_hash_mix(hash ^ ((uint64_t)frame->code << 32 | frame->lasti));
	}
}

static struct facts facts_of(struct gm_modes *modes, uint32_t stack)
{
	if (!stack)
		return (struct facts){.known = true};
	if (!gm_array_reach(&modes->facts, stack))
		return (struct facts){.known = true};
	struct facts *facts = &modes->facts.items[stack];
	if (!facts->known)
		find_facts(modes, stack, facts);
	return *facts;
}

static uint32_t bit(enum gm_phase phase)
{
	return UINT32_C(1) << phase;
}

/* Phases that the mode does not change. */
static bool is_independent(enum gm_phase phase)
{
	return phase != GM_PHASE_FORWARD && phase != GM_PHASE_EVALUATION &&
	       phase != GM_PHASE_OTHER && phase != GM_PHASE_DATA;
}

static void note_call(
        struct gm_modes *modes, const struct gm_mode_event *event, const struct facts *facts)
{
	if (facts->call == modes->call)
		return;
	modes->call = facts->call;
	modes->call_from = event->number;
	modes->call_grad = modes->call_inner = false;
}

/* Autograd was switched on by PyTorch itself. What follows in the call of the module decides. */
static enum gm_phase of_switched_on(
        struct gm_modes *modes, const struct gm_mode_event *event, const struct facts *facts)
{
	if (facts->call) {
		note_call(modes, event, facts);
		modes->call_inner |= !modes->call_grad;
	}
	return modes->off_evaluates ? GM_PHASE_EVALUATION : event->phase;
}

/* A module is being called. */
static enum gm_phase of_call(struct gm_modes *modes, const struct gm_mode_event *event,
        const struct facts *facts, struct gm_mode_change *ret_change)
{
	bool grad = event->flags & GM_EVENT_GRAD;
	note_call(modes, event, facts);
	if (grad) {
		/* an evaluation after the last iteration that leaves autograd on is an evaluation
		 * all the same */
		if (!event->step && event->phase == GM_PHASE_EVALUATION) {
			if (modes->outside_from == UINT32_MAX)
				modes->outside_from = modes->call_from;
			return event->phase;
		}
		if (!modes->call_grad)
			*ret_change = (struct gm_mode_change){
			        modes->call_from, bit(GM_PHASE_EVALUATION), GM_PHASE_FORWARD};
		modes->call_grad = true;
		return GM_PHASE_FORWARD;
	}
	if (modes->call_grad || (facts->inner && !modes->off_evaluates)) {
		modes->call_inner |= !modes->call_grad;
		return GM_PHASE_FORWARD;
	}
	if (!modes->off_evaluates) {
		uint32_t since = modes->off_from, from = bit(GM_PHASE_DATA) | bit(GM_PHASE_OTHER);
		if (modes->call_inner) {
			since = modes->call_from < since ? modes->call_from : since;
			from |= bit(GM_PHASE_FORWARD);
		}
		*ret_change = (struct gm_mode_change){since, from, GM_PHASE_EVALUATION};
	}
	modes->off_evaluates = true;
	return GM_PHASE_EVALUATION;
}

/* No module is being called. Then the phase that the stacks show depends on the earlier calls,
 * which were misinterpreted. */
static enum gm_phase by_place(const struct gm_modes *modes, const struct gm_mode_event *event)
{
	bool evaluated =
	        event->phase == GM_PHASE_EVALUATION ||
	        (event->phase == GM_PHASE_FORWARD && modes->reached == GM_PHASE_EVALUATION);
	if (!evaluated || !event->step)
		return event->phase;
	switch (modes->reached) {
	case GM_PHASE_FORWARD:
		return GM_PHASE_FORWARD; /* the loss */
	case GM_PHASE_OTHER:
	case GM_PHASE_EVALUATION:
		return GM_PHASE_DATA;
	default:
		return GM_PHASE_OTHER;
	}
}

static enum gm_phase phase_of(struct gm_modes *modes, const struct gm_mode_event *event,
        struct gm_mode_change *ret_change)
{
	if (!(event->flags & (GM_EVENT_GRAD | GM_EVENT_NO_GRAD)))
		/* not known, and it does not end the previous one */
		return modes->off_evaluates && event->phase == GM_PHASE_FORWARD
		               ? GM_PHASE_EVALUATION
		               : event->phase;
	const struct facts facts = facts_of(modes, event->python_stack);
	if ((facts.switched_on || event->casts) && event->flags & GM_EVENT_GRAD)
		return of_switched_on(modes, event, &facts);
	bool off = event->flags & GM_EVENT_NO_GRAD && !is_independent(event->phase);
	if (off && !modes->off) {
		modes->off_from = event->number;
		modes->off_evaluates = false;
	}
	/* autograd's own code does not end the surrounding call */
	if (!facts.inner)
		modes->off = off;
	if (!modes->off)
		modes->off_evaluates = false;
	if (!facts.call)
		modes->call = 0;
	if (is_independent(event->phase))
		return event->phase;
	if (facts.loads) {
		if (!modes->off_evaluates)
			modes->off_from = event->number + 1;
		return event->phase;
	}
	if (facts.call)
		return of_call(modes, event, &facts, ret_change);
	return off && modes->off_evaluates ? GM_PHASE_EVALUATION : by_place(modes, event);
}

/* A backward pass outside of the iterations: the calls before it were no evaluation, but a step
 * whose statements are there once more. */
static void see_outside(struct gm_modes *modes, const struct gm_mode_event *event,
        struct gm_mode_change *ret_change)
{
	if (modes->outside_from == UINT32_MAX)
		return;
	if (!event->step && event->phase == GM_PHASE_BACKWARD)
		*ret_change = (struct gm_mode_change){
		        modes->outside_from, bit(GM_PHASE_EVALUATION), GM_PHASE_FORWARD};
	if (event->step || event->phase == GM_PHASE_BACKWARD ||
	        (modes->off && modes->off_evaluates))
		modes->outside_from = UINT32_MAX;
}

enum gm_phase gm_modes_feed(struct gm_modes *modes, const struct gm_mode_event *event,
        struct gm_mode_change *ret_change)
{
	*ret_change = (struct gm_mode_change){0};
	if (event->step != modes->step) {
		modes->step = event->step;
		modes->reached = GM_PHASE_OTHER;
	}
	enum gm_phase phase = phase_of(modes, event, ret_change);
	see_outside(modes, event, ret_change);
	if (phase == GM_PHASE_FORWARD || phase == GM_PHASE_EVALUATION ||
	        phase == GM_PHASE_BACKWARD || phase == GM_PHASE_OPTIMIZER)
		modes->reached = phase;
	return phase;
}
