#include "holders/retained/reach_build.h"
#include "holders/graph/counts.h"
#include "holders/graph/graph.h"
#include "base/strings.h"
#include "holders/native/native.h"
#include "holders/place.h"
#include "holders/retained/parts.h"
#include "holders/retained/reach.h"
#include "holders/retained/reach_add.h"
#include "holders/retained/reach_blocks.h"
#include "holders/retained/reach_missing.h"
#include "holders/retained/variables.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "torch/statics.h"

enum {
	MAX_LENGTH = 8, /* of an edge */
	NOT_REACHED = UINT32_MAX,
};

/* --- marking ---------------------------------------------------------------------------------- */

/* Goes backwards from the storages. A root's references become names of variables. */
static void mark_all(struct gm_reach *reach)
{
	struct gm_holders *graph = reach->graph;
	for (uint32_t i = 1; i < reach->count && !reach->no_memory; i++) {
		uint32_t at = reach->vertices.items[i];
		if (at == GM_NO_VERTEX)
			continue;
		struct gm_vertex vertex = graph->vertices.items[at];
		for (uint32_t e = vertex.first; e < vertex.first + vertex.count; e++) {
			const struct gm_edge *edge = &graph->edges.items[e];
			if (graph->vertices.items[edge->from].kind == GM_VERTEX_NATIVE) {
				if (!gm_array_push(&reach->natives, e))
					reach->no_memory = true;
				continue;
			}
			if (gm_graph_is_root(&graph->vertices.items[edge->from])) {
				struct gm_reach_name name = {.vertex = i, .edge = e};
				if (!gm_array_push(&reach->names, name))
					reach->no_memory = true;
				continue;
			}
			struct gm_reach_edge made = {.from = gm_reach_mark(reach, edge->from),
			        .to = i,
			        .reference = edge->kind};
			if (made.from)
				gm_reach_add_edge(reach, made);
		}
	}
}

static int by_vertex(const void *a, const void *b)
{
	const struct gm_reach_name *left = a, *right = b;
	if (left->vertex != right->vertex)
		return left->vertex < right->vertex ? -1 : 1;
	return left->edge < right->edge ? -1 : left->edge > right->edge;
}

static bool is_cell(struct gm_reach *reach, uint32_t vertex)
{
	const char *type;
	const struct gm_vertex *at = &reach->graph->vertices.items[reach->vertices.items[vertex]];
	return at->kind == GM_VERTEX_PYTHON && reach->graph->python &&
	       gm_python_type_name(reach->graph->python, at->address, &type) &&
	       strcmp(type, "cell") == 0;
}

/* A variable that functions share is a cell. While the function that has the variable runs, the
 * variable counts as the holder of the cell's content: deleting it empties the cell, whoever else
 * refers to the cell. */
static bool mark_cells(struct gm_reach *reach, bool *cells)
{
	bool any = false;
	for (size_t i = 0; i < reach->variables.count; i++) {
		uint32_t object = reach->variables.items[i].object;
		if (object != GM_NO_VERTEX && is_cell(reach, object))
			any = cells[object] = true;
	}
	return any;
}

static void add_variables(struct gm_reach *reach)
{
	if (reach->names.count)
		qsort(reach->names.items, reach->names.count, sizeof(*reach->names.items),
		        by_vertex);
	for (size_t i = 0; i < reach->names.count && !reach->no_memory;) {
		uint32_t object = reach->names.items[i].vertex, vertex = 0;
		size_t end = i;
		uint32_t number = gm_reach_add_variable(reach, GM_VARIABLE_NAMED, object, &vertex);
		while (end < reach->names.count && reach->names.items[end].vertex == object)
			reach->names.items[end++].vertex = vertex;
		if (reach->no_memory)
			return;
		reach->variables.items[number].first_name = (uint32_t)i;
		reach->variables.items[number].name_count = (uint32_t)(end - i);
		i = end;
	}
	_cleanup_free_ bool *cells = calloc(reach->count + 1, sizeof(*cells));
	if (!cells) {
		reach->no_memory = true;
		return;
	}
	if (!mark_cells(reach, cells))
		return;
	size_t kept = 0;
	for (size_t i = 0; i < reach->edges.count; i++) {
		const struct gm_reach_edge *edge = &reach->edges.items[i];
		if (!cells[edge->to] || edge->reference == 0)
			reach->edges.items[kept++] = *edge;
	}
	reach->edges.count = kept;
}

/* --- holders in C++ --------------------------------------------------------------------------- */

struct statics {
	struct gm_reach *reach;
	uint32_t variables[GM_STATIC_AUTOCAST + 1]; /* vertices; 0: not created yet */
};

static uint32_t block_vertex(const struct gm_reach *reach, uint64_t address)
{
	size_t low = gm_partition_point(
	        reach->blocks.count, middle, reach->blocks.items[middle].address < address);
	return low < reach->blocks.count && reach->blocks.items[low].address == address
	               ? reach->blocks.items[low].vertex
	               : 0;
}

static void add_static(void *context, enum gm_torch_static kind, uint64_t address, uint64_t word)
{
	struct statics *statics = context;
	struct gm_reach *reach = statics->reach;
	uint32_t to = 0;
	if (kind == GM_STATIC_AUTOCAST) {
		uint32_t vertex = gm_graph_find(reach->graph, address);
		if (vertex != GM_NO_VERTEX && !gm_map_find(&reach->graph->typed_words, word))
			to = reach->local[vertex];
		if (to && reach->more[to] < UINT8_MAX)
			reach->more[to]++;
	} else {
		to = block_vertex(reach, address);
	}
	if (to == 0)
		return;
	if (statics->variables[kind] == 0) {
		uint32_t number = gm_reach_add_variable(
		        reach, GM_VARIABLE_NATIVE, GM_NO_VERTEX, &statics->variables[kind]);
		if (reach->no_memory)
			return;
		struct gm_variable *variable = &reach->variables.items[number];
		_cleanup_owner_ struct gm_native_owner *owner = gm_static_owner(kind);
		variable->label = gm_reach_native_label(reach, owner);
		variable->workspace = kind == GM_STATIC_CUBLAS || kind == GM_STATIC_CUBLASLT;
	}
	struct gm_reach_edge edge = {.from = statics->variables[kind], .to = to};
	gm_reach_add_edge(reach, edge);
}

/* The holders in C++, each reported once: all casts of autocast are one holder. */
static void add_natives(struct gm_reach *reach)
{
	const struct gm_holders *graph = reach->graph;
	struct gm_map by_label = {0};
	for (size_t i = 0; i < reach->natives.count && !reach->no_memory; i++) {
		const struct gm_edge *edge = &graph->edges.items[reach->natives.items[i]];
		uint32_t label =
		        gm_reach_native_label(reach, graph->natives.items[edge->extra].owner);
		uint64_t *slot = gm_map_put(&by_label, label, NULL);
		if (!slot) {
			reach->no_memory = true;
			break;
		}
		if (!*slot) {
			uint32_t vertex = 0, number = gm_reach_add_variable(reach,
			                             GM_VARIABLE_NATIVE, GM_NO_VERTEX, &vertex);
			if (reach->no_memory)
				break;
			reach->variables.items[number].label = label;
			*slot = vertex;
		}
		struct gm_reach_edge made = {.from = (uint32_t)*slot, .to = reach->local[edge->to]};
		gm_reach_add_edge(reach, made);
	}
	gm_map_deinit(&by_label);
}

static void add_statics(struct gm_reach *reach)
{
	struct statics statics = {.reach = reach};
	reach->more = calloc((size_t)reach->count + 1, sizeof(*reach->more));
	add_natives(reach);
	if (reach->more)
		gm_torch_statics(reach->graph->torch, add_static, &statics);
	else
		reach->no_memory = true;
}

/* Sorts the edges by source. */
static void sort_edges(struct gm_reach *reach)
{
	size_t count = reach->edges.count;
	free(reach->first);
	reach->first = calloc((size_t)reach->count + 2, sizeof(*reach->first));
	struct gm_reach_edge *sorted = calloc(count + 1, sizeof(*sorted));
	if (!reach->first || !sorted || reach->no_memory) {
		free(sorted);
		reach->no_memory = true;
		return;
	}
	uint32_t *first = reach->first;
	for (size_t i = 0; i < count; i++)
		first[reach->edges.items[i].from + 2]++;
	for (uint32_t v = 1; v < reach->count; v++)
		first[v + 1] += first[v];
	for (size_t i = 0; i < count; i++)
		sorted[first[reach->edges.items[i].from + 1]++] = reach->edges.items[i];
	free(reach->edges.items);
	reach->edges.items = sorted;
	reach->edges.capacity = count + 1;
}

/* --- the shortest path from the root ---------------------------------------------------------- */

static bool is_shorter(uint32_t length, uint32_t than)
{
	return than == NOT_REACHED || length < than;
}

/* Dijkstra's algorithm, with one list for each of the few distances ahead. */
static void find_tree(struct gm_reach *reach)
{
	GM_ARRAY(uint32_t) ahead[MAX_LENGTH + 1] = {0};
	_cleanup_free_ uint32_t *distances =
	        malloc(((size_t)reach->count + 1) * sizeof(*distances));
	reach->tree = malloc(((size_t)reach->count + 1) * sizeof(*reach->tree));
	reach->order = malloc(((size_t)reach->count + 1) * sizeof(*reach->order));
	if (!distances || !reach->tree || !reach->order) {
		reach->no_memory = true;
		return;
	}
	memset(distances, 0xff, (size_t)reach->count * sizeof(*distances));
	memset(reach->tree, 0xff, (size_t)reach->count * sizeof(*reach->tree));
	distances[0] = 0;
	size_t waiting = 1;
	reach->no_memory |= !gm_array_push(&ahead[0], 0);
	for (uint32_t distance = 0; waiting > 0 && !reach->no_memory; distance++) {
		size_t slot = distance % (MAX_LENGTH + 1);
		for (size_t i = 0; i < ahead[slot].count; i++) {
			uint32_t at = ahead[slot].items[i];
			waiting--;
			if (distances[at] != distance)
				continue; /* a shorter path has been found since */
			reach->order[reach->reached_count++] = at;
			for (uint32_t e = reach->first[at]; e < reach->first[at + 1]; e++) {
				const struct gm_reach_edge *edge = &reach->edges.items[e];
				uint32_t length = distance + edge->length;
				if (!is_shorter(length, distances[edge->to]))
					continue;
				distances[edge->to] = length;
				reach->tree[edge->to] = e;
				reach->no_memory |=
				        !gm_array_push(&ahead[length % (MAX_LENGTH + 1)], edge->to);
				waiting++;
			}
		}
		ahead[slot].count = 0;
	}
	for (size_t i = 0; i <= MAX_LENGTH; i++)
		gm_array_deinit(&ahead[i]);
}

/* --- completeness ----------------------------------------------------------------------------- */

/* For a storage, its tensors and the Python objects around them: were as many references found as
 * they count, without conservative ones? */
static bool is_complete(struct gm_reach *reach, uint32_t graph_vertex, unsigned depth)
{
	struct gm_holders *graph = reach->graph;
	const struct gm_vertex *vertex = &graph->vertices.items[graph_vertex];
	if (reach->local[graph_vertex] == 0 ||
	        gm_reach_lacks_references(reach, reach->local[graph_vertex],
	                gm_graph_guessed_references(graph, graph_vertex)))
		return false;
	for (uint32_t e = vertex->first; depth > 0 && e < vertex->first + vertex->count; e++) {
		const struct gm_edge *edge = &graph->edges.items[e];
		if ((edge->kind == GM_REF_STORAGE || edge->kind == GM_REF_WRAPPER) &&
		        !is_complete(reach, edge->from, depth - 1))
			return false;
	}
	return true;
}

static void count_complete(struct gm_reach *reach)
{
	struct gm_holders *graph = reach->graph;
	for (size_t i = 0; i < graph->storages.count; i++) {
		uint32_t vertex = gm_graph_find(graph, graph->storages.items[i].address);
		if (vertex == GM_NO_VERTEX || reach->local[vertex] == 0)
			continue;
		reach->storages++;
		reach->storages_complete += is_complete(reach, vertex, 2);
	}
}

/* ---------------------------------------------------------------------------------------------------
 */

static struct gm_error *build(struct gm_reach *reach, const struct gm_reach_options *options)
{
	reach->local = calloc(reach->graph->vertices.count + 1, sizeof(*reach->local));
	if (!reach->local)
		return &gm_error_no_memory;
	gm_reach_add_vertex(reach, GM_NO_VERTEX);
	gm_try(gm_reach_add_blocks(reach, options->host));
	mark_all(reach);
	if (!reach->no_memory)
		add_statics(reach);
	if (!reach->no_memory)
		add_variables(reach);
	sort_edges(reach);
	if (!reach->no_memory)
		gm_reach_add_missing(reach);
	sort_edges(reach);
	if (!reach->no_memory)
		gm_reach_name_parts(reach);
	if (!reach->no_memory)
		gm_reach_name_variables(reach);
	if (!reach->no_memory)
		find_tree(reach);
	if (!reach->no_memory)
		count_complete(reach);
	return reach->no_memory ? &gm_error_no_memory : NULL;
}

struct gm_error *gm_reach_create(struct gm_holders *graph, const struct gm_reach_options *options,
        struct gm_reach **ret_reach)
{
	struct gm_reach *reach = calloc(1, sizeof(*reach));
	if (!reach)
		return &gm_error_no_memory;
	reach->graph = graph;
	struct gm_error *error = build(reach, options);
	if (error)
		gm_reach_destroy(reach);
	else
		*ret_reach = reach;
	return error;
}
