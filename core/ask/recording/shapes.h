/* The shapes that one sees in a plot of allocated memory, by kind. */
#ifndef GM_ASK_SHAPES_H
#define GM_ASK_SHAPES_H

#include "ask/context.h"
#include "ask/recording/place.h"
#include "model/categories.h"
#include "model/model.h"

enum gm_shape_kind {
	GM_SHAPE_PARAMETERS, /* the band below everything */
	GM_SHAPE_OPTIMIZER_STATE,
	GM_SHAPE_REPEATS, /* equal steps */
	GM_SHAPE_FORWARD, /* the rise of activations */
	GM_SHAPE_SLAB,    /* the largest block of forward */
	GM_SHAPE_SOFTMAX, /* what the loss makes beside the logits */
	GM_SHAPE_SPIKE,   /* temporaries on top of the step's peak */
	GM_SHAPE_CLIFF,   /* the largest drop of backward */
	GM_SHAPE_GRADIENTS,
	GM_SHAPE_FIRST_GRADIENT, /* of the layer nearest to the loss, where it stands out: an output
	                            head */
	GM_SHAPE_LAST_GRADIENT,  /* of the layer nearest to the input: an embedding */
	GM_SHAPE_COMMUNICATION,  /* buffers of collectives that are there at the step's peak */
	GM_SHAPE_WAVES,          /* checkpoints recompute */
	GM_SHAPE_OPTIMIZER_TEMPORARIES,
	GM_SHAPE_ZERO_GRAD,
	GM_SHAPE_STALE,   /* waits for the next pass */
	GM_SHAPE_CACHED,  /* reserved and not allocated */
	GM_SHAPE_SKIPPED, /* steps that the GradScaler skipped: `count`, the first is `step` */
	GM_SHAPE_COUNT,
};
const char *gm_shape_name(enum gm_shape_kind kind);

struct gm_shape {
	enum gm_shape_kind kind;
	uint32_t step;        /* 0: the whole record */
	uint32_t first, last; /* events */
	uint64_t bytes, blocks;
	uint32_t stack;   /* Python stack of its largest block's allocation; 0: none */
	uint32_t largest; /* the index of that block, plus 1; 0: none */
	uint64_t of; /* what `bytes` is compared with: parameters (optimizer), the slab's forward;
	                of the softmax the part that is freed in forward again; 0: nothing */
	uint32_t count; /* waves, equal steps; 1 where a backward pass follows (forward); segments
	                   that CUDA was asked for in the last step, whose allocations are `blocks`
	                   (cached) */
	char note[64];  /* the operator that made it; of the slab "logits" or "softmax"; "": not
	                   known */
	bool logits;    /* of the slab: it is what the loss reads */
};

struct gm_shapes {
	const struct gm_model *model;
	size_t device;                         /* SIZE_MAX: no events at all */
	uint32_t step;                         /* the typical one; 0: there is none */
	struct gm_shape items[GM_SHAPE_COUNT]; /* in order of kinds; each at most once */
	size_t count;
};

#endif
