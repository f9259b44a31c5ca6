/* Creates the runs, which say from which event on which step and phase apply. This is the second
 * reading of a log: by the loops that the first reading found (step_plan.c), by grad modes and by
 * neighbouring runs. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/internal.h"
#include "model/log_steps.h"
#include "model/marks.h"
#include "model/modes.h"
#include "model/run_phases.h"
#include "model/runs.h"
#include "model/steps.h"

struct gm_steps *gm_model_steps_create(const struct gm_model *model)
{
	return gm_log_steps_create(model->log);
}

/* Passes on what comes before an event: positions of iterators, and marks of work. */
static inline void feed_between(const struct gm_model *model, struct gm_steps *steps,
        uint32_t number, struct gm_readers_place *place)
{
	for (; place->iterations < model->iteration_count; place->iterations++) {
		struct gm_log_iteration iteration;
		gm_log_iteration(model->log, place->iterations, &iteration);
		if (iteration.event > number)
			break;
		gm_steps_turn(steps, iteration.code, iteration.loop, iteration.position);
	}
	for (; place->marks < model->mark_count; place->marks++) {
		struct gm_log_mark mark;
		gm_log_mark(model->log, place->marks, &mark);
		if (mark.event > number)
			break;
		gm_log_steps_mark(model->log, steps, &mark);
	}
}

/* The event before which the next mark comes. */
static uint32_t next_between(const struct gm_model *model, const struct gm_readers_place *place)
{
	uint64_t next = UINT32_MAX;
	if (place->iterations < model->iteration_count) {
		struct gm_log_iteration iteration;
		gm_log_iteration(model->log, place->iterations, &iteration);
		next = iteration.event < next ? iteration.event : next;
	}
	if (place->marks < model->mark_count) {
		struct gm_log_mark mark;
		gm_log_mark(model->log, place->marks, &mark);
		next = mark.event < next ? mark.event : next;
	}
	return (uint32_t)next;
}

void gm_model_steps_learn(const struct gm_model *model, struct gm_steps *steps,
        const struct gm_event *events, size_t count, uint32_t first, struct gm_readers_place *place)
{
	for (size_t i = 0; i < count; i++) {
		if (events[i].flags & GM_EVENT_PREEXISTING)
			continue;
		uint32_t number = first + (uint32_t)i;
		feed_between(model, steps, number, place);
		const struct gm_step_event fed = gm_step_event_of(&events[i]);
		gm_steps_learn(steps, &fed);
		/* events that may be repetitions: up to the next mark */
		uint32_t next = next_between(model, place);
		size_t left = next - number - 1 < count - i - 1 ? next - number - 1 : count - i - 1;
		i += gm_steps_learn_repeated(steps, events + i + 1, left);
	}
}

/* Begins the second reading, with the present knowledge. */
static bool begin_assigning(struct gm_model *model)
{
	struct readings *readings = &model->readings;
	gm_steps_destroy(readings->assigning);
	readings->assigning = gm_model_steps_create(model);
	gm_modes_destroy(readings->modes);
	readings->modes = gm_modes_create(gm_log_step_frames, (void *)model->log);
	readings->assigned = 0;
	readings->fed = (struct gm_readers_place){0};
	readings->indexed = 0;
	readings->main_thread = 0;
	readings->amps = 0;
	readings->casts = false;
	readings->over = false;
	readings->has_modes = false;
	readings->plan = model->plan;
	readings->marked = gm_model_steps_marked(model);
	model->runs.count = 0;
	model->iterations = 0;
	if (!readings->assigning || !readings->modes)
		return false;
	gm_steps_fix(readings->assigning, &model->plan);
	return true;
}

/* Is the main thread's event the allocation of autocast's copy of a tensor? */
static bool casts(struct gm_model *model, uint32_t number)
{
	struct readings *readings = &model->readings;
	for (; readings->amps < gm_log_amp_count(model->log); readings->amps++) {
		struct gm_log_amp amp;
		gm_log_amp(model->log, readings->amps, &amp);
		if (amp.event > number)
			break;
		readings->casts |= amp.kind == GM_AMP_CAST && amp.thread == readings->main_thread;
	}
	bool copies = readings->casts && gm_model_allocates(model, number);
	readings->casts &= !copies;
	return copies;
}

/* By the grad mode, if it was recorded; false: out of memory. */
static bool assign_by_mode(struct gm_model *model, const struct gm_site *site, struct run *run)
{
	struct readings *readings = &model->readings;
	struct gm_mode_change change;
	if (site->thread != readings->main_thread || site->flags & GM_EVENT_BORROWED)
		return true;
	const struct gm_mode_event event = {
	        .number = run->event,
	        .python_stack = site->python_stack,
	        .flags = site->flags,
	        .step = run->iteration,
	        .phase = (enum gm_phase)run->phase,
	        .casts = casts(model, run->event),
	};
	readings->has_modes |= (site->flags & (GM_EVENT_GRAD | GM_EVENT_NO_GRAD)) != 0;
	run->phase = (uint8_t)gm_modes_feed(readings->modes, &event, &change);
	return gm_run_phases_change(model, run->event, &change);
}

uint32_t gm_model_steps_follow(const struct gm_model *model, struct gm_steps *steps,
        uint32_t number, struct gm_readers_place *place)
{
	const struct gm_site *site = gm_model_site(model, number);
	if (site->flags & GM_EVENT_PREEXISTING)
		return 0;
	feed_between(model, steps, number, place);
	bool allocates = gm_model_allocates(model, number);
	const struct gm_step_event event = {
	        .thread = site->thread,
	        .python_stack = site->python_stack,
	        .native_stack = site->native_stack,
	        .allocates = allocates && gm_steps_heeds_allocations(steps),
	        .releases = !allocates,
	        .borrowed = site->flags & GM_EVENT_BORROWED,
	        .foreign = site->foreign,
	};
	return gm_steps_feed(steps, &event);
}

/* The iteration and phase of the current event of the second reading; false: out of memory. */
static bool assign(struct gm_model *model, uint32_t number, struct run *ret_run)
{
	struct readings *readings = &model->readings;
	const struct gm_site *site = gm_model_site(model, number);
	struct run run = {.event = number, .phase = GM_PHASE_INIT};
	*ret_run = run;
	if (site->flags & GM_EVENT_PREEXISTING)
		return true;
	run.iteration = gm_model_steps_follow(model, readings->assigning, number, &readings->fed);
	run.phase = (uint8_t)gm_steps_phase(readings->assigning);
	if (!readings->main_thread && site->python_stack && !(site->flags & GM_EVENT_BORROWED))
		readings->main_thread = site->thread;
	if (readings->marked)
		run.iteration = gm_marks_step(model->marks, number, 0);
	if (!assign_by_mode(model, site, &run))
		return false;
	/* in a step that was marked, an event without a phase of its own is not start-up */
	if (readings->marked && run.iteration && run.phase == GM_PHASE_INIT)
		run.phase = GM_PHASE_OTHER;
	run.phase = (uint8_t)gm_marks_phase(model->marks, number, site, (enum gm_phase)run.phase);
	/* The main thread has no Python frame any more: the program has ended. */
	readings->over =
	        site->thread == readings->main_thread ? !site->python_stack : readings->over;
	if (readings->over && readings->main_thread) {
		run.iteration = 0;
		run.phase = GM_PHASE_OTHER;
	}
	*ret_run = run;
	return true;
}

/* The first event, from one on, that may be in another run than the previous event: it has another
 * site, or another source may say so. */
static uint32_t end_of_same(const struct gm_model *model, uint32_t number, bool heeds)
{
	if (heeds || model->marks || !number ||
	        model->readings.fed.iterations != model->iteration_count)
		return number;
	uint32_t count = model->event_count, site = model->event_sites[number - 1];
	while (number < count && model->event_sites[number] == site)
		number++;
	return number;
}

static void index_runs(struct gm_model *model)
{
	size_t *at = &model->readings.indexed;
	size_t run = *at ? model->checkpoints.items[*at - 1].run : 0;
	for (; *at < model->checkpoints.count; ++*at) {
		while (run + 1 < model->runs.count &&
		        model->runs.items[run + 1].event <= *at * CHECKPOINT_EVENTS)
			run++;
		model->checkpoints.items[*at].run = run;
	}
}

/* Assigns iterations to steps, and updates the steps of the runs: of those from `first_changed` on,
 * and of earlier ones whose iteration is in another step now. */
static bool number_steps(struct gm_model *model, size_t first_changed)
{
	const struct gm_steps *assigning = model->readings.assigning;
	uint32_t count = gm_steps_iteration_count(assigning), changed = 1;
	if (model->readings.marked) {
		model->step_count = 0;
		for (size_t i = 0; i < model->runs.count; i++) {
			struct run *run = &model->runs.items[i];
			run->step = run->iteration;
			if (run->step > model->step_count)
				model->step_count = run->step;
		}
		return true;
	}
	uint32_t *step_of = calloc(count + 1u, sizeof(*step_of));
	if (!step_of)
		return false;
	model->step_count = gm_steps_of_iterations(assigning, !gm_log_closed(model->log), step_of);
	while (changed <= count && changed <= model->iterations &&
	        step_of[changed] == model->step_of[changed])
		changed++;
	free(model->step_of);
	model->step_of = step_of;
	model->iterations = count;
	for (size_t i = model->runs.count; i-- > 0;) {
		struct run *run = &model->runs.items[i];
		if (i < first_changed && run->iteration && run->iteration < changed)
			break;
		run->step = run->iteration <= count ? step_of[run->iteration] : 0;
	}
	memset(model->loop_steps, 0, sizeof(model->loop_steps));
	for (uint32_t i = 1; i <= count; i++)
		if (step_of[i] && step_of[i] != step_of[i - 1])
			model->loop_steps[gm_steps_loop_of_iteration(assigning, i)]++;
	return true;
}

struct gm_error *gm_model_assign_steps(struct gm_model *model)
{
	struct readings *readings = &model->readings;
	bool same = readings->assigning && gm_step_plans_are_equal(&readings->plan, &model->plan) &&
	            readings->marked == gm_model_steps_marked(model);
	if (!same && !begin_assigning(model))
		return &gm_error_no_memory;
	readings->first_changed = model->runs.count ? model->runs.count - 1 : 0;
	bool heeds = gm_steps_heeds_allocations(readings->assigning);
	for (; readings->assigned < model->event_count; readings->assigned++) {
		uint32_t number = end_of_same(model, readings->assigned, heeds);
		model->read += number - readings->assigned;
		readings->assigned = number;
		if (number == model->event_count)
			break;
		model->read++;
		struct run run;
		if (!assign(model, readings->assigned, &run))
			return &gm_error_no_memory;
		const struct run *last =
		        model->runs.count ? &model->runs.items[model->runs.count - 1] : NULL;
		run.own_phase = run.phase;
		if (last && last->iteration == run.iteration && last->own_phase == run.own_phase)
			continue;
		if (!gm_array_push(&model->runs, run))
			return &gm_error_no_memory;
	}
	if (!number_steps(model, readings->first_changed))
		return &gm_error_no_memory;
	gm_run_phases_look_around(model, readings->first_changed);
	index_runs(model);
	return NULL;
}
