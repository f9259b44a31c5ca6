#include "ask/recording/shapes.h"

const char *gm_shape_name(enum gm_shape_kind kind)
{
	static const char *const names[GM_SHAPE_COUNT] = {
	        [GM_SHAPE_PARAMETERS] = "parameters",
	        [GM_SHAPE_OPTIMIZER_STATE] = "optimizer_state",
	        [GM_SHAPE_REPEATS] = "repeats",
	        [GM_SHAPE_FORWARD] = "forward",
	        [GM_SHAPE_SLAB] = "slab",
	        [GM_SHAPE_SOFTMAX] = "softmax",
	        [GM_SHAPE_SPIKE] = "spike",
	        [GM_SHAPE_CLIFF] = "cliff",
	        [GM_SHAPE_GRADIENTS] = "gradients",
	        [GM_SHAPE_FIRST_GRADIENT] = "first_gradient",
	        [GM_SHAPE_LAST_GRADIENT] = "last_gradient",
	        [GM_SHAPE_COMMUNICATION] = "communication",
	        [GM_SHAPE_WAVES] = "waves",
	        [GM_SHAPE_OPTIMIZER_TEMPORARIES] = "optimizer_temporaries",
	        [GM_SHAPE_ZERO_GRAD] = "zero_grad",
	        [GM_SHAPE_STALE] = "stale",
	        [GM_SHAPE_CACHED] = "cached",
	        [GM_SHAPE_SKIPPED] = "skipped",
	};
	return (unsigned)kind < GM_SHAPE_COUNT ? names[kind] : "other";
}
