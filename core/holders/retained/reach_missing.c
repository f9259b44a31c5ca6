#include "holders/retained/reach_missing.h"
#include "holders/graph/collect.h"
#include "holders/graph/counts.h"
#include "holders/graph/graph.h"
#include "holders/retained/reach_add.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Marks everything that `start` reaches; `stack` has capacity for all vertices. */
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

/* Is the object's count higher than the references that were found, without `without`? If the count
 * is unknown: were none found? */
bool gm_reach_lacks_references(struct gm_reach *reach, uint32_t vertex, uint64_t without)
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
	return gm_reach_lacks_references(reach, vertex, 0);
}

/* The vertices that are not in `reached`, in the order in which a depth-first search leaves them.
 * */
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

/* Garbage does not retain what it refers to: the collector will free it. */
static void drop_garbage_references(struct gm_reach *reach, const bool *reached, uint32_t count)
{
	for (size_t i = 0; i < reach->edges.count; i++) {
		struct gm_reach_edge *edge = &reach->edges.items[i];
		if (edge->from < count && edge->to < count && !reached[edge->from] &&
		        reached[edge->to])
			edge->to = edge->from; /* an edge to itself does not count; all other edges
			                          keep their order */
	}
}

/* For each vertex that no root leads to: does gc.collect() free it? NULL: no memory. */
static bool *find_collected(struct gm_reach *reach, const bool *reached, uint32_t count)
{
	_cleanup_free_ uint32_t *vertices = malloc(((size_t)count + 1) * sizeof(*vertices));
	_cleanup_free_ bool *freed = calloc((size_t)count + 1, 1);
	bool *collected = calloc((size_t)count + 1, 1);
	size_t of = 0;
	bool done = vertices && freed && collected;
	for (uint32_t v = 1; done && v < count; v++)
		if (!reached[v] && reach->vertices.items[v] != GM_NO_VERTEX)
			vertices[of++] = reach->vertices.items[v];
	done = done && (of == 0 || gm_graph_collect(reach->graph, vertices, of, freed));
	for (size_t i = 0; done && i < of; i++)
		collected[reach->local[vertices[i]]] = freed[i];
	if (done)
		return collected;
	free(collected);
	reach->no_memory = true;
	return NULL;
}

struct found {
	const uint32_t *order; /* leave_order() */
	uint32_t left;
	const bool *collected;
	bool *reached;
	uint32_t *stack;
};

/* One object of each group that nothing holds is attached to the root: of those that gc.collect()
 * frees, or of the others. */
static void hold(struct gm_reach *reach, const struct found *found, enum gm_variable_kind kind,
        bool collected)
{
	uint32_t variable = 0;
	for (uint32_t left = found->left; left-- > 0 && !reach->no_memory;) {
		uint32_t at = found->order[left];
		if (found->reached[at] || found->collected[at] != collected ||
		        reach->vertices.items[at] == GM_NO_VERTEX) /* a block */
			continue;
		if (!variable)
			gm_reach_add_variable(reach, kind, GM_NO_VERTEX, &variable);
		struct gm_reach_edge edge = {.from = variable, .to = at};
		gm_reach_add_edge(reach, edge);
		flood(reach, at, found->reached, found->stack);
	}
}

/*
 * If a count shows that there are more references than were found, an unknown holder refers to the
 * object, in addition to the known ones or alone. Objects that refer to each other and cannot be
 * reached from a variable or such an object are garbage, or cycles that the collector cannot free.
 * From each group, one object is attached to the root: the first in reverse order of leaving in a
 * depth-first search, which is in a cycle that no other cycle reaches. What garbage refers to is
 * not retained by it, so the groups that stay come first.
 */
void gm_reach_add_missing(struct gm_reach *reach)
{
	uint32_t count = reach->count, missing = 0;
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
			gm_reach_add_variable(reach, GM_VARIABLE_MISSING, GM_NO_VERTEX, &missing);
		struct gm_reach_edge edge = {.from = missing, .to = v};
		gm_reach_add_edge(reach, edge);
	}
	/* the new edges are not sorted: they come after the others */
	for (size_t i = reach->first[count]; i < reach->edges.count && !reach->no_memory; i++)
		if (reach->edges.items[i].from == missing && missing)
			flood(reach, reach->edges.items[i].to, reached, stack);
	_cleanup_free_ bool *collected = find_collected(reach, reached, count);
	if (!collected)
		return;
	uint32_t *order = stack + count + 1, *next = order + count + 1;
	uint32_t left = leave_order(reach, reached, count, stack, next, order);
	const struct found found = {order, left, collected, reached, stack};
	hold(reach, &found, GM_VARIABLE_CYCLES, false);
	drop_garbage_references(reach, reached, count);
	hold(reach, &found, GM_VARIABLE_GARBAGE, true);
}
