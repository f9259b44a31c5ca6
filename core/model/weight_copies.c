/*
 * Copies of weights, and new weights that are computed from others: `deepcopy(model.state_dict())`,
 * MAML's `p - rate * gradient`. Between two passes of a model they look like the next batch.
 *
 * One statement makes all of them, as many as the model has parameters, or parameters and buffers.
 * So the sizes of the blocks that one statement allocates in one run of events are compared with
 * the sizes of the parameters in order of their allocation: if a range of these has the same sizes,
 * the blocks are no input. The order within the range does not matter: Module.to() takes submodules
 * first, Module.parameters() takes them last.
 *
 * A batch may have such sizes by chance, so there must be SEQUENCE_LEAST blocks, not all of one
 * size. And while a copy of a model has all of its parameters, a batch that the next pass uses has
 * few tensors. So blocks that are not freed at once must be SEQUENCE_SURE, or half of the
 * parameters that are there: there may be those of a second model, such as a discriminator.
 *
 * Sums of hashes compare ranges: a range's sum is the difference of two prefix sums. Steps repeat,
 * so answers are remembered. At most COMPARISONS_MOST ranges are compared in all.
 */
#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/search.h"
#include "base/sort.h"
#include "model/internal.h"
#include "model/reasons.h"
#include "model/runs.h"
#include "model/statements.h"

enum { SEQUENCE_LEAST = 3, SEQUENCE_SURE = 8, COMPARISONS_MOST = 1 << 27, REMEMBERED = 256 };

struct sizes {
	uint64_t count, sum; /* of their hashes */
	uint64_t last;
	bool differ;
};

struct answer {
	uint64_t count, sum;
	bool is_weights;
};

struct comparing {
	const struct gm_model *model;
	struct gm_categories *categories;
	struct gm_statements *statements;
	GM_ARRAY(uint64_t) parameters;   /* prefix sums of hashes, in order of allocation */
	GM_ARRAY(uint64_t) all;          /* the same with buffers */
	GM_ARRAY(uint64_t) begins, ends; /* events that allocated and freed parameters, in order */
	GM_ARRAY(uint64_t) candidates;   /* statement << 32 | block */
	GM_ARRAY(uint64_t) scratch;      /* of the sort */
	struct answer answers[REMEMBERED];
	uint64_t compared;
};

static uint64_t hash_of(uint64_t size)
{
	return gm_hash_mix(size + 1);
}

static void add_size(struct sizes *sizes, uint64_t size)
{
	sizes->differ |= sizes->count && size != sizes->last;
	sizes->last = size;
	sizes->sum += hash_of(size);
	sizes->count++;
}

static bool has_range(
        struct comparing *comparing, const uint64_t *sums, size_t count, const struct sizes *sizes)
{
	for (size_t end = sizes->count; end < count; end++) {
		if (comparing->compared++ >= COMPARISONS_MOST)
			return false;
		if (sums[end] - sums[end - sizes->count] == sizes->sum)
			return true;
	}
	return false;
}

static bool are_weights(struct comparing *comparing, const struct sizes *sizes)
{
	if (sizes->count < SEQUENCE_LEAST || !sizes->differ)
		return false;
	struct answer *answer =
	        &comparing->answers[gm_hash_mix(sizes->sum + sizes->count) % REMEMBERED];
	if (answer->count != sizes->count || answer->sum != sizes->sum)
		*answer = (struct answer){sizes->count, sizes->sum,
		        has_range(comparing, comparing->parameters.items,
		                comparing->parameters.count, sizes) ||
		                has_range(comparing, comparing->all.items, comparing->all.count,
		                        sizes)};
	return answer->is_weights;
}

/* How many parameters are there after an event? */
static size_t count_parameters(const struct comparing *comparing, uint64_t event)
{
	const uint64_t *begins = comparing->begins.items, *ends = comparing->ends.items;
	return gm_partition_point(comparing->begins.count, i, begins[i] <= event) -
	       gm_partition_point(comparing->ends.count, i, ends[i] <= event);
}

static bool is_copy(struct comparing *comparing, const struct sizes *sizes, uint64_t event)
{
	bool enough = sizes->count >= SEQUENCE_SURE ||
	              2 * sizes->count >= count_parameters(comparing, event);
	return enough && are_weights(comparing, sizes);
}

static struct gm_model_run run_of(const struct gm_model *model, const struct gm_block *block)
{
	return gm_run_at_index(model, gm_model_run_at(model, block->alloc));
}

/* Is it freed before `end`, that of the run which allocated it? */
static bool is_freed_before(const struct gm_block *block, uint32_t end)
{
	return gm_block_end(block) != GM_NO_EVENT && gm_block_end(block) < end;
}

static bool is_of_parameter(uint8_t reason)
{
	return reason == GM_REASON_MOVED_PARAMETER || reason == GM_REASON_MADE_BY_MODULE ||
	       reason == GM_REASON_LOADED || reason == GM_REASON_SHARDED ||
	       reason == GM_REASON_TRAINED || reason == GM_REASON_INFERRED_PARAMETER;
}

/* The sizes of the parameters, and the blocks that are taken for input so far. */
static bool gather(struct comparing *comparing)
{
	const struct gm_model *model = comparing->model;
	uint64_t parameters = 0, all = 0;
	bool good = gm_array_push(&comparing->parameters, 0) && gm_array_push(&comparing->all, 0);
	for (size_t i = 0; i < comparing->categories->count && good; i++) {
		const struct gm_block *block = &model->blocks.items[i];
		uint64_t hash = hash_of(gm_block_requested(block));
		uint8_t reason = comparing->categories->reasons[i];
		bool is_parameter = is_of_parameter(reason);
		if (is_parameter)
			good = gm_array_push(&comparing->parameters, parameters += hash) &&
			       gm_array_push(&comparing->begins, block->alloc) &&
			       (gm_block_end(block) == GM_NO_EVENT ||
			               gm_array_push(&comparing->ends, gm_block_end(block)));
		if (is_parameter || reason == GM_REASON_MOVED_BUFFER ||
		        reason == GM_REASON_REGISTERED_BUFFER)
			good = good && gm_array_push(&comparing->all, all += hash);
		if (reason == GM_REASON_DATA_INPUT || reason == GM_REASON_EVALUATION_INPUT)
			good = gm_array_push(&comparing->candidates,
			        (uint64_t)gm_statement_of(
			                comparing->statements, model->event_sites[block->alloc])
			                        << 32 |
			                i);
	}
	size_t most = comparing->candidates.count;
	most = most > comparing->ends.count ? most : comparing->ends.count;
	return good && gm_array_reserve(&comparing->scratch, most + 1);
}

/* Candidates of one statement and one run of events: what stays and what it frees itself are
 * two sequences. */
static void judge(struct comparing *comparing, size_t first, size_t end, uint32_t run_end)
{
	const struct gm_block *blocks = comparing->model->blocks.items;
	const uint64_t *candidates = comparing->candidates.items;
	struct sizes kept = {0}, freed = {0};
	for (size_t i = first; i < end; i++) {
		const struct gm_block *block = &blocks[(uint32_t)candidates[i]];
		add_size(is_freed_before(block, run_end) ? &freed : &kept,
		        gm_block_requested(block));
	}
	bool kept_weights =
	        kept.count && is_copy(comparing, &kept, blocks[(uint32_t)candidates[first]].alloc);
	bool freed_weights = are_weights(comparing, &freed);
	for (size_t i = first; i < end; i++) {
		uint32_t block = (uint32_t)candidates[i];
		uint8_t *reason = &comparing->categories->reasons[block];
		bool is_freed = is_freed_before(&blocks[block], run_end);
		if (is_freed && freed_weights)
			*reason = GM_REASON_SHORT_LIVED;
		else if (!is_freed && kept_weights)
			*reason = GM_REASON_SIZED_AS_WEIGHTS;
	}
}

static void judge_all(struct comparing *comparing)
{
	const struct gm_block *blocks = comparing->model->blocks.items;
	const uint64_t *candidates = comparing->candidates.items;
	size_t count = comparing->candidates.count;
	for (size_t first = 0, end; first < count; first = end) {
		uint32_t run_end =
		        run_of(comparing->model, &blocks[(uint32_t)candidates[first]]).end;
		for (end = first + 1; end < count; end++)
			if (candidates[end] >> 32 != candidates[first] >> 32 ||
			        blocks[(uint32_t)candidates[end]].alloc >= run_end)
				break;
		judge(comparing, first, end, run_end);
	}
}

bool gm_reasons_compare_weights(const struct gm_model *model, struct gm_categories *categories,
        struct gm_statements *statements)
{
	struct comparing comparing = {
	        .model = model, .categories = categories, .statements = statements};
	bool good = gather(&comparing);
	if (good) {
		gm_sort_by_address(comparing.ends.items, comparing.scratch.items,
		        comparing.ends.count, sizeof(uint64_t));
		gm_sort_by_address(comparing.candidates.items, comparing.scratch.items,
		        comparing.candidates.count, sizeof(uint64_t));
		judge_all(&comparing);
	}
	gm_array_deinit(&comparing.parameters);
	gm_array_deinit(&comparing.all);
	gm_array_deinit(&comparing.begins);
	gm_array_deinit(&comparing.ends);
	gm_array_deinit(&comparing.candidates);
	gm_array_deinit(&comparing.scratch);
	return good;
}
