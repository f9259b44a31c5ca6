/* What the program wrote on its blocks. */
#ifndef GM_MODEL_LABELS_H
#define GM_MODEL_LABELS_H

#include <stdbool.h>
#include <stddef.h>

struct gm_model;

/* The labels of a block (torch.cuda.memory._annotate_tensor()), in the order in which it got them
 * and each once; at most `max`. */
size_t gm_model_labels(
        const struct gm_model *model, size_t block, const char **ret_labels, size_t max);
bool gm_model_has_labels(const struct gm_model *model);

#endif
