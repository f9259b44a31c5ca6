#include "ask/advise/weights.h"

#include "base/search.h"

static uint64_t requested(const struct gm_advise_facts *facts, uint32_t block)
{
	return gm_block_requested(gm_model_block(facts->model, block));
}

static int compare(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

static bool has(const uint64_t *items, size_t count, uint64_t value)
{
	size_t at = gm_partition_point(count, middle, items[middle] < value);
	return at < count && items[at] == value;
}

struct gm_error *gm_weights_init(struct gm_weights *weights, const struct gm_advise_facts *facts)
{
	*weights = (struct gm_weights){0};
	gm_advise_each(facts, GM_CATEGORY_PARAMETER, i)
	{
		struct gm_log_tensor tensor;
		bool good = gm_array_push(&weights->bytes, requested(facts, i));
		if (good && gm_advise_tensor(facts, i, &tensor))
			good = gm_array_push(&weights->shapes, gm_advise_shape(&tensor, false)) &&
			       gm_array_push(&weights->shapes, gm_advise_shape(&tensor, true));
		if (!good) {
			gm_weights_deinit(weights);
			return &gm_error_no_memory;
		}
	}
	if (weights->bytes.count)
		qsort(weights->bytes.items, weights->bytes.count, sizeof(uint64_t), compare);
	if (weights->shapes.count)
		qsort(weights->shapes.items, weights->shapes.count, sizeof(uint64_t), compare);
	return NULL;
}

void gm_weights_deinit(struct gm_weights *weights)
{
	gm_array_deinit(&weights->bytes);
	gm_array_deinit(&weights->shapes);
}

bool gm_weights_has(
        const struct gm_weights *weights, const struct gm_advise_facts *facts, uint32_t block)
{
	struct gm_log_tensor tensor;
	uint64_t bytes = requested(facts, block);
	if (weights->shapes.count && gm_advise_tensor(facts, block, &tensor))
		return has(weights->shapes.items, weights->shapes.count,
		        gm_advise_shape(&tensor, false));
	return has(weights->bytes.items, weights->bytes.count, bytes) ||
	       has(weights->bytes.items, weights->bytes.count, 2 * bytes);
}
