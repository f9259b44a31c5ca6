/*
 * References from PyTorch's objects (tensors, nodes of the autograd graph, hooks) and from threads.
 */
#include "holders/describe/describe_native.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/describe/description.h"
#include "holders/describe/describe_variable.h"
#include "holders/describe/names.h"
#include "holders/describe/parameters.h"
#include "holders/native/object.h"
#include "holders/native/tensor_parts.h"
#include "torch/readers.h"
#include "torch/slots.h"

enum { MAX_GRAPH_STEPS = 16 }; /* nodes of the autograd graph that a path shows */

/* A node of the graph, by name. NULL: the node adds no information, or the path already shows the
 * maximum number. */
static struct gm_holder_step *describe_node(
        struct gm_description *description, enum gm_step_form form, const char *kind, uint32_t node)
{
	const char *name;
	bool unlisted = description->graph_steps++ >= MAX_GRAPH_STEPS;
	if (unlisted && form == GM_STEP_PLAIN)
		return NULL;
	uint64_t address = gm_describe_address_of(description, node);
	if (!gm_torch_node_name(description->graph->torch, address, &name))
		name = NULL;
	struct gm_holder_step *made =
	        gm_describe_step(description, form, kind, name, name, address);
	made->unlisted = unlisted;
	return made;
}

static const char *node_name(struct gm_description *description, uint32_t node)
{
	const char *name;
	uint64_t address = gm_describe_address_of(description, node);
	if (description->graph->vertices.items[node].kind == GM_VERTEX_PYTHON)
		return gm_type_text(description->graph, address);
	return gm_torch_node_name(description->graph->torch, address, &name) ? name : "a node";
}

/* "Parameter", "Tensor": the type of its Python object. */
static const char *tensor_text(struct gm_description *description, uint32_t number)
{
	const struct gm_vertex *vertex = &description->graph->vertices.items[number];
	uint64_t python = vertex->kind == GM_VERTEX_TENSOR
	                          ? description->graph->tensors.items[vertex->detail].python
	                          : 0;
	return python && description->graph->python ? gm_type_text(description->graph, python)
	                                            : "tensor";
}

/* "layers.0.weight": a tensor's name in its model; NULL if no module has it as a parameter. */
static char *parameter_of(struct gm_description *description, uint32_t number)
{
	const struct gm_vertex *vertex = &description->graph->vertices.items[number];
	uint64_t python = vertex->kind == GM_VERTEX_TENSOR
	                          ? description->graph->tensors.items[vertex->detail].python
	                          : 0;
	return python && description->graph->python ? gm_parameter_name(description->graph, python)
	                                            : NULL;
}

/* "saved 'self' of MulBackward0", if the name of the slot is known. */
static void describe_saved(struct gm_description *description, const struct gm_edge *edge)
{
	const char *slot = NULL;
	if (edge->extra != GM_SAVED_NOWHERE) {
		bool vector = edge->extra & GM_SAVED_IN_VECTOR;
		const struct gm_class *class = gm_graph_class_at(
		        description->graph, gm_describe_address_of(description, edge->from));
		uint32_t offset = edge->extra & ~(uint32_t)GM_SAVED_IN_VECTOR;
		slot = class ? gm_torch_slot_name(description->graph->torch, class, offset, vector)
		             : NULL;
	}
	struct gm_holder_step *made =
	        describe_node(description, GM_STEP_SAVED, "saved_tensor", edge->from);
	made->of = gm_describe_copy(description, node_name(description, edge->from));
	made->slot = gm_describe_copy(description, slot);
}

/* "SparseTensorImpl": the class of a C++ object, without its namespace. */
static const char *class_text(struct gm_description *description, uint64_t object)
{
	const struct gm_class *class = gm_graph_class_at(description->graph, object);
	const char *name = class ? gm_class_name(class) : "tensor";
	for (const char *scope; (scope = strstr(name, "::"));)
		name = scope + 2;
	return name;
}

/* A part of an object that a field of its own refers to; `of` names the object. */
static void describe_part(struct gm_description *description, enum gm_step_form form,
        const char *name, uint64_t from, const char *of)
{
	gm_describe_step(description, form, "attribute", name, NULL, from)->of =
	        gm_describe_copy(description, of);
}

/* A reference from a thread: from its running frame, or from the thread as a whole. */
static void describe_thread(struct gm_description *description, const struct gm_edge *edge)
{
	const struct gm_vertex *root = &description->graph->vertices.items[edge->from];
	const char *name = description->graph->thread_names.items[edge->extra];
	bool of_frame = root->kind == GM_VERTEX_FRAME;
	struct gm_holder_step *made = gm_describe_step(
	        description, GM_STEP_THREAD, "thread", name, NULL, of_frame ? root->address : 0);
	if (of_frame)
		made->function = gm_describe_copy(description,
		        description->graph->frames.items[root->detail].frame.code->name);
}

void gm_describe_native(struct gm_description *description, const struct gm_edge *edge)
{
	struct gm_holders *graph = description->graph;
	uint64_t from = gm_describe_address_of(description, edge->from);
	const struct gm_vertex *vertex = &graph->vertices.items[edge->from];
	description->left--;
	switch ((enum gm_reference)edge->kind) {
	case GM_REF_STORAGE:
		gm_describe_step(description, GM_STEP_PLAIN, "tensor", NULL, NULL, from);
		break;
	case GM_REF_GRAD: {
		_cleanup_free_ char *parameter = parameter_of(description, edge->from);
		gm_describe_step(description, GM_STEP_GRAD, "grad", parameter, NULL, from)->of =
		        gm_describe_copy(description, tensor_text(description, edge->from));
		break;
	}
	case GM_REF_VIEW_BASE:
		gm_describe_step(description, GM_STEP_VIEW_BASE, "view_base", NULL, NULL, from);
		break;
	case GM_REF_SAVED:
		describe_saved(description, edge);
		break;
	case GM_REF_CONTEXT_SAVED: {
		const char *type = gm_type_text(graph, from);
		gm_describe_step(description, GM_STEP_SAVED, "saved_tensor", type, type, from)->of =
		        gm_describe_copy(description, type);
		break;
	}
	case GM_REF_PART:
		describe_part(description, GM_STEP_PART, gm_graph_part_name(graph, edge), from,
		        class_text(description, from));
		break;
	case GM_REF_TANGENT:
		describe_part(description, GM_STEP_TANGENT, "tangent", from,
		        tensor_text(description, edge->from));
		break;
	case GM_REF_METADATA:
		describe_part(description, GM_STEP_METADATA, "metadata", from,
		        node_name(description, edge->from));
		break;
	case GM_REF_ACCUMULATE:
		describe_node(description, GM_STEP_LEAF, "grad_fn", edge->from);
		break;
	case GM_REF_CONTEXT:
	case GM_REF_NEXT:
		describe_node(description, GM_STEP_PLAIN, "grad_fn", edge->from);
		break;
	case GM_REF_GRAD_FN:
		gm_describe_step(description, GM_STEP_GRAPH, "tensor", NULL, NULL, from);
		break;
	case GM_REF_NODE_OBJECT:
		gm_describe_step(description, GM_STEP_GRAPH, "object", NULL,
		        gm_type_text(graph, from), from);
		break;
	case GM_REF_HOOK:
		gm_describe_step(description, GM_STEP_HOOK, "hook", NULL, NULL, from)->of =
		        vertex->kind == GM_VERTEX_NODE
		                ? gm_describe_copy(description, node_name(description, edge->from))
		                : NULL;
		break;
	case GM_REF_LOCAL:
		gm_describe_frame(description, edge, false);
		break;
	case GM_REF_THREAD:
		describe_thread(description, edge);
		break;
	case GM_REF_INSTANCE:
		gm_describe_step(description, GM_STEP_CLASS, "attribute", "__class__",
		        gm_type_text(graph, from), from);
		break;
	case GM_REF_MEMORY_OWNER:
		gm_describe_step(description,
		        vertex->kind == GM_VERTEX_STORAGE ? GM_STEP_MEMORY_OWNER : GM_STEP_DLTENSOR,
		        "attribute", "lender", NULL, from);
		break;
	case GM_REF_NATIVE: {
		const struct gm_native *native = &graph->natives.items[edge->extra];
		gm_describe_step(
		        description, GM_STEP_NATIVE, native->kind, NULL, NULL, native->address)
		        ->native = gm_native_owner_share(native->owner);
		break;
	}
	case GM_REF_WRAPPER:
	case GM_REF_WRAPPED:
	case GM_REF_PYTHON:
		break;
	}
}
