#include "holders/graph/collect.h"

#include <stdlib.h>

#include "base/cleanup.h"

/* Numbers within an island are those of `vertices`. */
struct island {
	const struct gm_holders *graph;
	const uint32_t *vertices;
	size_t count;
	struct gm_map number_of; /* vertex + 1 -> number + 1 */
	/* A tensor and its Python object, where each holds the other: they are freed together, and
	 * the tensor's number stands for both. */
	uint32_t *together;
	uint32_t *first, *edges; /* those that start at number i: edges[first[i] .. first[i + 1]) */
	uint64_t *references;    /* by number: those that are left, of others */
	uint32_t *todo;
	size_t todo_count; /* each number is put there once at most, in either use */
};

enum { OUTSIDE = UINT32_MAX };

static uint32_t number_of(const struct island *island, uint32_t vertex)
{
	const uint64_t *found = gm_map_find(&island->number_of, (uint64_t)vertex + 1);
	return found ? (uint32_t)(*found - 1) : (uint32_t)OUTSIDE;
}

static const struct gm_vertex *vertex_of(const struct island *island, size_t number)
{
	return &island->graph->vertices.items[island->vertices[number]];
}

/* A reference of this kind to a vertex; NULL: there is none. */
static const struct gm_edge *reference(
        const struct gm_holders *graph, uint32_t to, enum gm_reference kind)
{
	const struct gm_vertex *vertex = &graph->vertices.items[to];
	for (uint32_t i = vertex->first; i < vertex->first + vertex->count; i++)
		if (graph->edges.items[i].kind == kind)
			return &graph->edges.items[i];
	return NULL;
}

/* ---- what the collector is shown ---------------------------------------------------------------
 */

/* A tensor's Python object shows the ctx of the tensor's node, if nothing else holds the node but
 * its ctx, nor the tensor. */
static bool shows_context(const struct gm_holders *graph, uint32_t node)
{
	const struct gm_vertex *at = &graph->vertices.items[node];
	const struct gm_edge *made = reference(graph, node, GM_REF_GRAD_FN);
	uint32_t own = reference(graph, node, GM_REF_NODE_OBJECT) ? 2 : 1;
	if (!made || at->count != own || graph->nodes.items[at->detail].refcount != own)
		return false;
	const struct gm_vertex *tensor = &graph->vertices.items[made->from];
	return tensor->count == 1 && graph->tensors.items[tensor->detail].refcount == 1 &&
	       reference(graph, made->from, GM_REF_WRAPPER);
}

/* A node's Python object shows its hooks, if nothing else holds the node; the ctx of an
 * autograd.Function never does. A tensor's shows its hooks, but not those that run after
 * accumulation: it has those itself too. */
static bool shows_hook(const struct gm_holders *graph, const struct gm_edge *edge)
{
	const struct gm_vertex *from = &graph->vertices.items[edge->from];
	if (from->kind == GM_VERTEX_NODE)
		return !graph->nodes.items[from->detail].python_object &&
		       graph->nodes.items[from->detail].refcount == 1 &&
		       reference(graph, edge->from, GM_REF_NODE_OBJECT);
	return from->kind == GM_VERTEX_PYTHON ||
	       (edge->extra != GM_HOOK_AFTER_ACCUMULATION &&
	               reference(graph, edge->from, GM_REF_WRAPPER));
}

static bool is_shown(const struct gm_holders *graph, const struct gm_edge *edge)
{
	switch ((enum gm_reference)edge->kind) {
	case GM_REF_PYTHON:
	case GM_REF_INSTANCE:
		return true;
	case GM_REF_CONTEXT:
		return shows_context(graph, edge->from);
	case GM_REF_HOOK:
		return shows_hook(graph, edge);
	default:
		return false;
	}
}

/* ---- the island --------------------------------------------------------------------------------
 */

static bool number(struct island *island)
{
	for (size_t i = 0; i < island->count; i++) {
		bool is_new;
		uint64_t *slot =
		        gm_map_put(&island->number_of, (uint64_t)island->vertices[i] + 1, &is_new);
		if (!slot)
			return false;
		*slot = i + 1;
	}
	return true;
}

/* The edges by where they start. */
static bool turn_edges(struct island *island)
{
	const struct gm_edge *edges = island->graph->edges.items;
	for (unsigned round = 0; round < 2; round++) {
		for (size_t i = 0; i < island->count; i++) {
			const struct gm_vertex *vertex = vertex_of(island, i);
			for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++) {
				uint32_t from = number_of(island, edges[e].from);
				if (from == OUTSIDE)
					continue;
				if (round == 0)
					island->first[from + 1]++;
				else
					island->edges[island->first[from]++] = e;
			}
		}
		if (round == 1)
			break;
		for (size_t i = 0; i < island->count; i++)
			island->first[i + 1] += island->first[i];
		island->edges =
		        malloc(((size_t)island->first[island->count] + 1) * sizeof(*island->edges));
		if (!island->edges)
			return false;
	}
	/* the second round moved each beginning to the next one's */
	for (size_t i = island->count; i > 0; i--)
		island->first[i] = island->first[i - 1];
	island->first[0] = 0;
	return true;
}

/* Of a tensor, or of a node, that owns its Python object while that owns it. */
static void put_together(struct island *island)
{
	for (size_t i = 0; i < island->count; i++)
		island->together[i] = (uint32_t)i;
	for (size_t i = 0; i < island->count; i++) {
		for (uint32_t k = island->first[i]; k < island->first[i + 1]; k++) {
			const struct gm_edge *edge = &island->graph->edges.items[island->edges[k]];
			if (edge->kind != GM_REF_WRAPPED && edge->kind != GM_REF_CONTEXT)
				continue;
			enum gm_reference back =
			        edge->kind == GM_REF_WRAPPED ? GM_REF_WRAPPER : GM_REF_NODE_OBJECT;
			const struct gm_edge *other = reference(island->graph, edge->from, back);
			uint32_t to = number_of(island, edge->to);
			if (other && other->from == edge->to && to != OUTSIDE)
				island->together[to] = (uint32_t)i;
		}
	}
}

static void count_references(struct island *island)
{
	for (size_t i = 0; i < island->count; i++) {
		const struct gm_vertex *vertex = vertex_of(island, i);
		uint32_t to = island->together[i];
		for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++) {
			uint32_t from = number_of(island, island->graph->edges.items[e].from);
			island->references[to] += from == OUTSIDE || island->together[from] != to;
		}
	}
}

/* ---- collecting --------------------------------------------------------------------------------
 */

/* Does an object, or the tensor or node behind it, show what the edge leads to? */
static bool leads_on(const struct gm_holders *graph, const struct gm_edge *edge)
{
	return edge->kind == GM_REF_WRAPPER || edge->kind == GM_REF_GRAD_FN ||
	       is_shown(graph, edge);
}

/* Python's objects that stay: those with a reference that the collector is not shown, and what they
 * show. */
static void keep(struct island *island, bool *stays)
{
	const struct gm_holders *graph = island->graph;
	for (size_t i = 0; i < island->count; i++) {
		const struct gm_vertex *vertex = vertex_of(island, i);
		for (uint32_t e = vertex->first; e < vertex->first + vertex->count && !stays[i] &&
		                                 vertex->kind == GM_VERTEX_PYTHON;
		        e++)
			stays[i] = !is_shown(graph, &graph->edges.items[e]) ||
			           number_of(island, graph->edges.items[e].from) == OUTSIDE;
		if (stays[i])
			island->todo[island->todo_count++] = (uint32_t)i;
	}
	while (island->todo_count > 0) {
		uint32_t at = island->todo[--island->todo_count];
		for (uint32_t k = island->first[at]; k < island->first[at + 1]; k++) {
			const struct gm_edge *edge = &graph->edges.items[island->edges[k]];
			uint32_t to = number_of(island, edge->to);
			if (stays[to] || !leads_on(graph, edge))
				continue;
			stays[to] = true;
			island->todo[island->todo_count++] = to;
		}
	}
}

static void release(struct island *island, uint32_t at, bool *freed)
{
	for (uint32_t k = island->first[at]; k < island->first[at + 1]; k++) {
		uint32_t to = number_of(island, island->graph->edges.items[island->edges[k]].to);
		uint32_t group = island->together[to];
		if (group == island->together[at]) {
			if (to != group) /* the Python object of this tensor */
				release(island, to, freed);
		} else if (!freed[group] && --island->references[group] == 0) {
			freed[group] = true;
			island->todo[island->todo_count++] = group;
		}
	}
}

/* The others are freed, and then what nothing refers to any more. */
static void collect(struct island *island, const bool *stays, bool *freed)
{
	for (size_t i = 0; i < island->count; i++) {
		freed[i] = vertex_of(island, i)->kind == GM_VERTEX_PYTHON && !stays[i] &&
		           island->together[i] == i;
		if (freed[i])
			island->todo[island->todo_count++] = (uint32_t)i;
	}
	while (island->todo_count > 0)
		release(island, island->todo[--island->todo_count], freed);
	for (size_t i = 0; i < island->count; i++)
		freed[i] = freed[island->together[i]];
}

bool gm_graph_collect(
        const struct gm_holders *graph, const uint32_t *vertices, size_t count, bool *ret_freed)
{
	struct island island = {.graph = graph, .vertices = vertices, .count = count};
	_cleanup_free_ bool *stays = calloc(count + 1, 1);
	island.together = malloc((count + 1) * sizeof(*island.together));
	island.first = calloc(count + 2, sizeof(*island.first));
	island.references = calloc(count + 1, sizeof(*island.references));
	island.todo = malloc((count + 1) * sizeof(*island.todo));
	bool done = stays && island.together && island.first && island.references && island.todo &&
	            number(&island) && turn_edges(&island);
	if (done) {
		put_together(&island);
		count_references(&island);
		keep(&island, stays);
		collect(&island, stays, ret_freed);
	}
	gm_map_deinit(&island.number_of);
	free(island.together);
	free(island.first);
	free(island.edges);
	free(island.references);
	free(island.todo);
	return done;
}
