/* The phase of an event: by its frames, and by the progress of the iteration. */
#include "model/phase.h"
#include "model/steps_internal.h"

/* Does the loop call modules? If it trains without them, a module that is called elsewhere says
 * nothing about its iterations. */
static bool has_modules(const struct gm_step_plan *plan)
{
	if (plan->rule == GM_STEPS_AROUND_WORK && plan->work & GM_LANDMARK_BACKWARD)
		return plan->work & GM_LANDMARK_MODULE;
	return plan->modules;
}

/* A phase that the frames do not prove: it follows from the event's position in the iteration. */
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
		/* no module, no backward, no tensor: what a library without PyTorch's computes */
		if (steps->foreign && steps->plan.rule == GM_STEPS_OUTERMOST)
			return GM_PHASE_OTHER;
		/* A loop without modules computes where others read their data. */
		return steps->fixed && !has_modules(&steps->plan) ? GM_PHASE_FORWARD
		                                                  : GM_PHASE_DATA;
	default:
		return GM_PHASE_OTHER;
	}
}

static bool is_same_loop(const struct place *a, const struct place *b)
{
	return a->code == b->code && a->loops == b->loops;
}

/* An event within a module's call: is it the model's first call, which reads the prompt, or another
 * one? */
static void see_model_call(struct gm_steps *steps, const struct summary *summary)
{
	if (!steps->model_call) {
		steps->model_call = summary->model_call;
		steps->model = summary->model;
		steps->prompt = summary->turning;
	} else if (summary->model_call == steps->model_call) {
		if (steps->elsewhere) /* the next prompt */
			steps->decoding = steps->elsewhere = false;
	} else if (summary->model && summary->model == steps->model && summary->turning.loops &&
	           !is_same_loop(&summary->turning, &steps->prompt)) {
		steps->decoding = steps->elsewhere = true;
	}
}

/* The first forward pass of generate() reads the prompt, the others decode a token each. The first
 * has ended when the loop around the model's call begins its second iteration; or, if it was called
 * outside of that loop, when the model is called within. */
static enum gm_phase generation_phase(struct gm_steps *steps, const struct summary *summary)
{
	const struct place *now = &summary->turning;
	if (summary->generation != steps->generation) {
		steps->generation = summary->generation;
		steps->turning = (struct place){0};
		steps->decoding = steps->elsewhere = false;
		steps->model_call = 0;
	}
	if (now->loops && now->code == steps->turning.code && now->lasti < steps->turning.lasti)
		steps->decoding = true;
	if (now->loops && (summary->phase == GM_PHASE_FORWARD || now->code == steps->turning.code))
		steps->turning = *now;
	if (summary->model_call)
		see_model_call(steps, summary);
	return steps->decoding ? GM_PHASE_DECODE : GM_PHASE_PREFILL;
}

void gm_steps_set_phase(struct gm_steps *steps, const struct summary *summary)
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

void gm_steps_set_thread_phase(struct gm_steps *steps, const struct summary *summary)
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

void gm_steps_set_aside_phase(
        struct gm_steps *steps, struct step_thread *thread, const struct summary *summary)
{
	enum gm_phase phase = summary->phase;
	bool works =
	        thread && !thread->task && summary->threading && thread->landmarks & GM_STEP_WORK;
	if (phase == GM_PHASE_FORWARD || phase == GM_PHASE_OTHER)
		phase = summary->evaluates ? GM_PHASE_EVALUATION : phase;
	if (phase != GM_PHASE_OTHER && thread)
		thread->phase = phase;
	else if (phase == GM_PHASE_OTHER)
		phase = works ? thread->phase : GM_PHASE_DATA;
	steps->aside = true;
	steps->aside_phase = phase;
}
