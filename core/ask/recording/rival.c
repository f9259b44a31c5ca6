#include "ask/recording/rival.h"

#include "base/cleanup.h"
#include "model/categories.h"
#include "model/sides.h"

/* Has the record both passes through the model and an optimizer? */
static bool has_both(const struct gm_model *model)
{
	bool seen[GM_SIDE_COUNT] = {false};
	for (size_t i = 0; i < gm_model_run_count(model); i++)
		seen[gm_side_of(gm_model_run(model, i).phase)] = true;
	return seen[GM_SIDE_MODEL] && seen[GM_SIDE_OPTIMIZER];
}

struct gm_error *gm_ask_rival(
        struct gm_context *context, const struct gm_blocks *peak, struct gm_rival *ret_rival)
{
	const struct gm_model *model = peak->model;
	struct gm_model *own;
	const struct gm_categories *categories;
	struct gm_moment peaks[GM_SIDE_COUNT];
	double equal_at;
	*ret_rival = (struct gm_rival){0};
	if (peak->event == GM_NO_EVENT)
		return NULL;
	enum gm_side side = gm_side_of(gm_model_phase(model, peak->event));
	if (side == GM_SIDE_NEITHER || !has_both(model))
		return NULL;
	gm_try(gm_context_model(context, &own));
	gm_try(gm_model_categories(own, &categories));
	gm_try(gm_model_sides(model, categories, peak->device, peaks, &equal_at));
	if (!peaks[GM_SIDE_MODEL].allocated || !peaks[GM_SIDE_OPTIMIZER].allocated)
		return NULL;
	const struct gm_moment *other =
	        &peaks[side == GM_SIDE_MODEL ? GM_SIDE_OPTIMIZER : GM_SIDE_MODEL];
	*ret_rival = (struct gm_rival){
	        .known = true,
	        .event = other->event,
	        .step = gm_model_step(model, other->event),
	        .phase = gm_model_phase(model, other->event),
	        .allocated = other->allocated,
	        .equal_at = equal_at,
	};
	return NULL;
}
