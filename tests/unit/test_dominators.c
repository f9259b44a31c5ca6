/* Dominators against their definition: take a vertex away and see what the root no longer
 * reaches. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "holders/graph/dominators.h"

enum { MOST = 40, MOST_EDGES = 200 };

struct graph {
	uint32_t count, edge_count;
	uint32_t from[MOST_EDGES], to[MOST_EDGES];
	uint32_t first[MOST + 1], targets[MOST_EDGES];
};

static uint32_t random_below(uint64_t *state, uint32_t bound)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)(*state >> 20) % bound;
}

static void sort_edges(struct graph *graph)
{
	uint32_t at = 0;
	for (uint32_t v = 0; v < graph->count; v++) {
		graph->first[v] = at;
		for (uint32_t e = 0; e < graph->edge_count; e++)
			if (graph->from[e] == v)
				graph->targets[at++] = graph->to[e];
	}
	graph->first[graph->count] = at;
}

static void reach(const struct graph *graph, uint32_t without, bool *reached)
{
	uint32_t stack[MOST], depth = 0;
	memset(reached, 0, MOST * sizeof(*reached));
	if (without == 0)
		return;
	reached[0] = true;
	stack[depth++] = 0;
	while (depth > 0) {
		uint32_t v = stack[--depth];
		for (uint32_t e = graph->first[v]; e < graph->first[v + 1]; e++) {
			uint32_t to = graph->targets[e];
			if (to != without && !reached[to]) {
				reached[to] = true;
				stack[depth++] = to;
			}
		}
	}
}

/* dominates[a][b]: without a, b is not reached. */
static void check(const struct graph *graph)
{
	static bool dominates[MOST][MOST];
	bool all[MOST], left[MOST];
	uint32_t found[MOST];
	reach(graph, UINT32_MAX, all);
	for (uint32_t a = 0; a < graph->count; a++) {
		reach(graph, a, left);
		for (uint32_t b = 0; b < graph->count; b++)
			dominates[a][b] = all[b] && !left[b];
	}
	assert_true(gm_dominators(graph->count, graph->first, graph->targets, 0, found));
	for (uint32_t v = 0; v < graph->count; v++) {
		if (v == 0 || !all[v]) {
			assert_int_equal(found[v], GM_NO_DOMINATOR);
			continue;
		}
		/* the one of its dominators that all its other dominators dominate */
		uint32_t immediate = found[v];
		assert_true(immediate < graph->count);
		assert_int_not_equal(immediate, v);
		assert_true(dominates[immediate][v]);
		for (uint32_t a = 0; a < graph->count; a++)
			if (a != v && dominates[a][v])
				assert_true(dominates[a][immediate]);
	}
}

static void random_graphs_have_the_dominators_of_the_definition(void **unused)
{
	uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
	static struct graph graph;
	for (int round = 0; round < 5000; round++) {
		graph.count = 1 + random_below(&state, MOST);
		graph.edge_count = random_below(
		        &state, graph.count * 4 < MOST_EDGES ? graph.count * 4 + 1 : MOST_EDGES);
		for (uint32_t e = 0; e < graph.edge_count; e++) {
			graph.from[e] = random_below(&state, graph.count);
			graph.to[e] = random_below(&state, graph.count);
		}
		sort_edges(&graph);
		check(&graph);
	}
}

/* Many ways side by side, with crossings between neighbours: dominators far up. */
static void ladders_have_the_dominators_of_the_definition(void **unused)
{
	uint64_t state = 88172645463325252;
	static struct graph graph;
	for (int round = 0; round < 1000; round++) {
		graph.count = MOST;
		graph.edge_count = 0;
		for (uint32_t v = 1; v < MOST; v++) {
			graph.from[graph.edge_count] = v < 3 ? 0 : v - 2;
			graph.to[graph.edge_count++] = v;
		}
		for (int e = 0; e < 10; e++) {
			uint32_t from = random_below(&state, MOST);
			graph.from[graph.edge_count] = from;
			graph.to[graph.edge_count++] = (from + random_below(&state, 7)) % MOST;
		}
		sort_edges(&graph);
		check(&graph);
	}
}

static void a_chain_of_a_million_needs_no_deep_stack(void **unused)
{
	enum { LENGTH = 1000000 };
	uint32_t *first = malloc((LENGTH + 1) * sizeof(*first));
	uint32_t *targets = malloc(LENGTH * sizeof(*targets)),
	         *found = malloc(LENGTH * sizeof(*found));
	assert_true(first && targets && found);
	for (uint32_t v = 0; v < LENGTH; v++) {
		first[v] = v;
		targets[v] = v + 1 < LENGTH ? v + 1 : 0;
	}
	first[LENGTH] = LENGTH;
	assert_true(gm_dominators(LENGTH, first, targets, 0, found));
	assert_int_equal(found[0], GM_NO_DOMINATOR);
	for (uint32_t v = 1; v < LENGTH; v++)
		assert_int_equal(found[v], v - 1);
	free(first);
	free(targets);
	free(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(random_graphs_have_the_dominators_of_the_definition),
	        cmocka_unit_test(ladders_have_the_dominators_of_the_definition),
	        cmocka_unit_test(a_chain_of_a_million_needs_no_deep_stack),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
