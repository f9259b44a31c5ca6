/*
 * The buckets of DistributedDataParallel, in its Reducer (torch/csrc/distributed/c10d/reducer.hpp):
 * a std::vector of Reducer::Bucket, whose first members are `at::Tensor gradients` and three
 * vectors of tensors.
 */
#include "holders/native/buckets.h"

#include "holders/graph/graph.h"
#include "holders/unattributed/unattributed.h"
#include "holders/heap/heap.h"

enum { REDUCER_WORDS = 256 }; /* bytes that are searched for the vector */

/* The end of the vector that begins at `buckets`; 0 if the Reducer does not have such a vector. */
static uint64_t end_of(struct gm_holders *graph, uint64_t reducer, uint64_t buckets)
{
	uint64_t words[REDUCER_WORDS];
	size_t got = gm_image_read_some(graph->image, reducer, words, sizeof(words)) / 8;
	size_t size = gm_torch_layout_of(graph->torch)->reducer.bucket_size_of;
	for (size_t i = 0; i + 2 < got; i++)
		if (words[i] == buckets && gm_is_vector(graph, &words[i], size))
			return words[i + 1];
	return 0;
}

bool gm_bucket_part(struct gm_holders *graph, uint64_t reducer, uint64_t buckets, uint64_t word,
        uint64_t index, struct gm_native_part *ret_part)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	const struct {
		uint32_t offset;
		bool vector;
		const char *name;
	} members[] = {
	        {layout->reducer.gradients, false, "gradients"},
	        {layout->reducer.views_in, true, "bucket_views_in"},
	        {layout->reducer.views_out, true, "bucket_views_out"},
	        {layout->reducer.variables, true, "variables"},
	        {layout->reducer.future_work, false, "future_work"},
	        {layout->reducer.sparse_indices, false, "sparse_tensor_indices"},
	};
	uint64_t size = layout->reducer.bucket_size_of;
	if (size == 0 || word < buckets || word >= end_of(graph, reducer, buckets))
		return false;
	uint64_t number = (word - buckets) / size, offset = (word - buckets) % size;
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		if (members[i].offset != offset)
			continue;
		bool item = members[i].vector && index != UINT64_MAX;
		*ret_part = (struct gm_native_part){.form = GM_NATIVE_BUCKET,
		        .name = members[i].name,
		        .index = item ? (int64_t)index : -1,
		        .number = number};
		return true;
	}
	return false;
}
