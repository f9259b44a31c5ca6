/* The tensors of mixed precision. Internal to core/ask. */
#ifndef GM_ASK_AMP_TENSORS_H
#define GM_ASK_AMP_TENSORS_H

#include "ask/recording/amp_facts.h"
#include "model/categories.h"
#include "model/model.h"

/* Copies, gradients, their release, and the bytes at the peak. */
struct gm_error *gm_amp_find_tensors(struct gm_amp *amp, const struct gm_categories *categories);

#endif
