/*
 * Autocast's copies of parameters. For each cast the agent records the address of the source. The
 * live block at that address is the source. The result is a copy of a parameter if the source is a
 * parameter, or if autocast's cache released the result: only copies of leaves that require
 * gradients are in the cache (ATen/autocast_mode.cpp, cached_cast()).
 */
#include <stdlib.h>
#include <string.h>

#include "ask/recording/amp_copies.h"
#include "ask/recording/by_address.h"
#include "base/array.h"

uint8_t gm_amp_signs_of(struct gm_amp_signs *signs, const struct gm_log *log, uint32_t native_stack)
{
	if (!gm_array_reach(signs, native_stack))
		return 0;
	if (signs->items[native_stack])
		return signs->items[native_stack];
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(log, native_stack, &count);
	uint8_t found = GM_AMP_LOOKED_AT;
	for (size_t i = 0; i < count; i++) {
		struct gm_native_place place;
		gm_place_native(log, addresses[i], &place);
		if (!place.function)
			continue;
		if (strstr(place.function, "autocast::cached_cast"))
			found |= GM_AMP_CASTS;
		else if (strstr(place.function, "autocast::clear_cache"))
			found |= GM_AMP_CLEARS_CACHE;
		else if (strstr(place.function, "::ToCopyBackward0::apply") ||
		         strstr(place.function, "::ToCopyBackward0_apply"))
			found |= GM_AMP_CONVERTS;
	}
	return signs->items[native_stack] = found;
}

/* The block that a cast allocates: the thread's next one. */
static uint32_t block_of_cast(const struct gm_model *model, const struct gm_log_amp *cast)
{
	enum {
		NEAR = 64
	}; /* events of other threads, and the block's new segment, may come first */
	const struct gm_log *log = gm_model_log(model);
	uint64_t count = gm_log_event_count(log);
	for (uint64_t i = cast->event; i < count && i < cast->event + NEAR; i++) {
		struct gm_event event;
		gm_log_event(log, i, &event);
		if (event.thread == cast->thread && event.action == GM_ALLOC)
			return gm_model_event_block(model, i);
	}
	return GM_NO_BLOCK;
}

static enum gm_amp_end end_of(struct gm_amp *amp, struct gm_amp_signs *signs, uint32_t index)
{
	const struct gm_log *log = gm_model_log(amp->model);
	const struct gm_block *block = gm_model_block(amp->model, index);
	uint32_t freed = gm_block_end(block), python, native;
	struct gm_teardown teardown;
	if (freed == GM_NO_EVENT)
		return GM_AMP_KEPT;
	gm_model_stacks(amp->model, freed, &python, &native);
	if (gm_amp_signs_of(signs, log, native) & GM_AMP_CLEARS_CACHE)
		return GM_AMP_BY_CACHE;
	gm_teardown_read(log, native, &teardown);
	return teardown.node || teardown.engine ? GM_AMP_BY_GRAPH : GM_AMP_BY_OTHERS;
}

struct parameters {
	GM_ARRAY(struct gm_amp_parameter) items;
	uint32_t *of_block; /* index + 1 */
};

static bool add_copy(struct gm_amp *amp, struct parameters *parameters, struct gm_amp_signs *signs,
        uint32_t source, uint32_t copy)
{
	uint32_t *index = &parameters->of_block[source];
	if (!*index) {
		const struct gm_amp_parameter fresh = {.block = source,
		        .first_copy = copy,
		        .copy_bytes = gm_model_block(amp->model, copy)->size};
		if (!gm_array_push(&parameters->items, fresh))
			return false;
		*index = (uint32_t)parameters->items.count;
	}
	struct gm_amp_parameter *parameter = &parameters->items.items[*index - 1];
	parameter->last_copy = copy;
	parameter->copies++;
	parameter->ends[end_of(amp, signs, copy)]++;
	amp->copies[copy] = 1;
	return true;
}

static void count_cast(struct gm_amp *amp, uint32_t block)
{
	struct gm_log_tensor tensor;
	struct gm_event event;
	const struct gm_log *log = gm_model_log(amp->model);
	gm_log_event(log, gm_model_block(amp->model, block)->alloc, &event);
	if (!gm_log_tensor(log, event.tensor, &tensor))
		return;
	amp->casts[0] += tensor.type == GM_AMP_FLOAT16;
	amp->casts[1] += tensor.type == GM_AMP_BFLOAT16;
}

static bool read_casts(struct gm_amp *amp, const struct gm_categories *categories,
        struct parameters *parameters, struct gm_amp_signs *signs)
{
	const struct gm_log *log = gm_model_log(amp->model);
	struct gm_by_address blocks;
	bool good = gm_by_address_init(&blocks, amp->model) == NULL; /* otherwise: out of memory */
	for (size_t i = 0; good && i < gm_log_amp_count(log); i++) {
		struct gm_log_amp cast;
		gm_log_amp(log, i, &cast);
		if (cast.kind != GM_AMP_CAST || cast.count < 1 || !(cast.values[0] > 0) ||
		        cast.values[0] >= 9007199254740992.0)
			continue;
		uint32_t copy = block_of_cast(amp->model, &cast);
		if (copy == GM_NO_BLOCK || gm_model_block(amp->model, copy)->alloc == GM_NO_EVENT)
			continue;
		amp->autocast = true;
		amp->has_casts = true;
		count_cast(amp, copy);
		uint32_t source = gm_block_at_address(
		        &blocks, (uint64_t)cast.values[0], gm_model_block(amp->model, copy)->alloc);
		bool leaf = source != GM_NO_BLOCK &&
		            (gm_categories_of(categories, source) == GM_CATEGORY_PARAMETER ||
		                    end_of(amp, signs, copy) == GM_AMP_BY_CACHE);
		if (leaf)
			good = add_copy(amp, parameters, signs, source, copy);
	}
	gm_by_address_deinit(&blocks);
	return good;
}

/* For a recording without the agent's data: casts are known, but not their sources. */
static void read_stacks(struct gm_amp *amp, struct gm_amp_signs *signs)
{
	for (size_t i = 0; i < gm_model_block_count(amp->model); i++) {
		const struct gm_block *block = gm_model_block(amp->model, i);
		uint32_t python, native;
		if (block->alloc == GM_NO_EVENT)
			continue;
		gm_model_stacks(amp->model, block->alloc, &python, &native);
		if (!native ||
		        !(gm_amp_signs_of(signs, gm_model_log(amp->model), native) & GM_AMP_CASTS))
			continue;
		amp->autocast = true;
		count_cast(amp, (uint32_t)i);
		if (end_of(amp, signs, (uint32_t)i) == GM_AMP_BY_CACHE)
			amp->copies[i] = 1;
	}
}

struct gm_error *gm_amp_find_copies(struct gm_amp *amp, const struct gm_categories *categories)
{
	size_t count = gm_model_block_count(amp->model);
	struct parameters parameters = {.of_block = calloc(count + 1, sizeof(uint32_t))};
	struct gm_amp_signs signs = {0};
	amp->copies = calloc(count + 1, 1);
	bool good = amp->copies && parameters.of_block &&
	            read_casts(amp, categories, &parameters, &signs);
	if (good && !amp->has_casts)
		read_stacks(amp, &signs);
	free(parameters.of_block);
	free(signs.items);
	amp->parameters = parameters.items.items;
	amp->parameter_count = parameters.items.count;
	return good ? NULL : &gm_error_no_memory;
}
