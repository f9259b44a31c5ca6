/*
 * The two peaks of a training step: of the passes through the model, which grows with the batch,
 * and of the optimizer, which does not. One walk over a record finds both, and from which batch on
 * the first is the higher one.
 */
#ifndef GM_MODEL_STEP_PEAKS_H
#define GM_MODEL_STEP_PEAKS_H

#include "model/categories.h"
#include "model/model.h"

enum gm_peak_class { GM_PEAK_NEITHER, GM_PEAK_MODEL, GM_PEAK_OPTIMIZER, GM_PEAK_COUNT };
enum gm_peak_class gm_peak_class_of(enum gm_phase phase);

/* A moment: after an event, `allocated` bytes, of which `growing` follow the batch: activations,
 * inputs, and what the passes through the model allocate and free again. */
struct gm_step_peak {
	uint32_t event;
	uint64_t allocated, growing;
};

/* Each side's first highest moment (allocated 0: the device has none); *ret_equal_at: times the
 * batch above which the model's peak is the higher one and below which the optimizer's, 0: one of
 * them is at any batch. */
struct gm_error *gm_model_step_peaks(const struct gm_model *model,
        const struct gm_categories *categories, size_t device,
        struct gm_step_peak ret_peaks[GM_PEAK_COUNT], double *ret_equal_at);

#endif
