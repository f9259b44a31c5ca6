/*
 * The two peaks of a training step: of the passes through the model, which grows with the batch, and of the optimizer,
 * which does not. One walk over a record finds both, and from which batch on the first is the higher one.
 */
#ifndef GM_MODEL_SIDES_H
#define GM_MODEL_SIDES_H

#include "model/categories.h"
#include "model/model.h"

enum gm_side { GM_SIDE_NEITHER, GM_SIDE_MODEL, GM_SIDE_OPTIMIZER, GM_SIDE_COUNT };
enum gm_side gm_side_of(enum gm_phase phase);

/* A moment: after an event, `allocated` bytes, of which `growing` follow the batch: activations, inputs, and what the
 * passes through the model allocate and free again. */
struct gm_moment {
	uint32_t event;
	uint64_t allocated, growing;
};

/* Each side's first highest moment (allocated 0: the device has none); *ret_equal_at: times the batch above which the
 * model's peak is the higher one and below which the optimizer's, 0: one of them is at any batch. */
struct gm_error *gm_model_sides(const struct gm_model *model,
        const struct gm_categories *categories, size_t device,
        struct gm_moment ret_peaks[GM_SIDE_COUNT], double *ret_equal_at);

#endif
