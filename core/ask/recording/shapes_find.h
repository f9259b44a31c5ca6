/* What the files that look for shapes share. Internal to core/ask. */
#ifndef GM_ASK_SHAPES_FIND_H
#define GM_ASK_SHAPES_FIND_H

#include "ask/recording/shapes.h"

struct gm_looking {
	const struct gm_model *model;
	const struct gm_categories *categories;
	struct gm_shape shapes[GM_SHAPE_COUNT];
	uint64_t largest[GM_SHAPE_COUNT]; /* size of the block whose stack a shape has */
	uint64_t parameters;              /* bytes */
	size_t device;
	uint32_t step;
	uint32_t rise,
	        rise_end;  /* events of its forward pass, of that micro-batch that keeps most */
	bool has_backward; /* the step has a backward pass */
	uint32_t begin;    /* its first event; without steps that of the peak */
};

/* Adds a block to a shape. */
void gm_shapes_add(struct gm_looking *looking, enum gm_shape_kind kind,
        const struct gm_block *block, uint32_t step);

#endif
