/*
 * The buckets of DistributedDataParallel, from its Reducer alone.
 *
 * c10d::Reducer (torch/csrc/distributed/c10d/reducer.hpp) has no vtable. Its Python object, a
 * pybind11 instance, points to it. Its `std::vector<at::Tensor> params_` has a known offset and
 * confirms the type; `std::vector<Bucket> buckets_` is somewhere after it. A vector is accepted as
 * this one if its length is a multiple of a Bucket's and each item has a tensor and a vector of
 * tensors at the offsets of a Bucket. core/holders finds the same with its graph
 * (native/reducer.c); here no graph is needed.
 */
#include <stdlib.h>

#include "base/array.h"
#include "torch/internal.h"
#include "torch/torch.h"
#include "torch/members.h"

enum {
	REDUCER_WORDS = 512, /* bytes that are searched for buckets_ */
	VARIABLES_MAX = 1 << 20,
	BUCKETS_MAX = 1 << 16,
	BUCKET_MAX = 1024, /* bytes of one */
};

static bool is_tensor(struct gm_torch *torch, uint64_t address)
{
	struct gm_tensor tensor;
	return gm_torch_tensor(torch, address, &tensor);
}

static bool is_vector(const uint64_t bounds[3], size_t item, size_t most)
{
	return gm_is_object_address(bounds[0]) && bounds[0] < bounds[1] && bounds[1] <= bounds[2] &&
	       (bounds[1] - bounds[0]) % item == 0 && (bounds[1] - bounds[0]) / item <= most;
}

struct found {
	GM_ARRAY(uint64_t) variables;
	GM_ARRAY(struct gm_ddp_bucket) buckets;
};

/* Appends a vector's tensors. False: it contains something else. */
static bool take_tensors(
        struct gm_torch *torch, const uint64_t bounds[3], struct found *found, size_t *ret_count)
{
	if (!is_vector(bounds, 8, VARIABLES_MAX))
		return false;
	size_t count = (size_t)(bounds[1] - bounds[0]) / 8;
	if (!gm_array_reserve(&found->variables, count))
		return false;
	uint64_t *items = found->variables.items + found->variables.count;
	if (!gm_image_try_read(torch->image, bounds[0], items, count * 8))
		return false;
	for (size_t i = 0; i < count; i++)
		if (!is_tensor(torch, items[i]))
			return false;
	found->variables.count += count;
	*ret_count = count;
	return true;
}

static bool take_bucket(struct gm_torch *torch, uint64_t address, struct found *found)
{
	const struct gm_torch_layout *layout = torch->layout;
	unsigned char bytes[BUCKET_MAX];
	uint64_t bounds[3];
	struct gm_ddp_bucket bucket = {.first = found->variables.count};
	if (!gm_image_try_read(torch->image, address, bytes, layout->reducer.bucket_size_of))
		return false;
	bucket.gradients = gm_word(bytes, layout->reducer.gradients);
	memcpy(bounds, bytes + layout->reducer.variables, sizeof(bounds));
	return is_tensor(torch, bucket.gradients) &&
	       take_tensors(torch, bounds, found, &bucket.count) &&
	       gm_array_push(&found->buckets, bucket);
}

static bool take_buckets(struct gm_torch *torch, const uint64_t bounds[3], struct found *found)
{
	size_t size = torch->layout->reducer.bucket_size_of;
	found->variables.count = found->buckets.count = 0;
	if (!is_vector(bounds, size, BUCKETS_MAX))
		return false;
	for (uint64_t address = bounds[0]; address < bounds[1]; address += size)
		if (!take_bucket(torch, address, found))
			return false;
	return true;
}

static bool find_buckets(struct gm_torch *torch, uint64_t reducer, struct found *found)
{
	const struct gm_torch_layout *layout = torch->layout;
	uint64_t words[REDUCER_WORDS], address;
	size_t parameters = layout->reducer.parameters / 8, count;
	if (!parameters || !layout->reducer.bucket_size_of ||
	        layout->reducer.variables + sizeof(words[0]) * 3 > layout->reducer.bucket_size_of ||
	        layout->reducer.bucket_size_of > BUCKET_MAX || !gm_is_object_address(reducer) ||
	        !gm_image_try_u64(torch->image, reducer + GM_PYBIND_POINTER, &address) ||
	        !gm_is_object_address(address))
		return false;
	size_t got = gm_image_read_some(torch->image, address, words, sizeof(words)) / 8;
	if (got < parameters + 3 || !take_tensors(torch, words + parameters, found, &count))
		return false;
	for (size_t i = parameters + 3; i + 3 <= got; i++)
		if (take_buckets(torch, words + i, found))
			return true;
	return false;
}

bool gm_torch_ddp_buckets(struct gm_torch *torch, uint64_t reducer,
        struct gm_ddp_bucket **ret_buckets, size_t *ret_count, uint64_t **ret_variables)
{
	struct found found = {0};
	if (!find_buckets(torch, reducer, &found)) {
		gm_array_deinit(&found.variables);
		gm_array_deinit(&found.buckets);
		return false;
	}
	*ret_buckets = found.buckets.items;
	*ret_count = found.buckets.count;
	*ret_variables = found.variables.items;
	return true;
}
