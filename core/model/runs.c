/* Runs: from which event on which step and phase apply. They change rarely, so an event's run is
 * looked up. assign_steps.c creates them. */
#include "model/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/internal.h"
#include "model/marks.h"

size_t gm_model_run_count(const struct gm_model *model)
{
	return model->runs.count;
}

struct gm_model_run gm_model_run(const struct gm_model *model, size_t index)
{
	return gm_run_at_index(model, index);
}

struct gm_model_run gm_state_walk_run(struct gm_state_walk *walk)
{
	const struct gm_model *model = walk->model;
	while (walk->run + 1 < model->runs.count &&
	        model->runs.items[walk->run + 1].event <= walk->number)
		walk->run++;
	return gm_run_at_index(model, walk->run);
}

size_t gm_model_run_at(const struct gm_model *model, uint32_t event)
{
	const struct checkpoint *near = &model->checkpoints.items[event / CHECKPOINT_EVENTS];
	bool last = event / CHECKPOINT_EVENTS + 1 == model->checkpoints.count;
	size_t low = near->run, high = last ? model->runs.count : near[1].run + 1;
	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;
		if (model->runs.items[middle].event <= event)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static const struct run *find_run(const struct gm_model *model, uint64_t event)
{
	return event < model->event_count
	               ? &model->runs.items[gm_model_run_at(model, (uint32_t)event)]
	               : NULL;
}

uint32_t gm_model_step(const struct gm_model *model, uint64_t event)
{
	const struct run *run = find_run(model, event);
	return run ? run->step : 0;
}

enum gm_phase gm_model_phase(const struct gm_model *model, uint64_t event)
{
	const struct run *run = find_run(model, event);
	return run ? (enum gm_phase)run->phase : GM_PHASE_OTHER;
}

uint32_t gm_model_step_count(const struct gm_model *model)
{
	return model->step_count;
}

bool gm_model_step_loop(const struct gm_model *model, struct gm_step_loop *ret_loop)
{
	uint32_t most = 0;
	if (!model->plan.loop_count || gm_model_steps_marked(model))
		return false;
	for (uint32_t i = 1; i < model->plan.loop_count; i++)
		if (model->loop_steps[i] > model->loop_steps[most])
			most = i;
	*ret_loop = model->plan.loops[most];
	return true;
}

const struct gm_step_plan *gm_model_step_plan(const struct gm_model *model)
{
	return &model->plan;
}

uint32_t gm_model_iteration_count(const struct gm_model *model)
{
	return gm_model_steps_marked(model) ? model->step_count : model->iterations;
}

uint32_t gm_model_loop_steps(const struct gm_model *model, uint32_t loop)
{
	return loop < model->plan.loop_count ? model->loop_steps[loop] : 0;
}

bool gm_model_steps_marked(const struct gm_model *model)
{
	return gm_marks_has_steps(model->marks);
}

bool gm_model_has_marks(const struct gm_model *model)
{
	return model->marks != NULL;
}

size_t gm_model_ranges(
        const struct gm_model *model, uint64_t number, const char **ret_names, size_t max)
{
	if (!model->marks || number >= model->event_count)
		return 0;
	const struct gm_site *site = gm_model_site(model, (uint32_t)number);
	return gm_marks_ranges(model->marks, number, site, ret_names, max);
}

const char *gm_model_metadata(const struct gm_model *model, uint64_t number)
{
	struct gm_event event;
	if (!model->marks || number >= model->event_count)
		return NULL;
	gm_log_event(model->log, number, &event);
	return gm_device_is_accelerator(event.device_type)
	               ? gm_marks_metadata(model->marks, number, event.thread)
	               : NULL;
}

bool gm_model_forward(const struct gm_model *model, uint64_t number, size_t index,
        struct gm_forward_frame *ret_frame)
{
	if (!model->marks || number >= model->event_count)
		return false;
	const char *text = gm_marks_forward(
	        model->marks, number, gm_model_site(model, (uint32_t)number)->thread);
	for (; text && index > 0; index--) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	const char *function = text ? strchr(text, '\t') : NULL,
	           *file = function ? strchr(function + 1, '\t') : NULL;
	if (!file)
		return false;
	int name = (int)(file - function - 1), path = (int)strcspn(file + 1, "\n");
	ret_frame->line = (uint32_t)strtoul(text, NULL, 10);
	snprintf(ret_frame->function, sizeof(ret_frame->function), "%.*s", name, function + 1);
	snprintf(ret_frame->file, sizeof(ret_frame->file), "%.*s", path, file + 1);
	return true;
}
