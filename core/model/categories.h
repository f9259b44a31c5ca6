/*
 * Categories: the use of a block, derived from where it was allocated and how long it lived.
 *
 * A recording does not show the use of a tensor directly, but its data is sufficient in most cases:
 * parameters come from a module's constructor or Module.to(); the optimizer's step leaves optimizer
 * state behind; backward leaves gradients in the sizes of parameters; forward leaves activations.
 * Each answer has its reason; a block that no rule covers is unknown. A live process or a core has
 * better evidence: see holders.
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
