/*
 * The references of the nodes of the autograd graph: saved tensors, next nodes, contexts of Python
 * functions, hooks and metadata.
 */
#include "holders/native/nodes.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/graph/graph.h"
#include "holders/heap/heap.h"
#include "holders/native/hooks.h"
#include "holders/native/object.h"
#include "torch/members.h"
#include "torch/names.h"
#include "torch/readers.h"
#include "torch/slots.h"

enum {
	MAX_NODE_BYTES = 64 * 1024,
	MAX_VECTOR_BYTES = 1 << 20,
};

/* The size of a node; if the heap does not show it, the size of the base class and a little more.
 * */
static size_t node_bytes(struct gm_holders *graph, uint64_t node)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	size_t bytes = gm_heap_bytes(graph, node);
	return bytes >= layout->node.size_of && bytes <= MAX_NODE_BYTES
	               ? bytes
	               : layout->node.size_of + 512u;
}

/* saved_tensors_hooks: SavedVariable has a hooks object, which owns three Python objects. */
static void refer_hooks_object(struct gm_holders *graph, uint32_t from, uint64_t hooks)
{
	const struct gm_class *class = gm_graph_class_at(graph, hooks);
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	if (!class || strcmp(class->linkage_name, GM_TORCH_SAVED_HOOKS_CLASS) != 0)
		return;
	const uint16_t fields[] = {
	        layout->hooks.saved_pack, layout->hooks.saved_unpack, layout->hooks.saved_data};
	size_t size = gm_heap_bytes(graph, hooks);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (fields[i] && fields[i] + 8u <= size)
			gm_graph_refer_python_by(
			        graph, from, hooks + fields[i], GM_REF_SAVED, fields[i]);
}

/* Where in a node the words are, for the references to tensors (the `extra` of GM_REF_SAVED). */
struct place {
	enum gm_reference kind;
	uint32_t offset;
	bool owns_nodes;
	/* 0: any word may be a tensor's. Otherwise only the first word of each such element is one
	 * (SavedVariable::data_). The other words are not: a weak pointer may point where a node
	 * was and where a tensor is now. */
	uint16_t stride;
	/* The node if this is its own memory; NULL if it is not, or if any word counts. */
	const struct gm_class *class;
};

/* Words in a node's own memory, or in a vector that it owns. A std::shared_ptr<Node> cannot be told
 * from a std::weak_ptr, so references to nodes count only for a class that is known to own one
 * (CopySlices). */
static void refer_words(struct gm_holders *graph, uint32_t from, uint64_t address,
        const uint64_t *words, size_t count, const struct place *place)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t word = words[i];
		if (word < 0x10000 || (word & 7) || word >= UINT64_C(1) << 47)
			continue;
		uint32_t to = gm_graph_find(graph, word);
		if (to == GM_NO_VERTEX) {
			refer_hooks_object(graph, from, word);
			continue;
		}
		uint8_t target = graph->vertices.items[to].kind;
		if (target == GM_VERTEX_TENSOR && place->stride && i * 8 % place->stride != 0)
			continue;
		if (target == GM_VERTEX_TENSOR && place->class &&
		        !gm_torch_may_save_at(
		                graph->torch, place->class, place->offset + (uint32_t)i * 8))
			continue;
		if (target == GM_VERTEX_TENSOR) {
			uint32_t offset = place->offset;
			if (offset != GM_SAVED_NOWHERE && !(offset & GM_SAVED_IN_VECTOR))
				offset += (uint32_t)i * 8;
			gm_graph_refer(graph, from, to, place->kind, offset, address + i * 8);
		} else if (target == GM_VERTEX_NODE && place->owns_nodes) {
			gm_graph_refer(graph, from, to, GM_REF_NEXT, 0, address + i * 8);
		}
	}
}

/* Reads [first, last), the node's memory or that of a std::vector, and adds references for its
 * words. */
static void refer_vector(struct gm_holders *graph, uint32_t from, uint64_t first, uint64_t last,
        const struct place *place)
{
	size_t size = last - first;
	if (last <= first || size > MAX_VECTOR_BYTES || size % 8 != 0 || (first & 7))
		return;
	_cleanup_free_ uint64_t *words = malloc(size);
	if (words && gm_image_try_read(graph->image, first, words, size))
		refer_words(graph, from, first, words, size / 8, place);
}

static void refer_node_members(
        struct gm_holders *graph, uint32_t number, const struct gm_node *node)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	size_t size = node_bytes(graph, node->address) & ~(size_t)7;
	size_t start = layout->node.size_of;
	_cleanup_free_ unsigned char *bytes = malloc(size);
	if (!bytes)
		return;
	size = gm_image_read_some(graph->image, node->address, bytes, size) & ~(size_t)7;
	if (size <= start)
		return;
	const uint64_t *words = (const uint64_t *)(bytes + start);
	size_t count = (size - start) / 8, variable = layout->node.accumulate_variable;
	if (node->class->accumulate_grad) {
		const struct place place = {GM_REF_ACCUMULATE, GM_SAVED_NOWHERE, false, 0, NULL};
		if (variable >= start && variable + 8 <= size)
			refer_words(graph, number, node->address + variable,
			        words + (variable - start) / 8, 1, &place);
		return;
	}
	/* chunk sizes are 8 above a multiple of 16: the last word may be after the node's end and
	 * stale; a SavedVariable is longer than a word */
	count--;
	const struct place here = {GM_REF_SAVED, (uint32_t)start,
	        strcmp(gm_class_name(node->class), "CopySlices") == 0, 0, node->class};
	refer_words(graph, number, node->address + start, words, count, &here);
	/* vectors of SavedVariable (torch.cat, torch.stack, C++ autograd functions) */
	for (size_t i = 0; i + 2 < count; i++) {
		const struct place vector = {GM_REF_SAVED,
		        GM_SAVED_IN_VECTOR | (uint32_t)(start + i * 8), false,
		        layout->saved.size_of, NULL};
		if (gm_is_vector(graph, &words[i], layout->saved.size_of))
			refer_vector(graph, number, words[i], words[i + 1], &vector);
	}
}

/*
 * torch._C._autograd.SavedTensor (2.15), in which a checkpoint stores its inputs, is a pybind11
 * instance that points to a SavedVariable.
 */
void gm_graph_refer_saved_tensor(struct gm_holders *graph, uint32_t from, uint64_t instance)
{
	uint16_t size = gm_torch_layout_of(graph->torch)->saved.size_of;
	const struct place saved = {GM_REF_CONTEXT_SAVED, GM_SAVED_NOWHERE, false, size, NULL};
	uint64_t address;
	if (gm_image_try_u64(graph->image, instance + GM_PYBIND_POINTER, &address) &&
	        gm_heap_bytes(graph, address) >= size)
		refer_vector(graph, from, address, address + size, &saved);
}

/* A node with counts, and its Python object, which point at each other. Which of them owns the
 * other was read with the node. */
static void refer_python(
        struct gm_holders *graph, uint32_t number, const struct gm_node *node, uint16_t cdata)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	uint64_t back, word = node->python + cdata;
	if (node->python == 0 || !gm_image_try_u64(graph->image, word, &back) ||
	        back != node->address)
		return;
	uint32_t python = gm_graph_add(graph, node->python, GM_VERTEX_PYTHON, 0);
	if (node->python_holds)
		gm_graph_refer(graph, python, number, GM_REF_NODE_OBJECT, 0, word);
	if (node->holds_python)
		gm_graph_refer(graph, number, python, GM_REF_CONTEXT, 0,
		        node->address + layout->node.python);
}

void gm_graph_refer_node(struct gm_holders *graph, uint32_t number, const struct gm_node *node)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	for (uint32_t i = 0; i < node->edge_count; i++) {
		uint64_t word = node->edges + (uint64_t)i * layout->node.edge_size, next;
		if (!gm_image_try_u64(graph->image, word, &next))
			break;
		gm_graph_refer(graph, number, gm_graph_find(graph, next), GM_REF_NEXT, i, word);
	}
	refer_node_members(graph, number, node);
	gm_graph_refer_hooks(graph, number, node->address, layout->node.size_of);
	if (node->python_object != 0 && graph->python) {
		const struct place saved = {
		        GM_REF_CONTEXT_SAVED, GM_SAVED_NOWHERE, false, layout->saved.size_of, NULL};
		uint64_t bounds[2], context = node->python_object;
		if (layout->node.python_object)
			gm_graph_refer_python(graph, number,
			        node->address + layout->node.python_object, GM_REF_CONTEXT);
		else
			refer_python(graph, number, node, layout->python.pyfunction_cdata);
		uint32_t object = gm_graph_find(graph, context);
		if (gm_image_try_read(graph->image, context + layout->python.pyfunction_saved,
		            bounds, sizeof(bounds)) &&
		        bounds[0] < bounds[1] &&
		        (bounds[1] - bounds[0]) % layout->saved.size_of == 0)
			refer_vector(graph, object, bounds[0], bounds[1], &saved);
	}
	/* the Python object that `tensor.grad_fn` returned; until 2.12 the node has a pointer to it
	 * but does not own it */
	uint64_t object, back;
	if (layout->node.counts && graph->python && node->python_object == 0)
		refer_python(graph, number, node, layout->python.function_cdata);
	else if (graph->python &&
	         gm_image_try_u64(graph->image, node->address + layout->node.python, &object) &&
	         object != 0 && object != node->python_object &&
	         gm_image_try_u64(graph->image, object + layout->python.function_cdata, &back) &&
	         back == node->address)
		gm_graph_refer(graph, gm_graph_add(graph, object, GM_VERTEX_PYTHON, 0), number,
		        GM_REF_NODE_OBJECT, 0, object + layout->python.function_cdata);
}
