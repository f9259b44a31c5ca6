#include "ask/amp.h"

#include <stdlib.h>

#include "ask/context.h"
#include "ask/recording/amp_gradients.h"
#include "ask/recording/amp_outcomes.h"
#include "ask/recording/amp_tensors.h"
#include "base/cleanup.h"

const char *gm_amp_end_name(enum gm_amp_end end)
{
	static const char *const names[GM_AMP_END_COUNT] = {
	        "kept", "autocast_cache", "graph", "other"};
	return names[end];
}

static void find_state(struct gm_amp *amp, const struct gm_categories *categories)
{
	amp->state_first = GM_NO_EVENT;
	for (size_t i = 0; i < gm_model_block_count(amp->model); i++) {
		const struct gm_block *block = gm_model_block(amp->model, i);
		enum gm_category category = gm_categories_of(categories, i);
		if (block->device != amp->device || block->alloc == GM_NO_EVENT)
			continue;
		if (category == GM_CATEGORY_PARAMETER && !amp->copies[i]) {
			amp->parameter_bytes += block->size;
			amp->parameter_blocks++;
		}
		if (category != GM_CATEGORY_OPTIMIZER_STATE)
			continue;
		if (amp->state_first == GM_NO_EVENT) {
			amp->state_first = block->alloc;
			amp->state_step = gm_model_step(amp->model, block->alloc);
		}
		amp->state_last = block->alloc;
		amp->state_bytes += block->size;
		amp->state_blocks++;
	}
}

struct gm_error *gm_ask_amp(struct gm_context *context, struct gm_amp *ret_amp)
{
	struct gm_model *model;
	const struct gm_categories *categories;
	gm_try(gm_context_model(context, &model));
	struct gm_amp amp = {.model = model, .device = gm_model_main_device(model)};
	if (amp.device == SIZE_MAX) {
		*ret_amp = amp;
		return NULL;
	}
	gm_try(gm_model_categories(model, &categories));
	gm_try(gm_scaling_find(model, &amp.scaling));
	struct gm_error *error = gm_amp_outcomes(model, &amp.scaling, &amp.steps, &amp.step_count);
	if (!error)
		error = gm_amp_find_not_finite(&amp);
	if (!error)
		error = gm_amp_find_tensors(&amp, categories);
	if (error) {
		gm_amp_deinit(&amp);
		return error;
	}
	find_state(&amp, categories);
	*ret_amp = amp;
	return NULL;
}

void gm_amp_deinit(struct gm_amp *amp)
{
	gm_scaling_deinit(&amp->scaling);
	free(amp->steps);
	free(amp->parameters);
	free(amp->copies);
	free(amp->gradients);
	free(amp->releases);
	free(amp->looked);
	free(amp->not_finite);
	*amp = (struct gm_amp){0};
}
