#include "ask/recording/shapes_find.h"

void gm_shapes_add(struct gm_looking *looking, enum gm_shape_kind kind,
        const struct gm_block *block, uint32_t step)
{
	struct gm_shape *shape = &looking->shapes[kind];
	if (!shape->blocks)
		shape->first = block->alloc;
	shape->last = block->alloc;
	shape->blocks++;
	shape->bytes += block->size;
	shape->step = step;
	if (block->size > looking->largest[kind]) {
		uint32_t native;
		looking->largest[kind] = block->size;
		shape->largest = gm_model_event_block(looking->model, block->alloc) + 1;
		gm_model_stacks(looking->model, block->alloc, &shape->stack, &native);
	}
}
