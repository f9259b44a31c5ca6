/*
 * Categories: what a block is for, from where it was allocated and how long it lived.
 *
 * A recording does not see what a tensor is used as. What it sees is enough in most cases:
 * parameters come from a module's constructor or Module.to(), optimizer state is what the
 * optimizer's step leaves behind, gradients are what backward leaves behind in the sizes of
 * parameters, activations are what forward leaves behind. Each answer has its reason; what no rule
 * covers is unknown. A live process or a core knows better: see holders.
 */
#ifndef GM_MODEL_CATEGORIES_H
#define GM_MODEL_CATEGORIES_H

#include <stddef.h>

#include "base/error.h"
#include "model/category.h"

const char *gm_category_name(enum gm_category category);

struct gm_categories;
struct gm_model;

/* The category of each block of a model, worked out in two passes over the blocks when first asked
 * for; the model's own. */
struct gm_error *gm_model_categories(
        struct gm_model *model, const struct gm_categories **ret_categories);

void gm_categories_destroy(struct gm_categories *categories);
enum gm_category gm_categories_of(const struct gm_categories *categories, size_t block);
enum gm_category_reason gm_categories_reason(const struct gm_categories *categories, size_t block);

#endif
