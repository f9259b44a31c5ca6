/*
 * The buckets of DistributedDataParallel, within its Reducer (torch/csrc/distributed/c10d/reducer.hpp, 2.4 to 2.11): a
 * std::vector of Reducer::Bucket, whose first members are `at::Tensor gradients` and three vectors of tensors.
 */
#include <stdio.h>

#include "holders/graph.h"
#include "holders/stray.h"

enum {
	BUCKET_BYTES = 216,
	REDUCER_WORDS = 256, /* in which the vector is sought */
};

static const struct {
	uint32_t offset;
	bool vector;
	const char *name;
} members[] = {
        {0, false, "gradients"},
        {8, true, "bucket_views_in"},
        {32, true, "bucket_views_out"},
        {56, true, "variables"},
        {184, false, "future_work"},
        {200, false, "sparse_tensor_indices"},
};

/* The end of the vector that begins at `buckets`; 0: the Reducer has none. */
static uint64_t end_of(struct gm_holders *graph, uint64_t reducer, uint64_t buckets)
{
	uint64_t words[REDUCER_WORDS];
	size_t got = gm_image_read_some(graph->image, reducer, words, sizeof(words)) / 8;
	for (size_t i = 0; i + 2 < got; i++)
		if (words[i] == buckets && gm_is_vector(graph, &words[i], BUCKET_BYTES))
			return words[i + 1];
	return 0;
}

char *gm_bucket_text(
        struct gm_holders *graph, uint64_t reducer, uint64_t buckets, uint64_t word, uint64_t index)
{
	char *text = NULL;
	if (word < buckets || word >= end_of(graph, reducer, buckets))
		return NULL;
	uint64_t number = (word - buckets) / BUCKET_BYTES, offset = (word - buckets) % BUCKET_BYTES;
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]) && !text; i++) {
		if (members[i].offset != offset)
			continue;
		int made = members[i].vector && index != UINT64_MAX
		                   ? asprintf(&text, "%s[%ju] of DDP's bucket %ju", members[i].name,
		                             (uintmax_t)index, (uintmax_t)number)
		                   : asprintf(&text, "%s of DDP's bucket %ju", members[i].name,
		                             (uintmax_t)number);
		if (made < 0)
			return NULL;
	}
	return text;
}
