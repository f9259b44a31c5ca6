/*
 * References of PyTorch's objects: tensors, the nodes of the autograd graph, hooks; and those of threads.
 */
#include <string.h>

#include "base/cleanup.h"
#include "holders/tell.h"
#include "torch/slots.h"

enum { MAX_GRAPH_STEPS = 16 }; /* nodes of the autograd graph that a path lists */

static void tell_graph_node(struct gm_telling *telling, uint32_t node, const char *kind)
{
	const char *name;
	if (telling->graph_steps++ >= MAX_GRAPH_STEPS)
		return;
	if (!gm_torch_node_name(telling->graph->torch, gm_tell_address_of(telling, node), &name))
		name = NULL;
	gm_tell_step(telling, kind, name, name, gm_tell_address_of(telling, node));
}

static const char *node_name(struct gm_telling *telling, uint32_t node)
{
	const char *name;
	uint64_t address = gm_tell_address_of(telling, node);
	if (telling->graph->vertices.items[node].kind == GM_VERTEX_PYTHON)
		return gm_type_text(telling->graph, address);
	return gm_torch_node_name(telling->graph->torch, address, &name) ? name : "a node";
}

/* "Parameter", "Tensor": as its Python object is called. */
static const char *tensor_text(struct gm_telling *telling, uint32_t number)
{
	const struct gm_vertex *vertex = &telling->graph->vertices.items[number];
	uint64_t python = vertex->kind == GM_VERTEX_TENSOR
	                          ? telling->graph->tensors.items[vertex->detail].python
	                          : 0;
	return python && telling->graph->python ? gm_type_text(telling->graph, python) : "tensor";
}

/* "layers.0.weight", as the model of a tensor calls it; NULL: it is no parameter that a module has. */
static char *parameter_of(struct gm_telling *telling, uint32_t number)
{
	const struct gm_vertex *vertex = &telling->graph->vertices.items[number];
	uint64_t python = vertex->kind == GM_VERTEX_TENSOR
	                          ? telling->graph->tensors.items[vertex->detail].python
	                          : 0;
	return python && telling->graph->python ? gm_parameter_name(telling->graph, python) : NULL;
}

/* "saved 'self' of MulBackward0", where the slot's name is known. */
static void tell_saved(struct gm_telling *telling, const struct gm_edge *edge)
{
	const char *slot = NULL;
	if (edge->extra != GM_SAVED_NOWHERE) {
		bool vector = edge->extra & GM_SAVED_IN_VECTOR;
		const struct gm_class *class =
		        gm_graph_class_at(telling->graph, gm_tell_address_of(telling, edge->from));
		uint32_t offset = edge->extra & ~(uint32_t)GM_SAVED_IN_VECTOR;
		slot = class ? gm_torch_slot_name(telling->graph->torch, class, offset, vector)
		             : NULL;
	}
	if (slot)
		gm_tell_say(telling, "saved '%s' of %s", slot, node_name(telling, edge->from));
	else
		gm_tell_say(telling, "saved by %s", node_name(telling, edge->from));
	tell_graph_node(telling, edge->from, "saved_tensor");
}

/* "SparseTensorImpl": the class of a C++ object, without its scope. */
static const char *class_text(struct gm_telling *telling, uint64_t object)
{
	const struct gm_class *class = gm_graph_class_at(telling->graph, object);
	const char *name = class ? gm_class_name(class) : "tensor";
	for (const char *scope; (scope = strstr(name, "::"));)
		name = scope + 2;
	return name;
}

void gm_tell_native(struct gm_telling *telling, const struct gm_edge *edge)
{
	uint64_t from = gm_tell_address_of(telling, edge->from);
	telling->left--;
	switch ((enum gm_reference)edge->kind) {
	case GM_REF_STORAGE:
		gm_tell_step(telling, "tensor", NULL, NULL, from);
		break;
	case GM_REF_GRAD: {
		_cleanup_free_ char *parameter = parameter_of(telling, edge->from);
		gm_tell_say(telling, ".grad of a %s", tensor_text(telling, edge->from));
		gm_tell_step(telling, "grad", parameter, NULL, from);
		break;
	}
	case GM_REF_VIEW_BASE:
		gm_tell_say(telling, "base of a view");
		gm_tell_step(telling, "view_base", NULL, NULL, from);
		break;
	case GM_REF_SAVED:
		tell_saved(telling, edge);
		break;
	case GM_REF_CONTEXT_SAVED: {
		const char *type = gm_type_text(telling->graph, from);
		gm_tell_say(telling, "saved by %s", type);
		gm_tell_step(telling, "saved_tensor", type, type, from);
		break;
	}
	case GM_REF_PART: {
		const char *part = gm_graph_part_name(telling->graph, edge);
		gm_tell_say(telling, "%s of a %s", part ? part : "part", class_text(telling, from));
		gm_tell_step(telling, "attribute", part, NULL, from);
		break;
	}
	case GM_REF_TANGENT:
		gm_tell_say(telling, "tangent of a %s", tensor_text(telling, edge->from));
		gm_tell_step(telling, "attribute", "tangent", NULL, from);
		break;
	case GM_REF_METADATA:
		gm_tell_say(telling, "metadata of %s", node_name(telling, edge->from));
		gm_tell_step(telling, "attribute", "metadata", NULL, from);
		break;
	case GM_REF_ACCUMULATE:
		gm_tell_say(telling, "leaf of the autograd graph");
		tell_graph_node(telling, edge->from, "grad_fn");
		break;
	case GM_REF_CONTEXT:
		tell_graph_node(telling, edge->from, "grad_fn");
		break;
	case GM_REF_NEXT:
		tell_graph_node(telling, edge->from, "grad_fn");
		break;
	case GM_REF_GRAD_FN:
		gm_tell_say(telling, ", in the graph of");
		gm_tell_step(telling, "tensor", NULL, NULL, from);
		break;
	case GM_REF_NODE_OBJECT:
		gm_tell_say(telling, ", in the graph of");
		gm_tell_step(telling, "object", NULL, gm_type_text(telling->graph, from), from);
		break;
	case GM_REF_HOOK:
		gm_tell_say(telling, "hook of %s",
		        telling->graph->vertices.items[edge->from].kind == GM_VERTEX_NODE
		                ? node_name(telling, edge->from)
		                : "a tensor");
		gm_tell_step(telling, "hook", NULL, NULL, from);
		break;
	case GM_REF_LOCAL:
		gm_tell_frame(telling, edge, false);
		break;
	case GM_REF_THREAD: {
		const struct gm_vertex *root = &telling->graph->vertices.items[edge->from];
		const char *name = telling->graph->thread_names.items[edge->extra];
		if (root->kind == GM_VERTEX_FRAME) {
			const struct gm_python_frame *frame =
			        &telling->graph->frames.items[root->detail].frame;
			gm_tell_say(telling, "%s of %s()", name, frame->code->name);
			gm_tell_step(telling, "thread", name, NULL, from)->function =
			        gm_tell_copy(telling, frame->code->name);
		} else {
			gm_tell_say(telling, "%s", name);
			gm_tell_step(telling, "thread", name, NULL, 0);
		}
		break;
	}
	case GM_REF_INSTANCE: {
		const char *type = gm_type_text(telling->graph, from);
		gm_tell_say(telling, "class of a %s", type);
		gm_tell_step(telling, "attribute", "__class__", type, from);
		break;
	}
	case GM_REF_LENT:
		if (telling->graph->vertices.items[edge->from].kind == GM_VERTEX_STORAGE)
			gm_tell_say(telling, "lender of a tensor's memory");
		else
			gm_tell_say(telling, "tensor of dltensor capsule");
		gm_tell_step(telling, "attribute", "lender", NULL, from);
		break;
	case GM_REF_NATIVE: {
		const struct gm_native *native = &telling->graph->natives.items[edge->extra];
		if (native->text[0])
			gm_tell_say(telling, "%s", native->text);
		gm_tell_step(telling, native->kind, NULL, NULL, native->address);
		break;
	}
	case GM_REF_WRAPPER:
	case GM_REF_WRAPPED:
	case GM_REF_PYTHON:
		break;
	}
}
