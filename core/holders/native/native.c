/*
 * PyTorch's C++ objects and their references.
 *
 * One scan finds every word that holds the address of a vtable of torch's libraries. If an object
 * that passes the checks (counts, fields) begins at that word, it becomes a vertex. A freed object
 * does not pass: its counts are zero, or the heap's own pointers have overwritten its first word.
 */
#include "holders/native/native.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "holders/heap/scan.h"
#include "holders/graph/graph.h"
#include "holders/heap/heap.h"
#include "holders/native/hooks.h"
#include "holders/native/lenders.h"
#include "holders/native/nodes.h"
#include "holders/native/object.h"
#include "holders/native/tensor_parts.h"
#include "torch/members.h"
#include "torch/statics.h"

enum {
	MAX_OBJECTS = 1 << 24, /* of PyTorch's; Python's objects have a bound of their own */
};

/* --- finding objects -------------------------------------------------------------------------- */

/* The part of a library's data that is read-only after relocation, which contains the vtables. In a
 * library that was linked without such a part, they are somewhere after its code. */
static bool vtable_range(
        struct gm_holders *graph, const char *prefix, struct gm_scan_range *ret_range)
{
	const struct gm_module *module = gm_symbols_find_module(graph->symbols, prefix);
	if (!module)
		return false;
	if (module->relocated_end - module->relocated_start >= 8) {
		*ret_range =
		        (struct gm_scan_range){module->relocated_start, module->relocated_end - 8};
		return true;
	}
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

/* An array has an item for each vertex of its kind, and no others. */
#define ADD(graph, array, item, vertex)                                               \
	do {                                                                          \
		if (gm_graph_add(graph, address, vertex, (uint32_t)(array)->count) != \
		                GM_NO_VERTEX &&                                       \
		        !gm_array_push(array, item))                                  \
			(graph)->no_memory = true;                                    \
	} while (0)

static void add_object(struct gm_holders *graph, uint64_t address, const struct gm_class *class)
{
	if (class->kind == GM_CLASS_STORAGE) {
		struct gm_storage storage;
		if (gm_torch_storage(graph->torch, address, &storage))
			ADD(graph, &graph->storages, storage, GM_VERTEX_STORAGE);
	} else if (class->kind == GM_CLASS_TENSOR) {
		struct gm_tensor tensor;
		if (gm_torch_tensor(graph->torch, address, &tensor))
			ADD(graph, &graph->tensors, tensor, GM_VERTEX_TENSOR);
	} else if (class->kind == GM_CLASS_NODE) {
		struct gm_node node;
		if (gm_torch_node(graph->torch, address, &node))
			ADD(graph, &graph->nodes, node, GM_VERTEX_NODE);
	}
}

struct gm_error *gm_graph_scan(struct gm_holders *graph, const struct gm_scan_visitor *visitor,
        struct gm_scan_result *ret_hits)
{
	double start = gm_seconds();
	static const char *const libraries[] = {
	        "libc10.so", "libtorch_cpu.so", "libtorch_python.so", "libtorch_cuda.so"};
	struct gm_scan_options options = {.visitor = visitor};
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (vtable_range(graph, libraries[i], &options.ranges[options.range_count]))
			options.range_count++;
	gm_try(gm_scan(graph->image, &options, ret_hits));
	graph->cost.bytes_scanned = ret_hits->bytes + gm_image_pointer_free(graph->image);
	graph->cost.bytes_unread = ret_hits->unread;
	graph->hits_truncated |= ret_hits->truncated;
	graph->cost.scan_seconds = gm_seconds() - start;
	return NULL;
}

void gm_graph_meet_classes(struct gm_holders *graph, const struct gm_hit *hits, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!(hits[i].value & 7))
			gm_classes_at(gm_torch_classes(graph->torch), hits[i].value);
}

/* Memory of CPython's allocator can contain copies and remains of an object's bytes; the objects
 * themselves are allocated by operator new. */
static bool is_copy(struct gm_holders *graph, uint64_t address)
{
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, address);
	struct gm_pool_block block;
	return mapping && (!mapping->path[0] || !strncmp(mapping->path, "[anon", 5)) &&
	       gm_pool_block(graph, address, &block);
}

static void add_objects(struct gm_holders *graph, const struct gm_scan_result *hits)
{
	for (size_t i = 0; i < hits->count && !graph->no_memory; i++) {
		if (hits->hits[i].value & 7)
			continue;
		const struct gm_class *class =
		        gm_classes_at(gm_torch_classes(graph->torch), hits->hits[i].value);
		if (!class || class->kind <= GM_CLASS_OTHER ||
		        is_copy(graph, hits->hits[i].address))
			continue;
		if (graph->storages.count + graph->tensors.count + graph->nodes.count >=
		        MAX_OBJECTS) {
			graph->hits_truncated = true;
			break;
		}
		add_object(graph, hits->hits[i].address, class);
	}
}

/* --- references ------------------------------------------------------------------------------- */

/* A Python object that wraps a native one: each points at the other; which of them owns a reference
 * depends on the version. */
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

/*
 * ViewInfo's rev_view_fn_, a std::function, may hold a tensor in its captured values; these are on
 * the heap unless they are trivially copyable (libstdc++ <bits/std_function.h>).
 */
enum { MAX_CAPTURED = 256, MAX_CAPTURED_DEPTH = 16 };

/* For a view of a view, the function has captured the first view's function. */
static void refer_captured(
        struct gm_holders *graph, uint32_t from, uint64_t function, unsigned depth)
{
	uint64_t words[4], captured[MAX_CAPTURED / 8];
	if (!gm_image_try_read(graph->image, function, words, sizeof(words)) || words[2] == 0 ||
	        words[0] < 0x10000 || (words[0] & 15))
		return;
	size_t size = gm_heap_bytes(graph, words[0]) & ~(size_t)7;
	if (size > sizeof(captured) || !gm_image_try_read(graph->image, words[0], captured, size))
		return;
	for (size_t i = 0; i < size / 8; i++) {
		uint32_t to = captured[i] < 0x10000 || (captured[i] & 7)
		                      ? (uint32_t)GM_NO_VERTEX
		                      : gm_graph_find(graph, captured[i]);
		if (to != GM_NO_VERTEX && graph->vertices.items[to].kind == GM_VERTEX_TENSOR &&
		        !gm_map_find(&graph->typed_words, words[0] + i * 8))
			gm_graph_refer(graph, from, to, GM_REF_VIEW_BASE, 0, words[0] + i * 8);
		else if (depth < MAX_CAPTURED_DEPTH && i + 4 <= size / 8 &&
		         gm_is_code(graph, captured[i + 2]) && gm_is_code(graph, captured[i + 3]))
			refer_captured(graph, from, words[0] + i * 8, depth + 1);
	}
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
		gm_graph_refer_python(
		        graph, wrapper, tensor->python + layout->python.tensor_hooks, GM_REF_HOOK);
		gm_graph_refer_python(graph, wrapper,
		        tensor->python + layout->python.tensor_post_hooks, GM_REF_HOOK);
	}
	gm_graph_refer_parts(graph, number, tensor);
	uint64_t meta = tensor->autograd_meta;
	if (meta == 0)
		return;
	gm_graph_refer_hooks(graph, number, meta, layout->meta.size_of);
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
	for (size_t i = 0; i < 2; i++) {
		if (!gm_image_try_read(graph->image, meta + views[i][1], &set, 1) || set != 1 ||
		        !gm_image_try_u64(graph->image, meta + views[i][0], &base))
			continue;
		gm_graph_refer(graph, number, gm_graph_find(graph, base), GM_REF_VIEW_BASE, 0,
		        meta + views[i][0]);
		refer_captured(graph, number, meta + views[i][0] + GM_TORCH_VIEW_FUNCTION, 0);
	}
}

static void refer_all(struct gm_holders *graph)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	for (size_t i = 0; i < graph->storages.count; i++) {
		const struct gm_storage *storage = &graph->storages.items[i];
		refer_wrapper(graph, gm_graph_find(graph, storage->address), storage->python,
		        storage->python_holds, storage->holds_python, layout->python.storage_cdata);
		gm_graph_refer_memory_owner(graph, gm_graph_find(graph, storage->address), storage);
	}
	for (size_t i = 0; i < graph->tensors.count; i++)
		refer_tensor(graph, gm_graph_find(graph, graph->tensors.items[i].address),
		        &graph->tensors.items[i]);
	for (size_t i = 0; i < graph->nodes.count; i++)
		gm_graph_refer_node(graph, gm_graph_find(graph, graph->nodes.items[i].address),
		        &graph->nodes.items[i]);
}

struct gm_native_owner *gm_static_owner(enum gm_torch_static kind)
{
	static const enum gm_native_form forms[] = {[GM_STATIC_CUBLAS] = GM_NATIVE_CUBLAS,
	        [GM_STATIC_CUBLASLT] = GM_NATIVE_CUBLASLT,
	        [GM_STATIC_SENT] = GM_NATIVE_SENT,
	        [GM_STATIC_AUTOCAST] = GM_NATIVE_AUTOCAST};
	return gm_native_owner_create((struct gm_native_part){.form = forms[kind]});
}

/* Autocast owns its cached casts of weights. */
static void refer_static(void *context, enum gm_torch_static kind, uint64_t address, uint64_t word)
{
	struct gm_holders *graph = context;
	uint32_t to = gm_graph_find(graph, address);
	if (to != GM_NO_VERTEX && graph->vertices.items[to].kind == GM_VERTEX_TENSOR &&
	        !gm_map_find(&graph->typed_words, word)) {
		_cleanup_owner_ struct gm_native_owner *owner = gm_static_owner(kind);
		gm_graph_refer_native(
		        graph, GM_NO_VERTEX, word, to, word, "native_heap", owner, false);
	}
}

struct gm_error *gm_graph_add_native(struct gm_holders *graph, const struct gm_scan_result *hits)
{
	add_objects(graph, hits);
	refer_all(graph);
	gm_torch_autocast(graph->torch, refer_static, graph);
	return graph->no_memory ? &gm_error_no_memory : NULL;
}
