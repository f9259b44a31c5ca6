/*
 * PyTorch's C++ objects and what they refer to.
 *
 * One scan finds every word that holds the address of a vtable of torch's libraries; where that word starts an
 * object that checks out (counts, fields), it is a vertex. A freed object does not: its counts are zero, or
 * the heap's own pointers lie over its first word.
 */
#include "holders/graph.h"

#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "holders/scan.h"

enum {
	MAX_NODE_BYTES = 64 * 1024,
	MAX_VECTOR_BYTES = 1 << 20,
	MAX_OBJECTS = 1 << 24,
};

const struct gm_class *gm_graph_class_at(struct gm_holders *graph, uint64_t object)
{
	uint64_t vtable;
	if (object == 0 || (object & 7) || !gm_image_try_u64(graph->image, object, &vtable))
		return NULL;
	return gm_classes_at(gm_torch_classes(graph->torch), vtable);
}

/* --- finding objects -------------------------------------------------------------------------------- */

/* The part of a library's data that is read-only after relocation, where vtables are: mapped without
 * execute permission behind the code. */
static bool vtable_range(
        struct gm_holders *graph, const char *prefix, struct gm_scan_range *ret_range)
{
	const struct gm_module *module = gm_symbols_find_module(graph->symbols, prefix);
	if (!module)
		return false;
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(graph->image, &count);
	bool code_seen = false, found = false;
	for (size_t i = 0; i < count; i++) {
		const struct gm_mapping *mapping = &mappings[i];
		if (mapping->start < module->start || mapping->end > module->end ||
		        strcmp(mapping->path, module->path) != 0)
			continue;
		if (mapping->flags & GM_MAPPING_EXEC) {
			code_seen = true;
		} else if (code_seen && (mapping->flags & GM_MAPPING_READ)) {
			if (!found)
				ret_range->first = mapping->start;
			ret_range->last = mapping->end - 1;
			found = true;
		}
	}
	return found;
}

static void add_object(struct gm_holders *graph, uint64_t address, const struct gm_class *class)
{
	if (class->kind == GM_CLASS_STORAGE) {
		struct gm_storage storage;
		if (gm_torch_storage(graph->torch, address, &storage)) {
			if (!gm_array_push(&graph->storages, storage))
				graph->no_memory = true;
			gm_graph_add(graph, address, GM_VERTEX_STORAGE,
			        (uint32_t)(graph->storages.count - 1));
		}
	} else if (class->kind == GM_CLASS_TENSOR) {
		struct gm_tensor tensor;
		if (gm_torch_tensor(graph->torch, address, &tensor)) {
			if (!gm_array_push(&graph->tensors, tensor))
				graph->no_memory = true;
			gm_graph_add(graph, address, GM_VERTEX_TENSOR,
			        (uint32_t)(graph->tensors.count - 1));
		}
	} else if (class->kind == GM_CLASS_NODE) {
		struct gm_node node;
		if (gm_torch_node(graph->torch, address, &node)) {
			if (!gm_array_push(&graph->nodes, node))
				graph->no_memory = true;
			gm_graph_add(
			        graph, address, GM_VERTEX_NODE, (uint32_t)(graph->nodes.count - 1));
		}
	}
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct gm_error *gm_graph_scan(struct gm_holders *graph, struct gm_scan_result *ret_hits)
{
	double start = seconds();
	static const char *const libraries[] = {
	        "libc10.so", "libtorch_cpu.so", "libtorch_python.so", "libtorch_cuda.so"};
	struct gm_scan_options options = {0};
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (vtable_range(graph, libraries[i], &options.ranges[options.range_count]))
			options.range_count++;
	gm_try(gm_scan(graph->image, &options, ret_hits));
	graph->cost.bytes_scanned = ret_hits->bytes;
	graph->cost.bytes_unread = ret_hits->unread;
	graph->hits_truncated |= ret_hits->truncated;
	graph->cost.scan_seconds = seconds() - start;
	return NULL;
}

static void add_objects(struct gm_holders *graph, const struct gm_scan_result *hits)
{
	for (size_t i = 0; i < hits->count && !graph->no_memory; i++) {
		if (hits->hits[i].value & 7)
			continue;
		const struct gm_class *class =
		        gm_classes_at(gm_torch_classes(graph->torch), hits->hits[i].value);
		if (class && class->kind > GM_CLASS_OTHER && graph->vertices.count < MAX_OBJECTS)
			add_object(graph, hits->hits[i].address, class);
	}
}

/* --- references ------------------------------------------------------------------------------------ */

/* A Python object that wraps a native one: both point at each other; who owns a count of whom is by version. */
static void refer_wrapper(struct gm_holders *graph, uint32_t native, uint64_t python,
        bool python_holds, bool holds_python, size_t cdata)
{
	uint64_t back;
	if (python == 0 || !gm_image_try_u64(graph->image, python + cdata, &back) ||
	        back != graph->vertices.items[native].address)
		return;
	uint32_t wrapper = gm_graph_add(graph, python, GM_VERTEX_PYTHON, 0);
	if (wrapper == GM_NO_VERTEX)
		return;
	graph->vertices.items[wrapper].flags |= GM_VERTEX_WRAPPER;
	if (python_holds)
		gm_graph_refer(graph, wrapper, native, GM_REF_WRAPPER, 0, python + cdata);
	if (holds_python)
		gm_graph_refer(graph, native, wrapper, GM_REF_WRAPPED, 0, 0);
}

/* A Python object that a C++ object owns: a vertex even where Python's collector does not know it. */
static void refer_python(
        struct gm_holders *graph, uint32_t from, uint64_t word, enum gm_reference kind)
{
	uint64_t object;
	if (word != 0 && gm_image_try_u64(graph->image, word, &object) && object != 0 &&
	        (object & 7) == 0 && graph->python)
		gm_graph_refer(graph, from, gm_graph_add(graph, object, GM_VERTEX_PYTHON, 0), kind,
		        0, word);
}

static void refer_tensor(struct gm_holders *graph, uint32_t number, const struct gm_tensor *tensor)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	gm_graph_refer(graph, number, gm_graph_find(graph, tensor->storage), GM_REF_STORAGE, 0,
	        tensor->address + layout->tensor.storage);
	refer_wrapper(graph, number, tensor->python, tensor->python_holds, tensor->holds_python,
	        layout->python.tensor_cdata + (layout->python.tensor_maybe_owned ? 8u : 0u));
	if (tensor->python && graph->python) {
		uint32_t wrapper = gm_graph_find(graph, tensor->python);
		refer_python(
		        graph, wrapper, tensor->python + layout->python.tensor_hooks, GM_REF_HOOK);
		refer_python(graph, wrapper, tensor->python + layout->python.tensor_post_hooks,
		        GM_REF_HOOK);
	}
	uint64_t meta = tensor->autograd_meta;
	if (meta == 0)
		return;
	gm_graph_refer(graph, number, gm_graph_find(graph, tensor->grad), GM_REF_GRAD, 0,
	        meta + layout->meta.grad);
	gm_graph_refer(graph, number, gm_graph_find(graph, tensor->grad_fn), GM_REF_GRAD_FN, 0,
	        meta + layout->meta.grad_fn);
	const struct gm_class *class = gm_graph_class_at(graph, meta);
	uint8_t set;
	uint64_t base;
	if (!class || !class->view_meta)
		return;
	const uint16_t views[][2] = {{layout->meta.view_backward, layout->meta.view_backward_set},
	        {layout->meta.view_forward, layout->meta.view_forward_set}};
	for (size_t i = 0; i < 2; i++)
		if (gm_image_try_read(graph->image, meta + views[i][1], &set, 1) && set == 1 &&
		        gm_image_try_u64(graph->image, meta + views[i][0], &base))
			gm_graph_refer(graph, number, gm_graph_find(graph, base), GM_REF_VIEW_BASE,
			        0, meta + views[i][0]);
}

/* How many bytes the piece of heap that begins here has, by the heap's own size word before it (glibc,
 * malloc/malloc.c: mchunk_size, low three bits flags); 0: that is no such word. */
static size_t heap_bytes(struct gm_holders *graph, uint64_t address)
{
	uint64_t chunk;
	if (!gm_image_try_u64(graph->image, address - 8, &chunk))
		return 0;
	chunk &= ~UINT64_C(7);
	return chunk % 16 == 0 && chunk >= 32 ? chunk - 8 : 0;
}

/* How much memory a node has; where the heap does not tell, the base class and a little. */
static size_t node_bytes(struct gm_holders *graph, uint64_t node)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	size_t bytes = heap_bytes(graph, node);
	return bytes >= layout->node.size_of && bytes <= MAX_NODE_BYTES
	               ? bytes
	               : layout->node.size_of + 512u;
}

/* Three ascending words are a vector (begin, end, end of storage) only if a piece of heap begins at the
 * first and is as large as the third says: any three pointers ascend often enough. */
static bool is_vector(struct gm_holders *graph, const uint64_t words[3], size_t item)
{
	if (words[0] < 0x10000 || (words[0] & 15) || words[0] >= words[1] || words[1] > words[2] ||
	        (words[1] - words[0]) % item != 0 || (words[2] - words[0]) % item != 0)
		return false;
	size_t storage = words[2] - words[0], bytes = heap_bytes(graph, words[0]);
	return bytes >= storage && bytes - storage < 32;
}

/* saved_tensors_hooks: SavedVariable keeps a hooks object, which owns two Python objects (2.4 to 2.11:
 * torch/csrc/autograd/python_saved_variable_hooks.h: unpack_hook_, data_). */
static void refer_hooks_object(struct gm_holders *graph, uint32_t from, uint64_t hooks)
{
	const struct gm_class *class = gm_graph_class_at(graph, hooks);
	if (class && strcmp(class->linkage_name, "N5torch8autograd20PySavedVariableHooksE") == 0) {
		refer_python(graph, from, hooks + 8, GM_REF_SAVED);
		refer_python(graph, from, hooks + 16, GM_REF_SAVED);
	}
}

/* Words of a node's own memory, or of a vector that it owns. A std::shared_ptr<Node> cannot be told from a
 * std::weak_ptr, so nodes count only where the class is known to own one (CopySlices). */
static void refer_words(struct gm_holders *graph, uint32_t from, uint64_t address,
        const uint64_t *words, size_t count, enum gm_reference kind, bool owns_nodes)
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
		if (target == GM_VERTEX_TENSOR) {
			gm_graph_refer(graph, from, to, kind, 0, address + i * 8);
		} else if (target == GM_VERTEX_NODE && owns_nodes) {
			gm_graph_refer(graph, from, to, GM_REF_NEXT, 0, address + i * 8);
		}
	}
}

/* Reads [first, last) and refers its words; a std::vector's memory. */
static void refer_vector(struct gm_holders *graph, uint32_t from, uint64_t first, uint64_t last,
        enum gm_reference kind)
{
	size_t size = last - first;
	if (last <= first || size > MAX_VECTOR_BYTES || size % 8 != 0 || (first & 7))
		return;
	_cleanup_free_ uint64_t *words = malloc(size);
	if (words && gm_image_try_read(graph->image, first, words, size))
		refer_words(graph, from, first, words, size / 8, kind, false);
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
		if (variable >= start && variable + 8 <= size)
			refer_words(graph, number, node->address + variable,
			        words + (variable - start) / 8, 1, GM_REF_ACCUMULATE, false);
		return;
	}
	/* the heap hands out sizes of 8 above a multiple of 16: the last word may be behind the node's end and hold
	 * what was there before; a SavedVariable is longer than a word */
	count--;
	refer_words(graph, number, node->address + start, words, count, GM_REF_SAVED,
	        strcmp(gm_class_name(node->class), "CopySlices") == 0);
	/* vectors of SavedVariable (torch.cat, torch.stack, C++ autograd functions) */
	for (size_t i = 0; i + 2 < count; i++)
		if (is_vector(graph, &words[i], layout->saved.size_of))
			refer_vector(graph, number, words[i], words[i + 1], GM_REF_SAVED);
}

static void refer_node(struct gm_holders *graph, uint32_t number, const struct gm_node *node)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	for (uint32_t i = 0; i < node->edge_count; i++) {
		uint64_t word = node->edges + (uint64_t)i * layout->node.edge_size, next;
		if (!gm_image_try_u64(graph->image, word, &next))
			break;
		gm_graph_refer(graph, number, gm_graph_find(graph, next), GM_REF_NEXT, i, word);
	}
	refer_node_members(graph, number, node);
	if (node->python_object != 0 && graph->python) {
		uint64_t bounds[2], context = node->python_object;
		refer_python(
		        graph, number, node->address + layout->node.python_object, GM_REF_CONTEXT);
		uint32_t object = gm_graph_find(graph, context);
		if (gm_image_try_read(graph->image, context + layout->python.pyfunction_saved,
		            bounds, sizeof(bounds)) &&
		        bounds[0] < bounds[1] &&
		        (bounds[1] - bounds[0]) % layout->saved.size_of == 0)
			refer_vector(graph, object, bounds[0], bounds[1], GM_REF_CONTEXT_SAVED);
	}
	/* the Python object that `tensor.grad_fn` gave out; the node knows it without owning it */
	uint64_t object, back;
	if (graph->python &&
	        gm_image_try_u64(graph->image, node->address + layout->node.python, &object) &&
	        object != 0 && object != node->python_object &&
	        gm_image_try_u64(graph->image, object + layout->python.function_cdata, &back) &&
	        back == node->address)
		gm_graph_refer(graph, gm_graph_add(graph, object, GM_VERTEX_PYTHON, 0), number,
		        GM_REF_NODE_OBJECT, 0, object + layout->python.function_cdata);
}

static void refer_all(struct gm_holders *graph)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	for (size_t i = 0; i < graph->storages.count; i++) {
		const struct gm_storage *storage = &graph->storages.items[i];
		refer_wrapper(graph, gm_graph_find(graph, storage->address), storage->python,
		        storage->python_holds, storage->holds_python, layout->python.storage_cdata);
	}
	for (size_t i = 0; i < graph->tensors.count; i++)
		refer_tensor(graph, gm_graph_find(graph, graph->tensors.items[i].address),
		        &graph->tensors.items[i]);
	for (size_t i = 0; i < graph->nodes.count; i++)
		refer_node(graph, gm_graph_find(graph, graph->nodes.items[i].address),
		        &graph->nodes.items[i]);
}

struct gm_error *gm_graph_add_native(struct gm_holders *graph, const struct gm_scan_result *hits)
{
	add_objects(graph, hits);
	refer_all(graph);
	return graph->no_memory ? &gm_error_no_memory : NULL;
}
