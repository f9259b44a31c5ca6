/*
 * The graph of references once it is sorted: by what an edge points to and else in the order in
 * which edges were found, without what leads nowhere, without guesses that a count says are none.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "holders/graph/counts.h"
#include "random_process.h"

enum { OBJECTS = 30, MOST_FOUND = 200, RUNS = 4 };

struct found {
	struct gm_edge edges[MOST_FOUND]; /* in the order of the graph, runs where they belong */
	bool of_run[MOST_FOUND];
	size_t count;
};

static void add_edge(struct found *found, struct gm_edge edge, bool of_run)
{
	assert_true(found->count < MOST_FOUND);
	found->of_run[found->count] = of_run;
	found->edges[found->count++] = edge;
}

/* Edges that native code has, and runs of references between Python's objects in between. */
static void fill(struct process *process, struct random *random, struct found *found)
{
	struct gm_holders *graph = process->graph;
	uint32_t objects[OBJECTS];
	for (int i = 0; i < OBJECTS; i++)
		objects[i] = process_object(process, PROCESS_THING, 24);
	for (int run = 0; run < RUNS; run++) {
		size_t count = random_below(random, 20);
		struct gm_walk_reference *references = calloc(count + 1, sizeof(*references));
		assert_non_null(references);
		for (size_t i = random_below(random, 4); i > 0; i--) {
			struct gm_edge edge = {objects[random_below(random, OBJECTS)],
			        objects[random_below(random, OBJECTS)], random_below(random, 100),
			        GM_REF_HOOK};
			gm_graph_refer(graph, edge.from, edge.to, GM_REF_HOOK, edge.extra, 0);
			add_edge(found, edge, false);
		}
		for (size_t i = 0; i < count; i++) {
			struct gm_edge edge = {objects[random_below(random, OBJECTS)],
			        objects[random_below(random, OBJECTS)],
			        random_below(random, 6), /* no guess */
			        GM_REF_PYTHON};
			references[i].from = edge.from;
			references[i].to = edge.to;
			references[i].extra = edge.extra;
			add_edge(found, edge, true);
		}
		gm_graph_take(graph, references, count);
	}
}

static bool refers(const struct found *found, const bool *kept, uint32_t from)
{
	for (size_t i = 0; i < found->count; i++)
		if (kept[i] && found->edges[i].from == from)
			return true;
	return false;
}

/* Three times: an object that refers to nothing is referred to by no object of Python's any more.
 * Twice of it takes effect, as the first one only looks. */
static void prune(const struct found *found, bool *kept)
{
	for (int twice = 0; twice < 2; twice++) {
		bool next[MOST_FOUND];
		for (size_t i = 0; i < found->count; i++)
			next[i] = kept[i] &&
			          (!found->of_run[i] || refers(found, kept, found->edges[i].to));
		memcpy(kept, next, sizeof(next));
	}
}

static void check_graph(
        uint64_t round, const struct gm_holders *graph, const struct found *found, const bool *kept)
{
	size_t at = 0;
	for (uint32_t v = 0; v < graph->vertices.count; v++) {
		const struct gm_vertex *vertex = &graph->vertices.items[v];
		check_in_round(round, vertex->first == at);
		for (size_t i = 0; i < found->count; i++) {
			if (!kept[i] || found->edges[i].to != v)
				continue;
			const struct gm_edge *edge = &graph->edges.items[at++];
			check_in_round(round, at <= graph->edges.count);
			check_in_round(round, edge->from == found->edges[i].from && edge->to == v);
			check_in_round(round, edge->kind == found->edges[i].kind &&
			                              edge->extra == found->edges[i].extra);
		}
		check_in_round(round, vertex->first + vertex->count == at);
	}
	check_in_round(round, graph->edges.count == at);
}

static void edges_are_sorted_by_target_and_keep_their_order(void **state)
{
	size_t pruned = 0;
	for (uint64_t round = 0; round < random_rounds(600); round++) {
		struct random random = random_of_round(round);
		struct process process;
		static struct found found;
		bool kept[MOST_FOUND];
		found.count = 0;
		process_begin(&process);
		fill(&process, &random, &found);
		process.graph->keep_all = round % 2;
		memset(kept, true, sizeof(kept));
		if (!process.graph->keep_all)
			prune(&found, kept);
		process_ready(&process);
		check_graph(round, process.graph, &found, kept);
		for (size_t i = 0; i < found.count; i++)
			pruned += !kept[i];
		process_end(&process);
	}
	assert_true(pruned > 1000);
}

/* Of each object: known references, guesses and a count. */
static void conservative_references_are_left_out_if_the_known_ones_are_all(void **state)
{
	size_t dropped = 0, left = 0;
	for (uint64_t round = 0; round < random_rounds(600); round++) {
		struct random random = random_of_round(round);
		struct process process;
		process_begin(&process);
		uint32_t holder = process_list(&process), targets[6];
		size_t known[6], guesses[6], counted[6];
		for (int t = 0; t < 6; t++) {
			targets[t] = process_object(&process, PROCESS_THING, 24);
			known[t] = random_below(&random, 4);
			guesses[t] = random_below(&random, 3);
			for (size_t i = 0; i < known[t] + guesses[t]; i++)
				gm_graph_refer(process.graph, holder, targets[t], GM_REF_PYTHON,
				        i < known[t] ? GM_EDGE_ITEM : GM_EDGE_GUESS, 0);
			/* process_ready() counts all edges: some of the guesses are none */
			counted[t] = known[t] + random_below(&random, (uint32_t)guesses[t] + 1);
			process.uncounted[targets[t]] =
			        (uint32_t)(counted[t] - known[t] - guesses[t]);
		}
		process_ready(&process);
		for (int t = 0; t < 6; t++) {
			const struct gm_vertex *vertex = &process.graph->vertices.items[targets[t]];
			bool all = known[t] > 0 && known[t] >= counted[t];
			check_in_round(
			        round, vertex->count == (all ? known[t] : known[t] + guesses[t]));
			check_in_round(round, gm_graph_guessed_references(process.graph,
			                              targets[t]) == (all ? 0 : guesses[t]));
			dropped += all && guesses[t];
			left += !all && guesses[t];
		}
		process_end(&process);
	}
	assert_true(dropped > 300 && left > 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(edges_are_sorted_by_target_and_keep_their_order),
	        cmocka_unit_test(conservative_references_are_left_out_if_the_known_ones_are_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
