/*
 * Why a block is of a category: what categories.c tells from each block by itself, and inferred.c
 * from how many there are of a size. Internal to core/model.
 */
#ifndef GM_MODEL_REASONS_H
#define GM_MODEL_REASONS_H

#include "model/categories.h"

enum reason {
	NO_RULE,
	BEFORE_RECORD,
	NO_STACK,
	MOVED_PARAMETER,
	MOVED_BUFFER,
	MADE_BY_MODULE,
	REGISTERED_BUFFER,
	LOADED,
	SHARDED,
	TRAINED,
	AUTOCAST_WEIGHT,
	AMBIGUOUS,
	INFERRED_PARAMETER,
	INFERRED_STATE,
	INFERRED_GRADIENT,
	INFERRED_ACTIVATION,
	OPTIMIZER_KEEPS,
	OPTIMIZER_TEMPORARY,
	GRADIENT_KEPT,
	GRADIENT_REDUCED,
	BACKWARD_TEMPORARY,
	BACKWARD_ADDED,
	BACKWARD_CAST,
	BACKWARD_GATHERED,
	FORWARD_KEPT,
	FORWARD_TEMPORARY,
	RECOMPUTED,
	DATA_INPUT,
	EVALUATION_INPUT,
	DATA_LOADER,
	WORKSPACE_NAMED,
	WORKSPACE_SIZED,
	WORKSPACE_AT_ONCE,
	COLLECTIVE,
	CACHE,
	SHORT_LIVED,
	REASON_COUNT,
};

struct gm_categories {
	uint8_t *reasons; /* by block */
	size_t count;
};

/* Bytes as asked for; where that is not known, as handed out. */
static inline uint64_t gm_block_requested(const struct gm_block *block)
{
	return block->requested ? block->requested : block->size;
}

/* inferred.c: what the reasons of the others tell of blocks that have none. False: no memory. */
bool gm_reasons_infer(const struct gm_model *model, struct gm_categories *categories);

#endif
