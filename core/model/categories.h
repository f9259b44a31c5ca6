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

#include "model/model.h"

enum gm_category {
	GM_CATEGORY_UNKNOWN = 0,
	GM_CATEGORY_PARAMETER,
	GM_CATEGORY_BUFFER,
	GM_CATEGORY_GRADIENT,
	GM_CATEGORY_OPTIMIZER_STATE,
	GM_CATEGORY_ACTIVATION,
	GM_CATEGORY_INPUT,
	GM_CATEGORY_TEMPORARY,
	GM_CATEGORY_WORKSPACE,
	GM_CATEGORY_COMMUNICATION,
	GM_CATEGORY_KV_CACHE,
	GM_CATEGORY_COUNT,
};
const char *gm_category_name(enum gm_category category);

/* Why a block is of its category; core/render/category.c has the words. */
enum gm_category_reason {
	GM_REASON_NO_RULE,
	GM_REASON_BEFORE_RECORD,
	GM_REASON_NO_STACK,
	GM_REASON_MOVED_PARAMETER,
	GM_REASON_MOVED_BUFFER,
	GM_REASON_MADE_BY_MODULE,
	GM_REASON_REGISTERED_BUFFER,
	GM_REASON_LOADED,
	GM_REASON_SHARDED,
	GM_REASON_TRAINED,
	GM_REASON_AUTOCAST_WEIGHT,
	GM_REASON_AMBIGUOUS,
	GM_REASON_INFERRED_PARAMETER,
	GM_REASON_INFERRED_STATE,
	GM_REASON_INFERRED_GRADIENT,
	GM_REASON_INFERRED_ACTIVATION,
	GM_REASON_OPTIMIZER_KEEPS,
	GM_REASON_OPTIMIZER_TEMPORARY,
	GM_REASON_GRADIENT_KEPT,
	GM_REASON_GRADIENT_REDUCED,
	GM_REASON_BACKWARD_TEMPORARY,
	GM_REASON_BACKWARD_ADDED,
	GM_REASON_BACKWARD_CAST,
	GM_REASON_BACKWARD_GATHERED,
	GM_REASON_FORWARD_KEPT,
	GM_REASON_FORWARD_TEMPORARY,
	GM_REASON_RECOMPUTED,
	GM_REASON_DATA_INPUT,
	GM_REASON_EVALUATION_INPUT,
	GM_REASON_DATA_LOADER,
	GM_REASON_WORKSPACE_NAMED,
	GM_REASON_WORKSPACE_SIZED,
	GM_REASON_WORKSPACE_AT_ONCE,
	GM_REASON_COLLECTIVE,
	GM_REASON_CACHE,
	GM_REASON_SHORT_LIVED,
	GM_REASON_COUNT,
};

struct gm_categories;

/* The category of each block of a model, worked out in two passes over the blocks when first asked
 * for; the model's own. */
struct gm_error *gm_model_categories(
        struct gm_model *model, const struct gm_categories **ret_categories);

void gm_categories_destroy(struct gm_categories *categories);
enum gm_category gm_categories_of(const struct gm_categories *categories, size_t block);
enum gm_category_reason gm_categories_reason(const struct gm_categories *categories, size_t block);

#endif
