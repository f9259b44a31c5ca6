/*
 * Finds what each edge means to a user. Each marked Python object is visited once more, with the
 * names of its references. What PyTorch stores in plain dicts (a module's parameters, an
 * optimizer's state) is recognized by the class of their owner.
 */
#include "holders/retained/parts.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/retained/reach.h"
#include "holders/describe/names.h"
#include "holders/graph/graph.h"
#include "base/strings.h"
#include "holders/retained/variables.h"

enum {
	LINK_UNKNOWN = 0xff,
	PART_UNDECIDED = 0xff,
	LINK_BY_OBJECT =
	        0xfe, /* a dict's value whose key is not a string; `name` is the key's vertex + 1 */
};

/* The purpose of a dict. */
enum role { ROLE_NONE, ROLE_MODULES, ROLE_PARAMETERS, ROLE_BUFFERS, ROLE_STATE, ROLE_ENTRY };

struct visiting {
	struct gm_reach *reach;
	uint32_t first, last; /* edges of the object, sorted by `to` */
	uint64_t key;         /* the key of the dict that was visited last */
};

static int by_to(const void *a, const void *b)
{
	const struct gm_reach_edge *left = a, *right = b;
	return left->to < right->to ? -1 : left->to > right->to;
}

static uint32_t local_vertex(const struct gm_reach *reach, uint64_t address)
{
	uint32_t vertex = gm_graph_find(reach->graph, address);
	return vertex == GM_NO_VERTEX ? 0 : reach->local[vertex];
}

static bool name_reference(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct visiting *visiting = context;
	struct gm_reach *reach = visiting->reach;
	uint32_t to = local_vertex(reach, target);
	uint32_t low = visiting->first, high = visiting->last;
	if (kind == GM_EDGE_DICT_KEY)
		visiting->key = target;
	if (to == 0 || kind == GM_EDGE_TYPE)
		return true;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (reach->edges.items[middle].to < to)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < visiting->last && reach->edges.items[low].to == to; low++) {
		struct gm_reach_edge *edge = &reach->edges.items[low];
		if (edge->reference != GM_REF_PYTHON || edge->link != LINK_UNKNOWN)
			continue;
		edge->link = (uint8_t)kind;
		edge->name = gm_strings_add(&reach->strings, name);
		if (kind == GM_EDGE_KEY && !name) {
			edge->link = LINK_BY_OBJECT;
			edge->name = local_vertex(reach, visiting->key) + 1;
		}
		break;
	}
	return true;
}

static void name_links(struct gm_reach *reach)
{
	for (size_t i = 0; i < reach->edges.count; i++)
		if (reach->edges.items[i].reference == GM_REF_PYTHON) {
			reach->edges.items[i].link = LINK_UNKNOWN;
			reach->edges.items[i].part = PART_UNDECIDED;
		}
	for (uint32_t v = 1; v < reach->count; v++) {
		struct visiting visiting = {reach, reach->first[v], reach->first[v + 1], 0};
		uint32_t at = reach->vertices.items[v], python = 0;
		for (uint32_t e = visiting.first; e < visiting.last; e++)
			python += reach->edges.items[e].reference == GM_REF_PYTHON;
		if (python == 0 || at == GM_NO_VERTEX)
			continue;
		qsort(&reach->edges.items[visiting.first], visiting.last - visiting.first,
		        sizeof(*reach->edges.items), by_to);
		gm_python_references(reach->graph->python, reach->graph->vertices.items[at].address,
		        name_reference, &visiting);
	}
}

static bool name_is(
        const struct gm_reach *reach, const struct gm_reach_edge *edge, const char *name)
{
	return strcmp(gm_strings_at(&reach->strings, edge->name), name) == 0;
}

static bool is_a(const struct gm_reach *reach, uint32_t vertex, const char *type)
{
	uint32_t at = reach->vertices.items[vertex];
	return at != GM_NO_VERTEX && gm_python_is_instance(reach->graph->python,
	                                     reach->graph->vertices.items[at].address, type);
}

/* torch.nn.Module stores its parts in three dicts (torch/nn/modules/module.py), an optimizer its
 * state in one (torch/optim/optimizer.py). */
static enum role role_of_attribute(
        const struct gm_reach *reach, const struct gm_reach_edge *edge, uint32_t owner)
{
	static const struct {
		const char *name, *owner;
		enum role role;
	} roles[] = {
	        {"_modules", "Module", ROLE_MODULES},
	        {"_parameters", "Module", ROLE_PARAMETERS},
	        {"_buffers", "Module", ROLE_BUFFERS},
	        {"state", "Optimizer", ROLE_STATE},
	};
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (name_is(reach, edge, roles[i].name) && is_a(reach, owner, roles[i].owner))
			return roles[i].role;
	return ROLE_NONE;
}

static enum gm_part part_of_key(enum role role)
{
	switch (role) {
	case ROLE_MODULES:
		return GM_PART_MODULE;
	case ROLE_PARAMETERS:
		return GM_PART_PARAMETER;
	case ROLE_BUFFERS:
		return GM_PART_BUFFER;
	case ROLE_ENTRY:
		return GM_PART_ENTRY;
	default:
		return GM_PART_KEY;
	}
}

/* Attributes, and which of them are special dicts; `owners`, by vertex, is the object whose
 * __dict__ it is. */
static void find_roles(struct gm_reach *reach, const uint32_t *owners, uint8_t *roles)
{
	for (size_t i = 0; i < reach->edges.count; i++) {
		struct gm_reach_edge *edge = &reach->edges.items[i];
		if (edge->reference != GM_REF_PYTHON)
			continue;
		uint32_t owner = edge->link == GM_EDGE_ATTRIBUTE ? edge->from
		                 : edge->link == GM_EDGE_KEY && owners[edge->from] != 0
		                         ? owners[edge->from]
		                         : 0;
		if (owner == 0)
			continue;
		edge->part = GM_PART_ATTRIBUTE;
		enum role role = role_of_attribute(reach, edge, owner);
		if (role == ROLE_NONE)
			continue;
		roles[edge->to] = (uint8_t)role;
		if (role != ROLE_STATE)
			edge->part = GM_PART_INTERNAL_EDGE;
	}
	for (size_t i = 0; i < reach->edges.count; i++) {
		const struct gm_reach_edge *edge = &reach->edges.items[i];
		if (roles[edge->from] == ROLE_STATE && edge->link == LINK_BY_OBJECT)
			roles[edge->to] = ROLE_ENTRY;
	}
}

/* For a frame that does not run any more, which a traceback retains, or of a generator. */
static void name_kept_local(struct gm_reach *reach, struct gm_reach_edge *edge)
{
	uint64_t frame = reach->graph->vertices.items[reach->vertices.items[edge->from]].address;
	_cleanup_free_ char *function = gm_function_name(reach->graph, frame);
	edge->name = edge->name ? gm_reach_label(reach, GM_NAME_KEPT_LOCAL,
	                                  gm_strings_at(&reach->strings, edge->name), function)
	                        : gm_reach_label(reach, GM_NAME_OPERAND, NULL, function);
}

static enum gm_part part_of_python(
        struct gm_reach *reach, struct gm_reach_edge *edge, const uint8_t *roles)
{
	if (edge->link == LINK_BY_OBJECT) {
		if (roles[edge->from] == ROLE_STATE)
			return GM_PART_STATE;
		edge->name = 0;
		return GM_PART_KEY;
	}
	if (edge->part != PART_UNDECIDED)
		return edge->part;
	switch (edge->link) {
	case GM_EDGE_KEY:
		return part_of_key(roles[edge->from]);
	case GM_EDGE_DICT_KEY:
		edge->name = 0;
		return GM_PART_DICT_KEY;
	case GM_EDGE_ITEM:
		return GM_PART_ITEM;
	case GM_EDGE_LOCAL:
		name_kept_local(reach, edge);
		return GM_PART_LOCAL;
	case GM_EDGE_CELL:
	case GM_EDGE_CLOSURE:
		return GM_PART_INTERNAL_EDGE;
	default:
		break;
	}
	static const char *const internal_edge[] = {"__dict__", "tb_next", "tb_frame", "f_back"};
	for (size_t i = 0; i < sizeof(internal_edge) / sizeof(internal_edge[0]); i++)
		if (name_is(reach, edge, internal_edge[i]))
			return GM_PART_INTERNAL_EDGE;
	if (name_is(reach, edge, "__traceback__")) {
		edge->name = 0;
		return GM_PART_TRACEBACK;
	}
	return edge->name ? GM_PART_FIELD : GM_PART_INTERNAL_EDGE;
}

uint32_t gm_reach_node_name(struct gm_reach *reach, uint32_t vertex)
{
	const char *name = NULL;
	struct gm_holders *graph = reach->graph;
	const struct gm_vertex *at = &graph->vertices.items[reach->vertices.items[vertex]];
	if (at->kind == GM_VERTEX_NODE)
		gm_torch_node_name(graph->torch, at->address, &name);
	else if (graph->python)
		gm_python_type_name(graph->python, at->address, &name);
	return gm_strings_add(&reach->strings, name);
}

static enum gm_part part_of_native(struct gm_reach *reach, struct gm_reach_edge *edge)
{
	switch ((enum gm_reference)edge->reference) {
	case GM_REF_GRAD:
		return GM_PART_GRAD;
	case GM_REF_GRAD_FN:
	case GM_REF_NEXT:
	case GM_REF_NODE_OBJECT:
	case GM_REF_ACCUMULATE:
	case GM_REF_CONTEXT:
		return GM_PART_GRAPH;
	case GM_REF_SAVED:
	case GM_REF_CONTEXT_SAVED:
		edge->name = gm_reach_node_name(reach, edge->from);
		return GM_PART_SAVED;
	case GM_REF_HOOK:
		return GM_PART_HOOK;
	case GM_REF_VIEW_BASE:
		return GM_PART_VIEW;
	default:
		return GM_PART_INTERNAL_EDGE;
	}
}

/* The distance of a reference, as a user sees it. A module's part gets its name from the module,
 * before any other holder. */
static uint8_t length_of(const struct gm_reach *reach, const struct gm_reach_edge *edge)
{
	if (edge->reference == GM_REF_NATIVE) /* other things that C++ holds get their names from
	                                         their other holders */
		return 8;
	switch ((enum gm_part)edge->part) {
	case GM_PART_VARIABLE:
		return edge->length;
	case GM_PART_INTERNAL_EDGE: /* a calling frame is nearer than the frames that it called */
		return name_is(reach, edge, "tb_next") || name_is(reach, edge, "f_back") ? 4 : 0;
	case GM_PART_MODULE:
	case GM_PART_PARAMETER:
	case GM_PART_BUFFER:
	case GM_PART_GRAD:
		return 1;
	case GM_PART_ITEM:
		return 3;
	case GM_PART_FIELD:
	case GM_PART_TRACEBACK:
		return 4;
	case GM_PART_DICT_KEY:
		return 8;
	case GM_PART_ATTRIBUTE:
		return name_is(reach, edge, "param_groups") ? 8 : 2;
	case GM_PART_GRAPH:
		return edge->reference == GM_REF_ACCUMULATE ? 8 : 2;
	default:
		return 2;
	}
}

void gm_reach_name_parts(struct gm_reach *reach)
{
	_cleanup_free_ uint32_t *owners = calloc((size_t)reach->count + 1, sizeof(*owners));
	_cleanup_free_ uint8_t *roles = calloc((size_t)reach->count + 1, 1);
	if (!owners || !roles) {
		reach->no_memory = true;
		return;
	}
	if (reach->graph->python)
		name_links(reach);
	for (size_t i = 0; i < reach->edges.count; i++) {
		const struct gm_reach_edge *edge = &reach->edges.items[i];
		if (edge->reference == GM_REF_PYTHON && edge->link == GM_EDGE_OTHER &&
		        name_is(reach, edge, "__dict__"))
			owners[edge->to] = edge->from;
	}
	find_roles(reach, owners, roles);
	for (size_t i = 0; i < reach->edges.count; i++) {
		struct gm_reach_edge *edge = &reach->edges.items[i];
		if (edge->reference == GM_REF_PYTHON)
			edge->part = (uint8_t)part_of_python(reach, edge, roles);
		else if (edge->reference != 0)
			edge->part = (uint8_t)part_of_native(reach, edge);
		edge->length = length_of(reach, edge);
	}
}
