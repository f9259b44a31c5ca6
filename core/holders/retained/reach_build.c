#include "holders/retained/reach_build.h"
#include "holders/graph/counts.h"
#include "holders/graph/graph.h"
#include "holders/graph/strings.h"
#include "holders/native/native.h"
#include "holders/place.h"
#include "holders/retained/parts.h"
#include "holders/retained/reach.h"
#include "holders/retained/variables.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "torch/statics.h"

enum {
	MAX_MARKED = 1 << 25,
	MAX_LENGTH = 8, /* of an edge */
	NOT_REACHED = UINT32_MAX,
};

static uint32_t add_vertex(struct gm_reach *reach, uint32_t graph_vertex)
{
	if (reach->vertices.count >= MAX_MARKED || !gm_array_push(&reach->vertices, graph_vertex)) {
		reach->no_memory = true;
		return 0;
	}
	reach->count = (uint32_t)reach->vertices.count;
	return reach->count - 1;
}

static uint32_t mark(struct gm_reach *reach, uint32_t graph_vertex)
{
	if (reach->local[graph_vertex] == 0)
		reach->local[graph_vertex] = add_vertex(reach, graph_vertex);
	return reach->local[graph_vertex];
}

static void add_edge(struct gm_reach *reach, struct gm_reach_edge edge)
{
	if (!gm_array_push(&reach->edges, edge))
		reach->no_memory = true;
}

/* --- blocks ----------------------------------------------------------------------------------- */

static void add_block(struct gm_reach *reach, uint64_t address, uint64_t bytes, int device)
{
	struct gm_reach_block block = {add_vertex(reach, GM_NO_VERTEX), address, bytes, device};
	if (!gm_array_push(&reach->blocks, block))
		reach->no_memory = true;
}

static int by_data(const void *a, const void *b, void *context)
{
	const struct gm_storage *storages = context;
	const struct gm_storage *left = &storages[*(const uint32_t *)a];
	const struct gm_storage *right = &storages[*(const uint32_t *)b];
	if (left->data != right->data)
		return left->data < right->data ? -1 : 1;
	return left->size > right->size ? -1 : left->size < right->size;
}

static void refer_block(struct gm_reach *reach, const struct gm_storage *storage)
{
	uint32_t from = mark(reach, gm_graph_find(reach->graph, storage->address));
	struct gm_reach_edge edge = {
	        .from = from, .to = reach->blocks.items[reach->blocks.count - 1].vertex};
	if (from)
		add_edge(reach, edge);
}

/* Each storage in host memory is a block of its own, unless it lies within another's memory. */
static void add_host_blocks(struct gm_reach *reach, const uint32_t *sorted, size_t count)
{
	struct gm_holders *graph = reach->graph;
	for (size_t i = 0; i < count; i++) {
		const struct gm_storage *storage = &graph->storages.items[sorted[i]];
		if (storage->device_type != GM_DEVICE_CPU || !storage->data || !storage->size)
			continue;
		const struct gm_reach_block *last =
		        reach->blocks.count ? &reach->blocks.items[reach->blocks.count - 1] : NULL;
		if (!last || storage->data - last->address >= last->bytes)
			add_block(reach, storage->data, storage->size, -1);
		if (!reach->no_memory)
			refer_block(reach, storage);
	}
}

/* The allocator's blocks in use, and the storages whose memory begins in each. */
static void add_device_blocks(struct gm_reach *reach, const uint32_t *sorted, size_t count)
{
	struct gm_holders *graph = reach->graph;
	size_t at = 0;
	for (size_t i = 0; i < graph->block_count && !reach->no_memory; i++) {
		const struct gm_block_record *block = &graph->blocks[i];
		if (!block->allocated)
			continue;
		add_block(reach, block->address, block->size, block->device);
		while (at < count && graph->storages.items[sorted[at]].data < block->address)
			at++;
		for (; at < count && !reach->no_memory; at++) {
			const struct gm_storage *storage = &graph->storages.items[sorted[at]];
			if (storage->data - block->address >= block->size)
				break;
			refer_block(reach, storage);
		}
	}
}

static struct gm_error *add_blocks(struct gm_reach *reach, bool host)
{
	struct gm_holders *graph = reach->graph;
	size_t count = graph->storages.count;
	_cleanup_free_ uint32_t *sorted = malloc((count + 1) * sizeof(*sorted));
	if (!sorted)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++)
		sorted[i] = (uint32_t)i;
	if (count)
		qsort_r(sorted, count, sizeof(*sorted), by_data, graph->storages.items);
	if (host) {
		add_host_blocks(reach, sorted, count);
		return NULL;
	}
	gm_try(gm_graph_blocks(graph));
	add_device_blocks(reach, sorted, count);
	return NULL;
}

/* --- marking ---------------------------------------------------------------------------------- */

/* Backwards from the storages; a root's references become names of variables. */
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
			struct gm_reach_edge made = {
			        .from = mark(reach, edge->from), .to = i, .reference = edge->kind};
			if (made.from)
				add_edge(reach, made);
		}
	}
}

static uint32_t add_variable(
        struct gm_reach *reach, enum gm_variable_kind kind, uint32_t object, uint32_t *ret_vertex)
{
	struct gm_variable variable = {
	        .vertex = add_vertex(reach, GM_NO_VERTEX), .object = object, .kind = kind};
	if (!gm_array_push(&reach->variables, variable)) {
		reach->no_memory = true;
		return 0;
	}
	struct gm_reach_edge edge = {.from = 0, .to = variable.vertex, .part = GM_PART_VARIABLE};
	add_edge(reach, edge);
	if (object != GM_NO_VERTEX) {
		edge = (struct gm_reach_edge){.from = variable.vertex, .to = object};
		add_edge(reach, edge);
	}
	*ret_vertex = variable.vertex;
	return (uint32_t)reach->variables.count - 1;
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

/* A variable that functions share is a cell. Where the function that has the variable is under way,
 * the variable is what holds the cell's content: to delete it empties the cell, whoever holds the
 * cell itself. */
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
		uint32_t number = add_variable(reach, GM_VARIABLE_NAMED, object, &vertex);
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

/* --- what C++ keeps --------------------------------------------------------------------------- */

struct statics {
	struct gm_reach *reach;
	uint32_t variables[GM_STATIC_AUTOCAST + 1]; /* vertices; 0: not made yet */
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
		uint32_t number = add_variable(
		        reach, GM_VARIABLE_NATIVE, GM_NO_VERTEX, &statics->variables[kind]);
		if (reach->no_memory)
			return;
		struct gm_variable *variable = &reach->variables.items[number];
		_cleanup_owner_ struct gm_native_owner *owner = gm_static_owner(kind);
		variable->label = gm_reach_native_label(reach, owner);
		variable->workspace = kind == GM_STATIC_CUBLAS || kind == GM_STATIC_CUBLASLT;
	}
	struct gm_reach_edge edge = {.from = statics->variables[kind], .to = to};
	add_edge(reach, edge);
}

/* What C++ holds, each told once: all that autocast has cast is one. */
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
			uint32_t vertex = 0, number = add_variable(reach, GM_VARIABLE_NATIVE,
			                             GM_NO_VERTEX, &vertex);
			if (reach->no_memory)
				break;
			reach->variables.items[number].label = label;
			*slot = vertex;
		}
		struct gm_reach_edge made = {.from = (uint32_t)*slot, .to = reach->local[edge->to]};
		add_edge(reach, made);
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

/* Sorts the edges by where they start. */
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

/* --- what no variable reaches, or not alone --------------------------------------------------- */

/* Marks what `start` reaches; `stack` has room for all. */
static void flood(struct gm_reach *reach, uint32_t start, bool *reached, uint32_t *stack)
{
	uint32_t depth = 0;
	if (reached[start])
		return;
	reached[start] = true;
	stack[depth++] = start;
	while (depth > 0) {
		uint32_t v = stack[--depth];
		for (uint32_t e = reach->first[v]; e < reach->first[v + 1]; e++) {
			uint32_t to = reach->edges.items[e].to;
			if (!reached[to]) {
				reached[to] = true;
				stack[depth++] = to;
			}
		}
	}
}

/* Is its count higher than what was found, but for `without`? Unknown counts are, where nothing was
 * found. */
static bool lacks_references_without(struct gm_reach *reach, uint32_t vertex, uint64_t without)
{
	uint64_t refcount;
	uint32_t at = reach->vertices.items[vertex];
	uint64_t found = reach->graph->vertices.items[at].count + reach->more[vertex] - without;
	if (!gm_graph_refcount(reach->graph, at, &refcount))
		return found == 0;
	return found < refcount;
}

static bool lacks_references(struct gm_reach *reach, uint32_t vertex)
{
	return lacks_references_without(reach, vertex, 0);
}

/* The vertices that `reached` lacks, in the order in which a depth-first search leaves them. */
static uint32_t leave_order(struct gm_reach *reach, const bool *reached, uint32_t count,
        uint32_t *stack, uint32_t *next, uint32_t *ret_order)
{
	uint32_t made = 0;
	_cleanup_free_ bool *seen = malloc((size_t)count + 1);
	if (!seen) {
		reach->no_memory = true;
		return 0;
	}
	memcpy(seen, reached, count);
	for (uint32_t v = 1; v < count; v++) {
		uint32_t depth = 0;
		if (seen[v] || reach->vertices.items[v] == GM_NO_VERTEX)
			continue;
		seen[v] = true;
		next[v] = reach->first[v];
		stack[depth++] = v;
		while (depth > 0) {
			uint32_t at = stack[depth - 1];
			if (next[at] == reach->first[at + 1]) {
				ret_order[made++] = at;
				depth--;
				continue;
			}
			uint32_t to = reach->edges.items[next[at]++].to;
			if (seen[to])
				continue;
			seen[to] = true;
			next[to] = reach->first[to];
			stack[depth++] = to;
		}
	}
	return made;
}

/* What garbage refers to is not kept by it: the collector takes it away. */
static void drop_garbage_references(struct gm_reach *reach, const bool *reached, uint32_t count)
{
	for (size_t i = 0; i < reach->edges.count; i++) {
		struct gm_reach_edge *edge = &reach->edges.items[i];
		if (edge->from < count && edge->to < count && !reached[edge->from] &&
		        reached[edge->to])
			edge->to =
			        edge->from; /* an edge to itself is none; the order of all stays */
	}
}

/*
 * Where a count says that there are more references than were found, something unknown holds the
 * object, beside what was found or alone. Objects that neither a variable nor that reaches hold
 * each other: garbage. Of each group of garbage one object is given to the root: the first in the
 * reverse of the order in which a depth-first search leaves them belongs to a cycle that no other
 * one reaches.
 */
static void add_unfound(struct gm_reach *reach)
{
	uint32_t count = reach->count, missing = 0, garbage = 0;
	_cleanup_free_ bool *reached = calloc((size_t)count + 1, 1);
	_cleanup_free_ uint32_t *stack = malloc(((size_t)count + 1) * 3 * sizeof(*stack));
	if (!reached || !stack) {
		reach->no_memory = true;
		return;
	}
	flood(reach, 0, reached, stack);
	for (uint32_t v = 1; v < count && !reach->no_memory; v++) {
		if (reach->vertices.items[v] == GM_NO_VERTEX || !lacks_references(reach, v))
			continue;
		if (!missing)
			add_variable(reach, GM_VARIABLE_MISSING, GM_NO_VERTEX, &missing);
		struct gm_reach_edge edge = {.from = missing, .to = v};
		add_edge(reach, edge);
	}
	/* the new edges are not sorted in: they start behind */
	for (size_t i = reach->first[count]; i < reach->edges.count && !reach->no_memory; i++)
		if (reach->edges.items[i].from == missing && missing)
			flood(reach, reach->edges.items[i].to, reached, stack);
	drop_garbage_references(reach, reached, count);
	uint32_t *order = stack + count + 1, *next = order + count + 1;
	uint32_t left = leave_order(reach, reached, count, stack, next, order);
	while (left-- > 0 && !reach->no_memory) {
		if (reached[order[left]])
			continue;
		if (!garbage)
			add_variable(reach, GM_VARIABLE_GARBAGE, GM_NO_VERTEX, &garbage);
		struct gm_reach_edge edge = {.from = garbage, .to = order[left]};
		add_edge(reach, edge);
		flood(reach, order[left], reached, stack);
	}
}

/* --- the nearest way from the root ------------------------------------------------------------ */

static bool is_shorter(uint32_t length, uint32_t than)
{
	return than == NOT_REACHED || length < than;
}

/* Dijkstra's, with one list for each of the few lengths ahead. */
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
				continue; /* a shorter way was found since */
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

/* A storage, its tensors and the Python objects around them: are as many references found as they
 * count, guesses aside? */
static bool is_complete(struct gm_reach *reach, uint32_t graph_vertex, unsigned depth)
{
	struct gm_holders *graph = reach->graph;
	const struct gm_vertex *vertex = &graph->vertices.items[graph_vertex];
	if (reach->local[graph_vertex] == 0 ||
	        lacks_references_without(reach, reach->local[graph_vertex],
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
	add_vertex(reach, GM_NO_VERTEX);
	gm_try(add_blocks(reach, options->host));
	mark_all(reach);
	if (!reach->no_memory)
		add_statics(reach);
	if (!reach->no_memory)
		add_variables(reach);
	sort_edges(reach);
	if (!reach->no_memory)
		add_unfound(reach);
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
