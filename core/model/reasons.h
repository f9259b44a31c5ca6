/*
 * Why a block is of a category: what categories.c tells from each block by itself, inferred.c from
 * how many there are of a size, and weight_copies.c from the sizes that one statement allocates.
 * Internal to core/model.
 */
#ifndef GM_MODEL_REASONS_H
#define GM_MODEL_REASONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/category.h"
#include "model/types.h"

struct gm_model;
struct gm_statements;

struct gm_categories {
	uint8_t *reasons; /* by block */
	size_t count;
};

/* inferred.c: what the reasons of the others tell of blocks that have none. False: no memory. */
bool gm_reasons_infer(const struct gm_model *model, struct gm_categories *categories);
/* weight_copies.c: which inputs are none, but copies of weights. False: no memory. */
bool gm_reasons_compare_weights(const struct gm_model *model, struct gm_categories *categories,
        struct gm_statements *statements);

#endif
