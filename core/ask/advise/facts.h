/* What the measures of `advise` ask about a recording: its steps, tensors and stacks. Internal to
 * core/ask. */
#ifndef GM_ASK_ADVISE_FACTS_H
#define GM_ASK_ADVISE_FACTS_H

#include "ask/advise/signs.h"
#include "ask/recording/cause.h"
#include "model/categories.h"
#include "model/model.h"

/* What a recording has to have for a measure to be judged, as bits. */
enum gm_advise_need {
	GM_NEED_STEPS = 1,  /* a training loop was found */
	GM_NEED_STACKS = 2, /* Python stacks */
	GM_NEED_SHAPES = 4, /* shapes and dtypes of tensors */
	GM_NEED_NATIVE = 8, /* names of native functions */
	GM_NEED_WHOLE = 16, /* no sharding yet: FSDP, DeepSpeed's ZeRO, ZeroRedundancyOptimizer */
};

/* Events of a step; GM_NO_EVENT: it has none of that phase. */
struct gm_step_bounds {
	uint32_t first, end;             /* [first, end) */
	uint32_t forward, forward_end;   /* [forward, forward_end): from the first to the last */
	uint32_t backward, backward_end; /* recomputation included */
	uint32_t optimizer, optimizer_end;
};

struct gm_advise_block {
	uint32_t step, last_step;
	uint8_t phase, category;
	bool counts;
};

struct gm_advise_facts {
	const struct gm_model *model;
	const struct gm_log *log;
	const struct gm_categories *categories;
	size_t device;
	uint32_t event_count, step_count;
	struct gm_step_bounds *steps;   /* by step, from 1; owned */
	struct gm_advise_block *blocks; /* by block; owned */
	struct gm_advise_signs *signs;  /* owned */
	unsigned lacks;                 /* enum gm_advise_need, as bits */
};

struct gm_error *gm_advise_facts_init(struct gm_advise_facts *facts, const struct gm_model *model,
        const struct gm_categories *categories, size_t device);
void gm_advise_facts_deinit(struct gm_advise_facts *facts);

/* Is it a block of the device whose allocation was recorded? Else nothing else is asked of it. */
static inline bool gm_advise_counts(const struct gm_advise_facts *facts, uint32_t block)
{
	return facts->blocks[block].counts;
}
/* The step in which it was allocated, 0: in none; and that in which it was released, 0: in none, or
 * not at all. */
static inline uint32_t gm_advise_step(const struct gm_advise_facts *facts, uint32_t block)
{
	return facts->blocks[block].step;
}
static inline uint32_t gm_advise_last_step(const struct gm_advise_facts *facts, uint32_t block)
{
	return facts->blocks[block].last_step;
}
static inline enum gm_phase gm_advise_phase(const struct gm_advise_facts *facts, uint32_t block)
{
	return (enum gm_phase)facts->blocks[block].phase;
}
static inline enum gm_category gm_advise_category(
        const struct gm_advise_facts *facts, uint32_t block)
{
	return (enum gm_category)facts->blocks[block].category;
}
/* Did the optimizer's step allocate it and release it again? */
static inline bool gm_advise_is_optimizer_temporary(
        const struct gm_advise_facts *facts, uint32_t block)
{
	return gm_advise_counts(facts, block) &&
	       gm_advise_phase(facts, block) == GM_PHASE_OPTIMIZER &&
	       gm_advise_category(facts, block) == GM_CATEGORY_TEMPORARY;
}
/* The next block of a category, from `from` on; GM_NO_BLOCK: there is none. */
static inline uint32_t gm_advise_next(
        const struct gm_advise_facts *facts, enum gm_category category, uint32_t from)
{
	uint32_t count = (uint32_t)gm_model_block_count(facts->model);
	while (from < count && !(facts->blocks[from].counts &&
	                               (enum gm_category)facts->blocks[from].category == category))
		from++;
	return from < count ? from : GM_NO_BLOCK;
}
/* All blocks of a category, in the order of their allocation. */
#define gm_advise_each(facts, category, i)                                            \
	for (uint32_t i = gm_advise_next((facts), (category), 0); (i) != GM_NO_BLOCK; \
	        (i) = gm_advise_next((facts), (category), (i) + 1))

/* Did the forward pass of a step allocate it? */
static inline bool gm_advise_in_forward(const struct gm_advise_facts *facts, uint32_t block)
{
	return gm_advise_counts(facts, block) && gm_advise_step(facts, block) &&
	       gm_advise_phase(facts, block) == GM_PHASE_FORWARD;
}
/* Does backward of its own step release it? */
bool gm_advise_waits_for_backward(const struct gm_advise_facts *facts, uint32_t block);
/* The tensor that the block was allocated for; false: it was not recorded. */
bool gm_advise_tensor(
        const struct gm_advise_facts *facts, uint32_t block, struct gm_log_tensor *ret_tensor);
/* What the native stack of its allocation says: enum gm_advise_sign, as bits. */
uint8_t gm_advise_sign(const struct gm_advise_facts *facts, uint32_t block);
/* A hash of the sizes, from the first or from the last dimension: of a shape or its transpose. */
uint64_t gm_advise_shape(const struct gm_log_tensor *tensor, bool reversed);
/* How many elements; 0: not recorded, or beyond 2^62. */
uint64_t gm_advise_elements(const struct gm_log_tensor *tensor);
/* The frame of the block's allocation that the answer names; false: it has no Python stack. */
bool gm_advise_site(
        const struct gm_advise_facts *facts, uint32_t block, struct gm_frame_place *ret_place);
/* Does a function of this name (the last part of it; with `begins`, a name that begins so) stand on
 * the stack of the block's allocation? */
bool gm_advise_on_stack(
        const struct gm_advise_facts *facts, uint32_t block, const char *name, bool begins);

#endif
