/*
 * Measures: changes of a program that may lower its peak, each as what it does to the blocks of a
 * recording. table.c lists them; the other files have a subject each. Internal to core/ask.
 */
#ifndef GM_ASK_ADVISE_MEASURES_H
#define GM_ASK_ADVISE_MEASURES_H

#include "ask/advise/facts.h"
#include "ask/advise/kinds.h"
#include "ask/advise/whatif.h"

/* A measure at one place: this variable, that module. */
struct gm_candidate {
	enum gm_measure measure;
	bool nowhere;                /* it was looked for, and the recording has no place for it */
	uint32_t number;             /* of ranks, parts or chunks; 0: the measure has none */
	const char *name;            /* of the variable or module; the log's; NULL: none */
	struct gm_frame_place place; /* code 0: none */
	uint32_t code;       /* where several measures of a kind differ: a code object, … */
	double recomputed;   /* the part of the forward pass that runs once more; 0: nothing */
	uint64_t byte_steps; /* of what is held: bytes times the steps for which they are */
};
struct gm_candidates {
	GM_ARRAY(struct gm_candidate) list;
};

/* For what the recording does not tell, a measure assumes what is likely, or what saves the least
 * or the most. */
enum gm_bound { GM_BOUND_LIKELY, GM_BOUND_LEAST, GM_BOUND_MOST };

struct gm_measure_row {
	enum gm_measure measure;
	bool exact;  /* it changes lives of blocks alone */
	bool ranged; /* the bounds differ */
	enum gm_measure_cost cost;
	unsigned needs; /* enum gm_advise_need, as bits */
	/* Where it can be applied; NULL: as a whole. */
	struct gm_error *(*find)(
	        const struct gm_advise_facts *facts, struct gm_candidates *candidates);
	/* Changes the blocks as the measure would. No change: there is nothing to apply it to. */
	struct gm_error *(*apply)(const struct gm_advise_facts *facts,
	        const struct gm_candidate *candidate, enum gm_bound bound,
	        struct gm_whatif *whatif);
};

/* lifetimes.c */
struct gm_error *gm_measure_find_variables(
        const struct gm_advise_facts *facts, struct gm_candidates *candidates);
/* Behind those. */
struct gm_error *gm_measure_find_all_variables(
        const struct gm_advise_facts *facts, struct gm_candidates *candidates);
struct gm_error *gm_measure_variable(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);
struct gm_error *gm_measure_find_held(
        const struct gm_advise_facts *facts, struct gm_candidates *candidates);
struct gm_error *gm_measure_find_all_held(
        const struct gm_advise_facts *facts, struct gm_candidates *candidates);
struct gm_error *gm_measure_held(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);

/* gradients.c */
struct gm_error *gm_measure_zero_grad(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);
struct gm_error *gm_measure_set_to_none(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);

/* optimizer.c */
struct gm_error *gm_measure_for_loop(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);
struct gm_error *gm_measure_fused(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);
struct gm_error *gm_measure_states_8bit(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);
struct gm_error *gm_measure_offload_optimizer(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);

/* offload.c */
struct gm_error *gm_measure_offload_activations(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);

/* batch.c */
struct gm_error *gm_measure_smaller_batch(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);
struct gm_error *gm_measure_accumulate(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);

/* checkpoint.c */
struct gm_error *gm_measure_find_modules(
        const struct gm_advise_facts *facts, struct gm_candidates *candidates);
struct gm_error *gm_measure_checkpoint(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);

/* quadratic.c */
struct gm_error *gm_measure_chunked_loss(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);
struct gm_error *gm_measure_attention(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);

/* autocast.c */
struct gm_error *gm_measure_autocast(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);

/* sharding.c: the stage is that of the candidate's measure */
struct gm_error *gm_measure_zero(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);
struct gm_error *gm_measure_offload_parameters(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);

/* parallel.c */
struct gm_error *gm_measure_tensor_parallel(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);
struct gm_error *gm_measure_pipeline_parallel(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif);

/* The size of the largest parameter, as measures before this one left it. */
static inline uint64_t gm_measure_largest_parameter(
        const struct gm_advise_facts *facts, const struct gm_whatif *whatif)
{
	uint64_t largest = 0;
	gm_advise_each(facts, GM_CATEGORY_PARAMETER, i)
	{
		if (whatif->size[i] > largest)
			largest = whatif->size[i];
	}
	return largest;
}

#endif
