/*
 * The buckets in which DistributedDataParallel collects gradients, as references of its Reducer's
 * Python object.
 *
 * c10d::Reducer (torch/csrc/distributed/c10d/reducer.hpp) has no vtable. Its Python object is a
 * pybind11 instance, which points to it. It begins with a mutex and then `std::vector<at::Tensor>
 * params_`; the contents of that vector confirm the type. After it, at an offset that depends on
 * the version, is `std::vector<Bucket> buckets_`. A Bucket begins with the flat tensor `gradients`,
 * and then has vectors: bucket_views_in, bucket_views_out, variables; further on is the future of
 * its all-reduce. The bucket owns all of these. References to the model's parameters, which the
 * Reducer holds as well, are added by promote.c, which has better names for them.
 */
#include "holders/native/reducer.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/graph/graph.h"
#include "holders/heap/heap.h"
#include "holders/native/object.h"
#include "torch/members.h"

enum {
	LARGEST_REDUCER = 4096,
	MAX_WORDS = 1 << 20, /* most items of one vector: the number of parameters */
	BUCKET_VECTORS = 3,
	FUTURE_WORDS = 32,
	BUCKET_VECTORS_FROM = 8,
};

static uint32_t tensor_at(struct gm_holders *graph, uint64_t address)
{
	uint32_t vertex = address ? gm_graph_find(graph, address) : (uint32_t)GM_NO_VERTEX;
	return vertex != GM_NO_VERTEX && graph->vertices.items[vertex].kind == GM_VERTEX_TENSOR
	               ? vertex
	               : (uint32_t)GM_NO_VERTEX;
}

/* The words of a vector; NULL if this is not a vector, or it is empty or too large. */
static uint64_t *vector_words(struct gm_holders *graph, const uint64_t bounds[3], size_t *ret_count)
{
	if (!gm_is_vector(graph, bounds, sizeof(uint64_t)) ||
	        bounds[1] - bounds[0] > MAX_WORDS * sizeof(uint64_t))
		return NULL;
	size_t size = (size_t)(bounds[1] - bounds[0]);
	uint64_t *words = malloc(size);
	if (words && gm_image_try_read(graph->image, bounds[0], words, size)) {
		*ret_count = size / sizeof(uint64_t);
		return words;
	}
	free(words);
	return NULL;
}

static bool all_tensors(struct gm_holders *graph, const uint64_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (tensor_at(graph, words[i]) == GM_NO_VERTEX)
			return false;
	return count > 0;
}

static bool is_vector_of_tensors(struct gm_holders *graph, const uint64_t bounds[3])
{
	size_t count;
	_cleanup_free_ uint64_t *words = vector_words(graph, bounds, &count);
	return words && all_tensors(graph, words, count);
}

/* A field of a bucket. */
static struct gm_native_part field_of(unsigned bucket, const char *name)
{
	return (struct gm_native_part){
	        .form = GM_NATIVE_BUCKET, .name = name, .index = -1, .number = bucket};
}

static void refer(struct gm_holders *graph, uint32_t from, uint64_t tensor, uint64_t word,
        struct gm_native_part field)
{
	uint32_t to = tensor_at(graph, tensor);
	if (to == GM_NO_VERTEX)
		return;
	_cleanup_owner_ struct gm_native_owner *owner = gm_native_owner_create(field);
	gm_graph_refer_native(graph, from, 0, to, word, "native_heap", owner, false);
}

/* The items of a field, in the same way as in buckets.c. */
static void refer_tensors(struct gm_holders *graph, uint32_t from, const uint64_t *words,
        size_t count, uint64_t address, struct gm_native_part field)
{
	for (size_t i = 0; i < count; i++) {
		field.index = (int64_t)i;
		refer(graph, from, words[i], address + 8 * i, field);
	}
}

static void refer_vector(struct gm_holders *graph, uint32_t from, const uint64_t bounds[3],
        struct gm_native_part field)
{
	size_t count;
	_cleanup_free_ uint64_t *words = vector_words(graph, bounds, &count);
	if (words && all_tensors(graph, words, count))
		refer_tensors(graph, from, words, count, bounds[0], field);
}

/* gradients, then three vectors; the second one is empty if gradients are not views of the bucket
 * */
static bool is_bucket(struct gm_holders *graph, const uint64_t *words, size_t left)
{
	return left >= 1 + 3 * BUCKET_VECTORS && tensor_at(graph, words[0]) != GM_NO_VERTEX &&
	       is_vector_of_tensors(graph, words + 1 + 3 * (BUCKET_VECTORS - 1));
}

static bool is_class(struct gm_holders *graph, uint64_t object, const char *name)
{
	const struct gm_class *class =
	        object && (object & 7) == 0 ? gm_graph_class_at(graph, object) : NULL;
	return class && strcmp(gm_class_name(class), name) == 0;
}

/* A list of tensors: a vector of IValues. */
static void refer_list(
        struct gm_holders *graph, uint32_t from, uint64_t list, struct gm_native_part field)
{
	uint64_t bounds[3];
	if (!is_class(graph, list, "c10::detail::ListImpl") ||
	        !gm_image_try_read(
	                graph->image, list + GM_TORCH_LIST_ITEMS, bounds, sizeof(bounds)))
		return;
	size_t count;
	_cleanup_free_ uint64_t *words = vector_words(graph, bounds, &count);
	for (size_t i = 0; words && i + 1 < count; i += GM_TORCH_IVALUE_BYTES / 8)
		refer(graph, from, words[i], bounds[0] + 8 * i, field);
}

/* Bucket::future_work: the result of the all-reduce's future is a list with the bucket's own
 * tensor. */
static void refer_future(struct gm_holders *graph, uint32_t from, uint64_t future, unsigned bucket)
{
	uint64_t words[FUTURE_WORDS];
	if (!is_class(graph, future, "c10::ivalue::Future") ||
	        !gm_image_try_read(graph->image, future, words, sizeof(words)))
		return;
	for (size_t i = 0; i < FUTURE_WORDS; i++)
		refer_list(graph, from, words[i], field_of(bucket, "future_work"));
}

static void refer_buckets(
        struct gm_holders *graph, uint32_t from, const uint64_t *words, size_t count, uint64_t at)
{
	unsigned number = 0;
	for (size_t i = 0; i < count; i++) {
		if (!is_bucket(graph, words + i, count - i))
			continue;
		refer(graph, from, words[i], at + 8 * i, field_of(number, "gradients"));
		const uint64_t *vectors = words + i + BUCKET_VECTORS_FROM / 8;
		refer_vector(graph, from, vectors, field_of(number, "bucket_views_in"));
		refer_vector(graph, from, vectors + 3, field_of(number, "bucket_views_out"));
		i += 3 * BUCKET_VECTORS;
		for (size_t k = i + 1; k < count && !is_bucket(graph, words + k, count - k); k++)
			refer_future(graph, from, words[k], number);
		number++;
	}
}

/* The collector does not track a pybind11 instance: it comes after the tracked objects. */
void gm_graph_refer_reducer(struct gm_holders *graph, uint32_t from, uint64_t instance)
{
	uint64_t address;
	uint64_t words[LARGEST_REDUCER / 8];
	if (!gm_image_try_u64(graph->image, instance + GM_PYBIND_POINTER, &address))
		return;
	size_t size = gm_heap_bytes(graph, address);
	size_t parameters = gm_torch_layout_of(graph->torch)->reducer.parameters;
	if (parameters == 0 || size < parameters + 24 || size > LARGEST_REDUCER || address & 7 ||
	        !gm_image_try_read(graph->image, address, words, size & ~(size_t)7) ||
	        !is_vector_of_tensors(graph, words + parameters / 8))
		return;
	for (size_t i = parameters / 8; i + 3 <= size / 8; i++) {
		size_t count;
		_cleanup_free_ uint64_t *inner = vector_words(graph, words + i, &count);
		if (!inner)
			continue;
		if (!all_tensors(graph, inner, count) && is_bucket(graph, inner, count))
			refer_buckets(graph, from, inner, count, words[i]);
		i += 2;
	}
}
