#include "ask/phases.h"
#include "ask/context.h"
#include "ask/recording/stretch.h"

#include "base/cleanup.h"
#include "base/size.h"

struct gm_error *gm_ask_phases(
        struct gm_context *context, uint32_t step, struct gm_phases *ret_phases)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	if (step > gm_model_step_count(model))
		return gm_error_create(GM_USAGE,
		        "step %u: not in the recording: it has %u step%s, counted from 1: `gpumem "
		        "steps` lists them",
		        step, gm_model_step_count(model), gm_text_s(gm_model_step_count(model)));
	struct gm_phases phases = {.model = model, .device = gm_model_main_device(model)};
	*ret_phases = phases;
	if (phases.device == SIZE_MAX)
		return NULL;
	struct gm_state_walk walk = gm_state_walk_begin_brief(model, phases.device);
	size_t run_index = 0;
	for (uint64_t before = 0; gm_state_walk_next(&walk); before = walk.usage.allocated) {
		struct gm_model_run run = gm_model_run(model, run_index);
		while (walk.number >= run.end)
			run = gm_model_run(model, ++run_index);
		if (step && run.step != step)
			continue;
		const struct gm_block *block =
		        walk.block == GM_NO_BLOCK ? NULL : gm_model_block(model, walk.block);
		struct gm_stretch *phase = &phases.items[run.phase];
		phase->phase = run.phase;
		phase->step = step;
		gm_stretch_add(phase, &walk, before, block, run.end - 1);
	}
	*ret_phases = phases;
	return NULL;
}
