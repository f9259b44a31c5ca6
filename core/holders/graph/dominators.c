#include "holders/graph/dominators.h"

#include <stdlib.h>
#include <string.h>

/*
 * All arrays are indexed by a vertex's number in the depth-first search, from 0 (the root). The
 * semidominator of a vertex is the smallest number from which a path leads to it through larger
 * numbers only. `ancestor` and `best` are the forest of the vertices processed so far: best[v] is
 * the vertex with the smallest semidominator on the path up.
 */
struct search {
	uint32_t count; /* vertices that can be reached from the root */
	uint32_t *vertex, *parent, *semi, *ancestor, *best, *dominator;
	uint32_t *bucket, *bucket_next; /* for each semidominator, a list of its vertices */
	uint32_t *stack;
	uint32_t *predecessor_first, *predecessors;
};

enum { NONE = UINT32_MAX, ARRAYS = 9 };

/* Numbers the vertices that can be reached from the root; `number` is indexed by vertex. */
static void number_vertices(struct search *search, const uint32_t *first, const uint32_t *targets,
        uint32_t root, uint32_t *number)
{
	uint32_t *next = search->bucket; /* not used yet; holds the next edge of each vertex */
	uint32_t depth = 0;
	number[root] = 0;
	search->vertex[0] = root;
	search->parent[0] = NONE;
	next[0] = first[root];
	search->count = 1;
	search->stack[depth++] = 0;
	while (depth > 0) {
		uint32_t at = search->stack[depth - 1];
		if (next[at] == first[search->vertex[at] + 1]) {
			depth--;
			continue;
		}
		uint32_t to = targets[next[at]++];
		if (number[to] != NONE)
			continue;
		uint32_t made = search->count++;
		number[to] = made;
		search->vertex[made] = to;
		search->parent[made] = at;
		next[made] = first[to];
		search->stack[depth++] = made;
	}
}

/* The edges between reached vertices, sorted by target. */
static bool turn_edges(struct search *search, const uint32_t *first, const uint32_t *targets,
        const uint32_t *number)
{
	uint32_t count = search->count;
	search->predecessor_first = calloc((size_t)count + 2, sizeof(uint32_t));
	if (!search->predecessor_first)
		return false;
	uint32_t *start =
	        search->predecessor_first + 1; /* one entry ahead while the array is filled */
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t e = first[search->vertex[i]]; e < first[search->vertex[i] + 1]; e++)
			start[number[targets[e]]]++;
	uint32_t sum = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t here = start[i];
		start[i] = sum;
		sum += here;
	}
	search->predecessors = malloc(((size_t)sum + 1) * sizeof(uint32_t));
	if (!search->predecessors)
		return false;
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t e = first[search->vertex[i]]; e < first[search->vertex[i] + 1]; e++)
			search->predecessors[start[number[targets[e]]]++] = i;
	return true;
}

/* The vertex with the smallest semidominator on the path up the forest. Compresses the path. */
static uint32_t evaluate(struct search *search, uint32_t v)
{
	uint32_t depth = 0;
	if (search->ancestor[v] == NONE)
		return v;
	for (uint32_t at = v; search->ancestor[search->ancestor[at]] != NONE;
	        at = search->ancestor[at])
		search->stack[depth++] = at;
	while (depth > 0) {
		uint32_t at = search->stack[--depth], above = search->ancestor[at];
		if (search->semi[search->best[above]] < search->semi[search->best[at]])
			search->best[at] = search->best[above];
		search->ancestor[at] = search->ancestor[above];
	}
	return search->best[v];
}

static void find(struct search *search)
{
	for (uint32_t i = 0; i < search->count; i++) {
		search->semi[i] = search->best[i] = i;
		search->ancestor[i] = search->bucket[i] = search->bucket_next[i] = NONE;
	}
	for (uint32_t w = search->count - 1; w > 0; w--) {
		for (uint32_t e = search->predecessor_first[w];
		        e < search->predecessor_first[w + 1]; e++) {
			uint32_t semi = search->semi[evaluate(search, search->predecessors[e])];
			if (semi < search->semi[w])
				search->semi[w] = semi;
		}
		search->bucket_next[w] = search->bucket[search->semi[w]];
		search->bucket[search->semi[w]] = w;
		uint32_t parent = search->parent[w];
		search->ancestor[w] = parent;
		for (uint32_t v = search->bucket[parent]; v != NONE; v = search->bucket_next[v]) {
			uint32_t u = evaluate(search, v);
			search->dominator[v] = search->semi[u] < search->semi[v] ? u : parent;
		}
		search->bucket[parent] = NONE;
	}
	for (uint32_t w = 1; w < search->count; w++)
		if (search->dominator[w] != search->semi[w])
			search->dominator[w] = search->dominator[search->dominator[w]];
}

bool gm_dominators(uint32_t count, const uint32_t *first, const uint32_t *targets, uint32_t root,
        uint32_t *ret_dominators)
{
	struct search search = {0};
	uint32_t *memory = malloc(((size_t)count * ARRAYS + 1) * sizeof(uint32_t));
	uint32_t *number = malloc(((size_t)count + 1) * sizeof(uint32_t));
	uint32_t **arrays[ARRAYS] = {&search.vertex, &search.parent, &search.semi, &search.ancestor,
	        &search.best, &search.dominator, &search.bucket, &search.bucket_next,
	        &search.stack};
	bool done = false;
	if (memory && number && root < count) {
		for (size_t i = 0; i < ARRAYS; i++)
			*arrays[i] = memory + i * count;
		memset(number, 0xff, (size_t)count * sizeof(uint32_t));
		number_vertices(&search, first, targets, root, number);
		done = turn_edges(&search, first, targets, number);
	}
	if (done) {
		find(&search);
		memset(ret_dominators, 0xff, (size_t)count * sizeof(uint32_t));
		for (uint32_t w = 1; w < search.count; w++)
			ret_dominators[search.vertex[w]] = search.vertex[search.dominator[w]];
	}
	free(search.predecessor_first);
	free(search.predecessors);
	free(number);
	free(memory);
	return done;
}
