/*
 * The name of a parameter in its model. torch.nn.Module stores parameters and submodules in dicts
 * of its own (torch/nn/modules/module.py). They are followed upwards from the parameter.
 */
#include "holders/describe/parameters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "holders/describe/names.h"
#include "holders/graph/graph.h"

enum {
	MAX_DEPTH = 32,
	MAX_REFERRERS = 4096, /* the most referrers of one object that are examined */
};

struct key_search {
	uint64_t value, key, found;
};

/* In a dict, the visitor reports each key before its value. */
static bool match_value(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct key_search *search = context;
	if (kind == GM_EDGE_DICT_KEY)
		search->key = target;
	else if (kind == GM_EDGE_KEY && target == search->value)
		search->found = search->key;
	return !search->found;
}

uint64_t gm_key_of_value(struct gm_holders *graph, uint64_t dict, uint64_t value)
{
	struct key_search search = {.value = value};
	gm_python_references(graph->python, dict, match_value, &search);
	return search.found;
}

/* The name of the attribute of its owner that a dict is: "_parameters". */
static bool attribute_of(
        struct gm_holders *graph, uint32_t dict, const char *wanted, uint32_t *ret_owner)
{
	const struct gm_vertex *vertex = &graph->vertices.items[dict];
	for (uint32_t i = 0; i < vertex->count && i < MAX_REFERRERS; i++) {
		const struct gm_edge *edge = &graph->edges.items[vertex->first + i];
		struct gm_link link;
		if (edge->kind != GM_REF_PYTHON || !gm_link_read(graph, edge, &link))
			continue;
		bool is = link.name && strcmp(link.name, wanted) == 0;
		free(link.name);
		if (!is)
			continue;
		*ret_owner = edge->from;
		if (link.kind == GM_EDGE_ATTRIBUTE)
			return true;
		/* the instance's dict has it: continue with the instance */
		const struct gm_vertex *own = &graph->vertices.items[edge->from];
		for (uint32_t k = 0; k < own->count && k < MAX_REFERRERS; k++) {
			const struct gm_edge *outer = &graph->edges.items[own->first + k];
			if (outer->kind != GM_REF_PYTHON || !(outer->extra & GM_LINK_IS_DICT))
				continue;
			*ret_owner = outer->from;
			return true;
		}
	}
	return false;
}

/* The module that has `object` among its `parts` ("_modules"), and the name under which it has it.
 * */
static char *name_in_module(
        struct gm_holders *graph, uint32_t object, const char *parts, uint32_t *ret_module)
{
	const struct gm_vertex *vertex = &graph->vertices.items[object];
	for (uint32_t i = 0; i < vertex->count && i < MAX_REFERRERS; i++) {
		const struct gm_edge *edge = &graph->edges.items[vertex->first + i];
		struct gm_link link;
		if (edge->kind != GM_REF_PYTHON || !gm_link_read(graph, edge, &link))
			continue;
		if (link.kind == GM_EDGE_KEY && link.name &&
		        attribute_of(graph, edge->from, parts, ret_module))
			return link.name;
		free(link.name);
	}
	return NULL;
}

static char *part_name(struct gm_holders *graph, uint64_t tensor, const char *parts)
{
	uint32_t object = gm_graph_find(graph, tensor), module = 0;
	char *name = object == GM_NO_VERTEX ? NULL : name_in_module(graph, object, parts, &module);
	for (unsigned depth = 0; name && depth < MAX_DEPTH; depth++) {
		_cleanup_free_ char *inner = name, *outer = NULL;
		uint32_t above = 0;
		outer = name_in_module(graph, module, "_modules", &above);
		if (!outer) {
			inner = NULL;
			break;
		}
		if (asprintf(&name, "%s.%s", outer, inner) < 0)
			return NULL;
		module = above;
	}
	return name;
}

char *gm_parameter_name(struct gm_holders *graph, uint64_t tensor)
{
	return part_name(graph, tensor, "_parameters");
}

char *gm_storage_part_name(struct gm_holders *graph, uint64_t storage)
{
	uint32_t number = gm_graph_find(graph, storage);
	char *name = NULL;
	if (number == GM_NO_VERTEX || !graph->python)
		return NULL;
	const struct gm_vertex *vertex = &graph->vertices.items[number];
	for (uint32_t i = 0; i < vertex->count && i < MAX_REFERRERS && !name; i++) {
		const struct gm_edge *edge = &graph->edges.items[vertex->first + i];
		if (edge->kind != GM_REF_STORAGE)
			continue;
		uint32_t detail = graph->vertices.items[edge->from].detail;
		uint64_t python = graph->tensors.items[detail].python;
		if (python && !(name = part_name(graph, python, "_parameters")))
			name = part_name(graph, python, "_buffers");
	}
	return name;
}
