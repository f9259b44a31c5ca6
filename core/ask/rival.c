#include "ask/rival.h"

#include "base/cleanup.h"
#include "model/categories.h"

/* 1: of the passes through the model, 2: of the optimizer; 0: neither. */
static int side_of(enum gm_phase phase)
{
	switch (phase) {
	case GM_PHASE_FORWARD:
	case GM_PHASE_BACKWARD:
	case GM_PHASE_RECOMPUTE:
		return 1;
	case GM_PHASE_OPTIMIZER:
		return 2;
	default:
		return 0;
	}
}

/* Does a block's size follow the batch? */
static bool grows(
        const struct gm_model *model, const struct gm_categories *categories, size_t index)
{
	const struct gm_block *block = gm_model_block(model, index);
	enum gm_category category = gm_categories_of(categories, index);
	return category == GM_CATEGORY_ACTIVATION || category == GM_CATEGORY_INPUT ||
	       (category == GM_CATEGORY_TEMPORARY && block->alloc != GM_NO_EVENT &&
	               side_of(gm_model_phase(model, block->alloc)) == 1);
}

/* A moment: `allocated` bytes, of which `growing` follow the batch. */
struct moment {
	uint32_t event;
	uint64_t allocated, growing;
};

static void take(struct moment *moment, const struct gm_walk *walk, uint64_t growing)
{
	if (walk->usage.allocated > moment->allocated)
		*moment = (struct moment){walk->number, walk->usage.allocated, growing};
}

/* Times the batch at which a moment in the model has as much as the optimizer's peak; 0: at none. */
static double equal_at(const struct moment *model, const struct moment *optimizer)
{
	double faster = (double)model->growing - (double)optimizer->growing;
	double fixed = (double)(model->allocated - model->growing);
	double times = (double)(optimizer->allocated - optimizer->growing) - fixed;
	return faster > 0 && times > 0 ? times / faster : 0;
}

/* Goes through the record; *ret_first: the smallest of all moments' equal_at(). The larger the batch, the earlier in
 * backward the model's peak: with gradients left behind it is at its end, with many activations at its beginning. */
static void walk_record(const struct gm_model *model, const struct gm_categories *categories,
        size_t device, const struct moment *optimizer, struct moment ret_peaks[3],
        double *ret_first)
{
	struct gm_walk walk = gm_walk_begin_brief(model, device);
	uint64_t growing = 0;
	while (gm_walk_next(&walk)) {
		if (walk.block != GM_NO_BLOCK && grows(model, categories, walk.block)) {
			const struct gm_block *block = gm_model_block(model, walk.block);
			if (walk.number == block->alloc)
				growing += block->size;
			else if (walk.number == gm_block_end(block) && growing >= block->size)
				growing -= block->size;
		}
		int side = side_of(gm_walk_run(&walk).phase);
		const struct moment now = {walk.number, walk.usage.allocated, growing};
		if (!optimizer) {
			take(&ret_peaks[side], &walk, growing);
		} else if (side == 1 && now.growing <= now.allocated) {
			double times = equal_at(&now, optimizer);
			if (times > 0 && (!*ret_first || times < *ret_first))
				*ret_first = times;
		}
	}
}

struct gm_error *gm_ask_rival(
        struct gm_context *context, const struct gm_blocks *peak, struct gm_rival *ret_rival)
{
	const struct gm_model *model = peak->model;
	struct gm_model *own;
	const struct gm_categories *categories;
	struct moment peaks[3] = {0};
	*ret_rival = (struct gm_rival){0};
	if (peak->event == GM_NO_EVENT)
		return NULL;
	int side = side_of(gm_model_phase(model, peak->event));
	gm_try(gm_context_model(context, &own));
	gm_try(gm_model_categories(own, &categories));
	walk_record(model, categories, peak->device, NULL, peaks, NULL);
	if (!side || !peaks[1].allocated || !peaks[2].allocated)
		return NULL;
	const struct moment *other = &peaks[3 - side];
	*ret_rival = (struct gm_rival){
	        .known = true,
	        .event = other->event,
	        .step = gm_model_step(model, other->event),
	        .phase = gm_model_phase(model, other->event),
	        .allocated = other->allocated,
	};
	walk_record(model, categories, peak->device, &peaks[2], NULL, &ret_rival->equal_at);
	return NULL;
}
