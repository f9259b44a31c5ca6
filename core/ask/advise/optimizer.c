/* Measures that need another optimizer, or keep its state elsewhere. */
#include <string.h>

#include "ask/advise/measures.h"
#include "base/cleanup.h"

/* Optimizers by the function that updates all parameters at once. */
struct optimizer {
	const char *foreach;    /* the function's name begins so */
	bool fused;             /* there is a fused implementation */
	bool counts_steps;      /* that counts the steps of each parameter on the device */
	bool keeps_denominator; /* one by one, a parameter's update holds two tensors of its size,
	                           beside the last parameter's one; else one */
};
static const struct optimizer optimizers[] = {
        {"_multi_tensor_adamax", false, false, false},
        {"_multi_tensor_adam", true, true, true}, /* AdamW too */
        {"_multi_tensor_nadam", false, false, true},
        {"_multi_tensor_radam", false, false, true},
        /* older versions have a fused one for the CPU alone; a recording has no version */
        {"_multi_tensor_adagrad", false, false, false},
        {"_multi_tensor_sgd", true, false, false},
        {"_multi_tensor_", false, false, false},
};

/* What was asked about a stack last: the temporaries of an update have the same one. */
struct last_stack {
	uint32_t stack;
	const struct optimizer *optimizer;
};

/* What an update of all parameters at once allocates and releases again; NULL: it is none. */
static const struct optimizer *foreach_of(
        const struct gm_advise_facts *facts, uint32_t block, struct last_stack *last)
{
	uint32_t python, native;
	if (!gm_advise_is_optimizer_temporary(facts, block))
		return NULL;
	gm_model_stacks(facts->model, gm_model_block(facts->model, block)->alloc, &python, &native);
	if (python == last->stack)
		return last->optimizer;
	*last = (struct last_stack){.stack = python};
	for (size_t i = 0; i < sizeof(optimizers) / sizeof(*optimizers) && !last->optimizer; i++)
		if (gm_advise_on_stack(facts, block, optimizers[i].foreach, true))
			last->optimizer = &optimizers[i];
	return last->optimizer;
}

/* The temporaries of an update whose parameters come one after another. */
struct one_by_one {
	uint32_t step, from;
	uint64_t before; /* of the last parameter */
	uint64_t largest, most;
};

static void close_update(const struct gm_advise_facts *facts, const struct one_by_one *update,
        enum gm_bound bound, struct gm_whatif *whatif)
{
	uint64_t bytes = bound == GM_BOUND_MOST    ? update->largest
	                 : bound == GM_BOUND_LEAST ? 3 * update->largest
	                                           : update->most;
	if (bytes)
		gm_whatif_add(
		        whatif, update->from, facts->steps[update->step].optimizer_end, bytes);
}

struct gm_error *gm_measure_for_loop(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	struct one_by_one update = {0};
	struct last_stack last = {0};
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++) {
		const struct optimizer *optimizer = foreach_of(facts, i, &last);
		if (!optimizer)
			continue;
		uint32_t step = gm_advise_step(facts, i);
		uint64_t size = whatif->size[i];
		if (step != update.step || !update.from) {
			close_update(facts, &update, bound, whatif);
			update = (struct one_by_one){.step = step, .from = whatif->begin[i]};
		}
		uint64_t now = update.before + (optimizer->keeps_denominator ? 2 : 1) * size;
		update.most = now > update.most ? now : update.most;
		update.largest = size > update.largest ? size : update.largest;
		update.before = size;
		gm_whatif_resize(whatif, i, 0);
	}
	close_update(facts, &update, bound, whatif);
	return NULL;
}

enum { LEAST_BLOCK = 512 };

static bool state_place(
        const struct gm_advise_facts *facts, uint32_t block, struct gm_frame_place *ret_place)
{
	uint32_t python, native;
	gm_model_stacks(facts->model, gm_model_block(facts->model, block)->alloc, &python, &native);
	return gm_place_frame(facts->log, python, 0, ret_place) && ret_place->file &&
	       strstr(ret_place->file, "/torch/optim/");
}

/* How many parameters the optimizer updates: frozen ones have no state. Each line that makes state
 * makes one block for each of the others. Without any state that was recorded: all parameters. */
static uint64_t count_updated(const struct gm_advise_facts *facts)
{
	struct gm_frame_place first = {0}, place;
	uint64_t updated = 0, parameters = 0;
	gm_advise_each(facts, GM_CATEGORY_OPTIMIZER_STATE, i)
	{
		if (!state_place(facts, i, &place))
			continue;
		if (!updated)
			first = place;
		updated += place.code == first.code && place.lasti == first.lasti;
	}
	gm_advise_each(facts, GM_CATEGORY_PARAMETER, i) parameters++;
	return updated ? updated : parameters;
}

struct gm_error *gm_measure_fused(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	struct last_stack last = {0};
	uint32_t first = GM_NO_EVENT;
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++) {
		const struct optimizer *optimizer = foreach_of(facts, i, &last);
		if (!optimizer || !optimizer->fused)
			continue;
		if (optimizer->counts_steps && whatif->begin[i] < first)
			first = whatif->begin[i];
		gm_whatif_resize(whatif, i, 0);
	}
	if (first != GM_NO_EVENT)
		gm_whatif_add(
		        whatif, first, facts->event_count, count_updated(facts) * LEAST_BLOCK);
	return NULL;
}

static void drop_temporaries(const struct gm_advise_facts *facts, struct gm_whatif *whatif)
{
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++)
		if (gm_advise_is_optimizer_temporary(facts, i))
			gm_whatif_resize(whatif, i, 0);
}

/*
 * As bitsandbytes keeps them: a byte for each element and a float32 for each block of 256 of them,
 * and float32 for tensors of fewer than 4096 elements (bitsandbytes/optim/optimizer.py,
 * min_8bit_size). Its kernels update in place.
 */
enum { STATES_LEAST_ELEMENTS = 4096, STATES_BLOCK = 256, FLOAT_BYTES = 4 };

struct gm_error *gm_measure_states_8bit(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	gm_advise_each(facts, GM_CATEGORY_OPTIMIZER_STATE, i)
	{
		const struct gm_block *block = gm_model_block(facts->model, i);
		uint64_t bytes = gm_block_requested(block);
		struct gm_log_tensor tensor;
		uint64_t elements = gm_advise_tensor(facts, i, &tensor)
		                            ? gm_advise_elements(&tensor)
		                            : bytes / FLOAT_BYTES;
		if (elements < STATES_LEAST_ELEMENTS || elements > bytes / FLOAT_BYTES)
			continue;
		uint64_t scales = (elements + STATES_BLOCK - 1) / STATES_BLOCK * FLOAT_BYTES;
		uint64_t size = gm_whatif_round(elements) + gm_whatif_round(scales);
		if (size < whatif->size[i])
			gm_whatif_resize(whatif, i, size);
	}
	if (whatif->changes && bound != GM_BOUND_LEAST)
		drop_temporaries(facts, whatif);
	return NULL;
}

/* The state is the host's, and so is the update. */
struct gm_error *gm_measure_offload_optimizer(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	gm_advise_each(facts, GM_CATEGORY_OPTIMIZER_STATE, i) gm_whatif_resize(whatif, i, 0);
	if (whatif->changes && bound != GM_BOUND_LEAST)
		drop_temporaries(facts, whatif);
	return NULL;
}
