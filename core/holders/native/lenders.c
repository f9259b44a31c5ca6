/*
 * External owners of tensor memory: the object that a storage's deleter keeps until the memory is
 * released, and the tensors in DLPack's capsules.
 *
 * A storage that at::from_blob() made over external memory has a c10::InefficientStdFunctionContext
 * behind its DataPtr, whose std::function keeps the owner (here called lender): a numpy array, a
 * DLManagedTensor, a tensor. (2.4 to 2.11: c10/core/Allocator.h; libstdc++ <bits/std_function.h>.)
 */
#include "holders/native/lenders.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/graph/graph.h"
#include "holders/heap/heap.h"
#include "holders/native/nodes.h"
#include "holders/native/object.h"
#include "holders/native/reducer.h"
#include "torch/members.h"

enum {
	MAX_CAPTURED = 256,
	PAGE = 4096,
};

static bool refer_tensor_at(struct gm_holders *graph, uint32_t from, uint64_t word)
{
	uint64_t address;
	if (!gm_image_try_u64(graph->image, word, &address))
		return false;
	uint32_t to = gm_graph_find(graph, address);
	if (to == GM_NO_VERTEX || graph->vertices.items[to].kind != GM_VERTEX_TENSOR)
		return false;
	if (!gm_map_find(&graph->typed_words, word))
		gm_graph_refer(graph, from, to, GM_REF_MEMORY_OWNER, 0, word);
	return true;
}

static bool refer_object_at(struct gm_holders *graph, uint32_t from, uint64_t word)
{
	uint64_t object;
	const char *type;
	if (!graph->python || !gm_image_try_u64(graph->image, word, &object) || (object & 7) ||
	        object < 0x10000 || !gm_python_type_name(graph->python, object, &type))
		return false;
	if (!gm_map_find(&graph->typed_words, word))
		gm_graph_refer_python(graph, from, word, GM_REF_MEMORY_OWNER);
	return true;
}

/* The owner in a DLManagedTensor: PyTorch's struct begins with the tensor (ATen/DLConvertor.cpp:
 * ATenDLMTensor.handle), numpy's is the array itself (numpy/core/src/multiarray/dlpack.c). */
static bool refer_managed(
        struct gm_holders *graph, uint32_t from, uint64_t managed, uint64_t context_at)
{
	uint64_t words[2]; /* manager_ctx, deleter: consecutive in both structs */
	if (managed < 0x10000 || (managed & 7) ||
	        !gm_image_try_read(graph->image, managed + context_at, words, sizeof(words)) ||
	        words[0] < 0x10000 || (words[0] & 7) || !gm_is_code(graph, words[1]))
		return false;
	return refer_tensor_at(graph, from, words[0]) ||
	       refer_object_at(graph, from, managed + context_at);
}

/* The captured values of a std::function: in its own two words, or on the heap if they are larger.
 * */
static void refer_captured(struct gm_holders *graph, uint32_t from, uint64_t function)
{
	uint64_t words[4]; /* two words of the functor, then manager and invoker */
	if (!gm_image_try_read(graph->image, function, words, sizeof(words)) ||
	        !gm_is_code(graph, words[2]) || !gm_is_code(graph, words[3]))
		return;
	if (refer_managed(graph, from, words[0], GM_DLPACK_CONTEXT) ||
	        refer_managed(graph, from, words[0], GM_DLPACK_VERSIONED_CONTEXT) ||
	        refer_object_at(graph, from, function) || (words[0] & 15))
		return;
	size_t size = gm_heap_bytes(graph, words[0]) & ~(size_t)7;
	for (size_t at = 0; size <= MAX_CAPTURED && at < size; at += 8)
		(void)refer_tensor_at(graph, from, words[0] + at);
}

void gm_graph_refer_memory_owner(
        struct gm_holders *graph, uint32_t number, const struct gm_storage *storage)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	/* A heap chunk may be one step larger than requested: a remainder that is too small for a
	 * chunk stays part of it. */
	enum { STEP = 16 };
	uint64_t context, first;
	/* a std::unique_ptr<void, deleter>: libstdc++ stores the deleter first */
	if (!layout->storage.context || layout->lender.size_of == 0 ||
	        !gm_image_try_u64(
	                graph->image, storage->address + layout->storage.context + 8, &context) ||
	        context == storage->data || context < 0x10000 || (context & 15) ||
	        gm_heap_bytes(graph, context) < layout->lender.size_of ||
	        gm_heap_bytes(graph, context) > layout->lender.size_of + (size_t)STEP ||
	        !gm_image_try_u64(graph->image, context, &first) || first != storage->data)
		return;
	refer_captured(graph, number, context + layout->lender.function);
}

/* --- capsules --------------------------------------------------------------------------------- */

static void refer_capsule(struct gm_holders *graph, uint32_t number, uint64_t address)
{
	uint64_t managed;
	char name[32];
	if (!gm_python_capsule(graph->python, address, &managed, name, sizeof(name)))
		return;
	/* the consumer of the tensor renames the capsule to "used_dltensor" */
	if (strcmp(name, "dltensor") == 0 || strcmp(name, "numpy_dltensor") == 0)
		(void)refer_managed(graph, number, managed, GM_DLPACK_CONTEXT);
	else if (strcmp(name, "dltensor_versioned") == 0 ||
	         strcmp(name, "numpy_dltensor_versioned") == 0)
		(void)refer_managed(graph, number, managed, GM_DLPACK_VERSIONED_CONTEXT);
}

/* Objects that the collector does not track and that own references which Python does not know. */
const char *const gm_graph_special_types[] = {"PyCapsule", "Reducer", "SavedTensor", NULL};
enum owner { OTHER, CAPSULE, REDUCER, SAVED_TENSOR };

/* The external references of an object of this type; `known` caches types. */
static enum owner owner_of(
        struct gm_holders *graph, struct gm_map *known, uint64_t type, uint64_t object)
{
	const char *name;
	uint64_t *slot = gm_map_find(known, type);
	if (slot)
		return (enum owner) * slot;
	enum owner owner = OTHER;
	if (gm_python_type_name(graph->python, object, &name))
		owner = strcmp(name, "PyCapsule") == 0     ? CAPSULE
		        : strcmp(name, "Reducer") == 0     ? REDUCER
		        : strcmp(name, "SavedTensor") == 0 ? SAVED_TENSOR
		                                           : OTHER;
	slot = gm_map_put(known, type, NULL);
	if (slot)
		*slot = owner;
	return owner;
}

void gm_graph_refer_untracked(struct gm_holders *graph)
{
	struct gm_map known = {0};
	unsigned char page[PAGE];
	uint64_t page_at = UINT64_MAX, type;
	for (size_t i = 0; i < graph->untracked.count && !graph->no_memory; i++) {
		struct gm_graph_object object = graph->untracked.items[i];
		uint64_t at = object.address + 8, start = at & ~(uint64_t)(PAGE - 1);
		/* mostly in ascending order, so each page is read once */
		if (start != page_at && !gm_image_try_read(graph->image, start, page, sizeof(page)))
			continue;
		page_at = start;
		memcpy(&type, page + (at - start), sizeof(type));
		enum owner owner = type ? owner_of(graph, &known, type, object.address) : OTHER;
		if (owner == CAPSULE)
			refer_capsule(graph, object.number, object.address);
		else if (owner == REDUCER)
			gm_graph_refer_reducer(graph, object.number, object.address);
		else if (owner == SAVED_TENSOR)
			gm_graph_refer_saved_tensor(graph, object.number, object.address);
	}
	gm_map_deinit(&known);
}
