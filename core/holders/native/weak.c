/*
 * Fields of PyTorch's C++ objects that refer to an object without owning it: a std::weak_ptr, a
 * pointer back to a wrapper, a wrapper's borrowed pointer.
 */
#include "holders/native/weak.h"

#include "holders/graph/graph.h"
#include "holders/unattributed/unattributed.h"
#include "holders/native/object.h"

/* Until 2.12 a std::shared_ptr<Node> has two words, the node and its control block; single words
 * that point at a node own nothing. AutogradMeta::grad_accumulator_ is a weak pointer in all
 * versions. */
static bool owns_no_node(struct gm_holders *graph, const struct gm_hit *hit)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	uint64_t control, next;
	const struct gm_class *meta =
	        gm_graph_class_at(graph, hit->address - layout->meta.grad_accumulator);
	if (meta && meta->kind == GM_CLASS_META)
		return true;
	if (layout->node.counts)
		return false;
	return !gm_image_try_u64(graph->image, hit->value + layout->node.control, &control) ||
	       !gm_image_try_u64(graph->image, hit->address + 8, &next) || next != control;
}

bool gm_graph_is_weak_field(struct gm_holders *graph, const struct gm_hit *hit, uint32_t vertex)
{
	const struct gm_torch_layout *layout = gm_torch_layout_of(graph->torch);
	if (graph->vertices.items[vertex].kind == GM_VERTEX_NODE && owns_no_node(graph, hit))
		return true;
	/* checked by the object's own kind, because memory after a small object belongs to another
	 * one */
	const struct {
		enum gm_vertex_kind kind;
		uint16_t offset;
	} fields[] = {{GM_VERTEX_TENSOR, layout->tensor.python},
	        {GM_VERTEX_STORAGE, layout->storage.python}, {GM_VERTEX_NODE, layout->node.python},
	        {GM_VERTEX_NODE, layout->node.self}};
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]) && fields[i].offset; i++) {
		uint32_t owner = gm_graph_find(graph, hit->address - fields[i].offset);
		if (owner != GM_NO_VERTEX && graph->vertices.items[owner].kind == fields[i].kind)
			return true;
	}
	/* until 2.9, a wrapper that the tensor owns has a borrowed pointer to the tensor
	 * (c10::MaybeOwned) */
	uint32_t wrapper = gm_graph_find(graph,
	        hit->address - layout->python.tensor_cdata - 8 * layout->python.tensor_maybe_owned);
	return wrapper != GM_NO_VERTEX &&
	       (graph->vertices.items[wrapper].flags & GM_VERTEX_WRAPPER);
}
