#include "ask/peak.h"
#include "ask/blocks.h"
#include "ask/context.h"

#include "base/cleanup.h"
#include "model/categories.h"
#include "model/model.h"
#include "model/step_peaks.h"

/* Does the recording have forward, backward and an optimizer? */
static bool has_both(const struct gm_model *model)
{
	bool seen[GM_PEAK_COUNT] = {false};
	for (size_t i = 0; i < gm_model_run_count(model); i++)
		seen[gm_peak_class_of(gm_model_run(model, i).phase)] = true;
	return seen[GM_PEAK_MODEL] && seen[GM_PEAK_OPTIMIZER];
}

static struct gm_error *find_secondary(struct gm_context *context, const struct gm_blocks *peak,
        struct gm_secondary_peak *ret_secondary)
{
	const struct gm_model *model = peak->model;
	struct gm_model *own;
	const struct gm_categories *categories;
	struct gm_step_peak peaks[GM_PEAK_COUNT];
	double equal_at;
	*ret_secondary = (struct gm_secondary_peak){0};
	if (peak->event == GM_NO_EVENT)
		return NULL;
	enum gm_peak_class side = gm_peak_class_of(gm_model_phase(model, peak->event));
	if (side == GM_PEAK_NEITHER || !has_both(model))
		return NULL;
	gm_try(gm_context_model(context, &own));
	gm_try(gm_model_categories(own, &categories));
	gm_try(gm_model_step_peaks(model, categories, peak->device, peaks, &equal_at));
	if (!peaks[GM_PEAK_MODEL].allocated || !peaks[GM_PEAK_OPTIMIZER].allocated)
		return NULL;
	const struct gm_step_peak *other =
	        &peaks[side == GM_PEAK_MODEL ? GM_PEAK_OPTIMIZER : GM_PEAK_MODEL];
	*ret_secondary = (struct gm_secondary_peak){
	        .known = true,
	        .event = other->event,
	        .step = gm_model_step(model, other->event),
	        .phase = gm_model_phase(model, other->event),
	        .allocated = other->allocated,
	        .equal_at = equal_at,
	};
	return NULL;
}

void gm_peak_deinit(struct gm_peak *peak)
{
	gm_blocks_deinit(&peak->blocks);
	gm_blocks_deinit(&peak->modules);
}

struct gm_error *gm_ask_peak(struct gm_context *context, const struct gm_blocks_options *options,
        bool modules, struct gm_peak *ret_peak)
{
	struct gm_blocks_options asked = *options;
	struct gm_peak peak = {0};
	asked.at_peak = true;
	struct gm_error *error = gm_ask_blocks(context, &asked, &peak.blocks);
	asked.by = GM_BY_MODULE;
	asked.tree = false;
	if (!error && modules && peak.blocks.by != GM_BY_MODULE)
		error = gm_ask_blocks(context, &asked, &peak.modules);
	if (!error)
		error = find_secondary(context, &peak.blocks, &peak.secondary);
	if (error)
		gm_peak_deinit(&peak);
	else
		*ret_peak = peak;
	return error;
}
