/*
 * The parts of special tensors: a sparse tensor's indices and values, the tensors that vmap and
 * grad of torch.func wrap, a quantizer's scales; and forward-mode gradients.
 */
#include "holders/native/tensor_parts.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/graph/graph.h"
#include "holders/heap/heap.h"
#include "holders/native/object.h"
#include "torch/members.h"
#include "torch/names.h"

enum {
	MAX_PART_BYTES = 4096,
	MAX_TANGENTS = 64,
	QUANTIZER_BYTES = 128,
	IN_QUANTIZER = 1 << 16,
};

const char *gm_graph_part_name(struct gm_holders *graph, const struct gm_edge *edge)
{
	if (edge->extra & IN_QUANTIZER)
		return "quantizer";
	const struct gm_class *class =
	        gm_graph_class_at(graph, graph->vertices.items[edge->from].address);
	return class ? gm_torch_part_name(class->linkage_name, edge->extra) : NULL;
}

/* Words of an object that are tensors. Each is one reference, even if another path also leads to
 * the object. */
static void refer_words(struct gm_holders *graph, uint32_t from, uint64_t address,
        const uint64_t *words, size_t count, uint32_t extra)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t to = words[i] < 0x10000 || (words[i] & 7) ? (uint32_t)GM_NO_VERTEX
		                                                   : gm_graph_find(graph, words[i]);
		if (to != GM_NO_VERTEX && graph->vertices.items[to].kind == GM_VERTEX_TENSOR &&
		        !gm_map_find(&graph->typed_words, address + i * 8))
			gm_graph_refer(
			        graph, from, to, GM_REF_PART, extra | (uint32_t)i, address + i * 8);
	}
}

static void refer_quantizer(struct gm_holders *graph, uint32_t from, uint64_t quantizer)
{
	uint64_t words[QUANTIZER_BYTES / 8];
	const struct gm_class *class = gm_graph_class_at(graph, quantizer);
	size_t size = gm_heap_bytes(graph, quantizer) & ~(size_t)7;
	if (!class || !strstr(class->linkage_name, "Quantizer") || size > sizeof(words) ||
	        !gm_image_try_read(graph->image, quantizer, words, size))
		return;
	refer_words(graph, from, quantizer, words, size / 8, IN_QUANTIZER);
}

/* std::shared_ptr<ForwardGrad>, which maps levels to tensors. */
static void refer_tangents(struct gm_holders *graph, uint32_t from, uint64_t meta, size_t size)
{
	uint64_t words[MAX_PART_BYTES / 8], node;
	if (size > sizeof(words) || !gm_image_try_read(graph->image, meta, words, size))
		return;
	for (size_t i = 1; i + 1 < size / 8; i++) {
		/* created by std::make_shared: its control block is directly before it */
		if (words[i] < 0x10000 || words[i + 1] + 16 != words[i])
			continue;
		const struct gm_class *class = gm_graph_class_at(graph, words[i + 1]);
		if (!class || class->kind != GM_CLASS_SHARED ||
		        !strstr(class->linkage_name, "11ForwardGradE") ||
		        !gm_image_try_u64(graph->image, words[i] + GM_TORCH_TANGENTS_FIRST, &node))
			continue;
		for (size_t n = 0; n < MAX_TANGENTS && node; n++) {
			uint64_t next, value, word = node + GM_TORCH_TANGENT_VALUE;
			if (!gm_image_try_u64(graph->image, node + GM_TORCH_TANGENT_NEXT, &next) ||
			        !gm_image_try_u64(graph->image, word, &value))
				return;
			uint32_t to = gm_graph_find(graph, value);
			if (to != GM_NO_VERTEX &&
			        graph->vertices.items[to].kind == GM_VERTEX_TENSOR &&
			        !gm_map_find(&graph->typed_words, word))
				gm_graph_refer(graph, from, to, GM_REF_TANGENT, 0, word);
			node = next;
		}
	}
}

void gm_graph_refer_parts(struct gm_holders *graph, uint32_t number, const struct gm_tensor *tensor)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	const struct gm_class *class = gm_graph_class_at(graph, tensor->address);
	uint64_t words[MAX_PART_BYTES / 8];
	size_t start = layout->tensor.size_of;
	if (tensor->autograd_meta)
		refer_tangents(graph, number, tensor->autograd_meta, layout->meta.size_of);
	if (!class || strcmp(class->linkage_name, GM_TORCH_TENSOR_CLASS) == 0)
		return;
	size_t size = gm_heap_bytes(graph, tensor->address) & ~(size_t)7;
	if (size <= start || size - start > sizeof(words) ||
	        !gm_image_try_read(graph->image, tensor->address + start, words, size - start))
		return;
	size_t count = (size - start) / 8;
	refer_words(graph, number, tensor->address + start, words, count, 0);
	if (strstr(class->linkage_name, "QTensorImpl"))
		for (size_t i = 0; i < count; i++)
			if (words[i] >= 0x10000 && !(words[i] & 7))
				refer_quantizer(graph, number, words[i]);
}
