/*
 * Who holds a block, in thousands of random graphs: marks, distances, nearest roots, chains, ways
 * and the listed holders equal those of a search that examines every edge until nothing changes.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "holders/search/finding.h"
#include "holders/graph/graph.h"
#include "holders/holders.h"
#include "holders/search/chains.h"
#include "holders/search/roots.h"
#include "holders/search/ways.h"
#include "random_process.h"

enum { FAR = 1 << 20 };

/* What a plain search knows of each vertex. */
struct plain {
	struct gm_holders *graph;
	size_t count;
	bool start[MOST_VERTICES], own[MOST_VERTICES], marked[MOST_VERTICES];
	uint32_t to_block[MOST_VERTICES], from_root[MOST_VERTICES], around_own[MOST_VERTICES];
	bool leads[MOST_VERTICES][MOST_VERTICES]; /* by references between marked vertices */
	uint64_t ways[MOST_VERTICES];             /* 0: not known yet */
};

static bool is_root(const struct plain *plain, uint32_t vertex)
{
	const struct gm_vertex *at = &plain->graph->vertices.items[vertex];
	return at->kind == GM_VERTEX_FRAME || at->kind == GM_VERTEX_THREAD ||
	       at->kind == GM_VERTEX_NATIVE || (at->flags & GM_VERTEX_ROOT_MODULE);
}

/* The length of each kind of reference, as a user sees it. */
static uint32_t length_of(const struct gm_edge *edge)
{
	if (edge->kind == GM_REF_PYTHON && (edge->extra & GM_LINK_IS_DICT))
		return 0;
	if (edge->kind == GM_REF_PYTHON)
		return edge->extra == GM_EDGE_ITEM                                       ? 3
		       : edge->extra == GM_EDGE_OTHER                                    ? 4
		       : edge->extra == GM_EDGE_DICT_KEY || edge->extra == GM_EDGE_GUESS ? 12
		                                                                         : 2;
	return edge->kind == GM_REF_NATIVE                                      ? 8
	       : edge->kind == GM_REF_ACCUMULATE || edge->kind == GM_REF_THREAD ? 12
	                                                                        : 2;
}

/* Does the search follow the edge? It does not go beyond a root. */
static bool leads_on(const struct plain *plain, const struct gm_edge *edge)
{
	return plain->marked[edge->from] && plain->marked[edge->to] && !is_root(plain, edge->to);
}

static bool lower(uint32_t *distance, uint32_t than)
{
	if (than >= *distance)
		return false;
	*distance = than;
	return true;
}

static void search_marks(struct plain *plain)
{
	const struct gm_holders *graph = plain->graph;
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < graph->edges.count; i++) {
			const struct gm_edge *edge = &graph->edges.items[i];
			bool own = edge->kind == GM_REF_STORAGE || edge->kind == GM_REF_WRAPPER;
			if (plain->own[edge->to] && own && !plain->own[edge->from])
				changed = plain->own[edge->from] = true;
			if (!plain->marked[edge->from] && !is_root(plain, edge->to) &&
			        (plain->marked[edge->to] || plain->own[edge->to]))
				changed = plain->marked[edge->from] = true;
		}
	}
	for (size_t v = 0; v < plain->count; v++)
		plain->marked[v] |= plain->own[v];
}

static void search_distances(struct plain *plain)
{
	const struct gm_holders *graph = plain->graph;
	for (uint32_t v = 0; v < plain->count; v++) {
		plain->to_block[v] = plain->own[v] ? 0 : FAR;
		plain->from_root[v] = plain->marked[v] && is_root(plain, v) ? 0 : FAR;
		plain->around_own[v] = plain->from_root[v];
	}
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < graph->edges.count; i++) {
			const struct gm_edge *edge = &graph->edges.items[i];
			uint32_t length = length_of(edge);
			if (!leads_on(plain, edge))
				continue;
			changed |= lower(
			        &plain->to_block[edge->from], plain->to_block[edge->to] + length);
			changed |= lower(
			        &plain->from_root[edge->to], plain->from_root[edge->from] + length);
			if (!plain->own[edge->from])
				changed |= lower(&plain->around_own[edge->to],
				        plain->around_own[edge->from] + length);
		}
	}
}

static void search_reachable(struct plain *plain)
{
	const struct gm_holders *graph = plain->graph;
	for (size_t i = 0; i < graph->edges.count; i++)
		if (leads_on(plain, &graph->edges.items[i]))
			plain->leads[graph->edges.items[i].from][graph->edges.items[i].to] = true;
	for (size_t k = 0; k < plain->count; k++)
		for (size_t i = 0; i < plain->count; i++)
			for (size_t j = 0; j < plain->count && plain->leads[i][k]; j++)
				plain->leads[i][j] |= plain->leads[k][j];
}

static bool of_one_group(const struct plain *plain, uint32_t a, uint32_t b)
{
	return a == b || (plain->leads[a][b] && plain->leads[b][a]);
}

/* By its definition: what leads to each other is one; it has the ways of all that it refers to
 * outside. */
static uint64_t ways_of(struct plain *plain, uint32_t vertex)
{
	const struct gm_holders *graph = plain->graph;
	uint64_t ways = 0;
	if (plain->ways[vertex])
		return plain->ways[vertex] - 1;
	for (uint32_t v = 0; v < plain->count; v++)
		if (of_one_group(plain, v, vertex) &&
		        (plain->own[v] || graph->vertices.items[v].kind == GM_VERTEX_NODE))
			ways = 1;
	if (ways == 0) {
		for (size_t i = 0; i < graph->edges.count; i++) {
			const struct gm_edge *edge = &graph->edges.items[i];
			if (leads_on(plain, edge) && of_one_group(plain, edge->from, vertex) &&
			        !of_one_group(plain, edge->to, vertex))
				ways += ways_of(plain, edge->to);
		}
		ways = ways < GM_WAYS_MOST ? ways : GM_WAYS_MOST;
	}
	plain->ways[vertex] = ways + 1;
	return ways;
}

static struct plain *search(struct gm_holders *graph, uint64_t block, uint64_t size)
{
	static struct plain plain;
	memset(&plain, 0, sizeof(plain));
	plain.graph = graph;
	plain.count = graph->vertices.count;
	for (size_t i = 0; i < graph->storages.count; i++) {
		const struct gm_storage *storage = &graph->storages.items[i];
		uint32_t vertex = gm_graph_find(graph, storage->address);
		plain.start[vertex] = storage->data >= block && storage->data < block + size;
		plain.own[vertex] = plain.start[vertex];
	}
	search_marks(&plain);
	search_distances(&plain);
	search_reachable(&plain);
	return &plain;
}

/* --- marks and distances ---------------------------------------------------------------------- */

static void begin_finding(
        struct gm_finding *finding, struct gm_holders_answer *answer, const struct plain *plain)
{
	*finding = (struct gm_finding){.graph = plain->graph, .answer = answer};
	for (uint32_t v = 0; v < plain->count; v++)
		if (plain->start[v])
			gm_finding_mark(finding, v, GM_NO_EDGE, true);
	gm_finding_mark_all(finding);
	gm_finding_find_roots(finding);
}

static void end_finding(struct gm_finding *finding)
{
	for (size_t i = 0; i < finding->chains.count; i++)
		free(finding->chains.items[i].edges);
	gm_array_deinit(&finding->chains);
	gm_array_deinit(&finding->chain_unattributed);
	gm_array_deinit(&finding->marks);
	gm_map_deinit(&finding->mark_of);
	gm_map_deinit(&finding->reported);
	free(finding->forward.first);
	free(finding->forward.edges);
}

static void check_mark(
        uint64_t round, struct gm_finding *finding, const struct plain *plain, uint32_t v)
{
	const struct gm_mark *mark = gm_finding_mark_at(finding, v);
	const struct gm_edge *edges = plain->graph->edges.items;
	check_in_round(round, (mark != NULL) == plain->marked[v]);
	if (!mark)
		return;
	check_in_round(round, mark->own == plain->own[v]);
	check_in_round(round, mark->to_block == plain->to_block[v]);
	if (plain->start[v]) {
		check_in_round(round, mark->towards == GM_NO_EDGE);
	} else {
		const struct gm_edge *edge = &edges[mark->towards];
		check_in_round(round, edge->from == v && plain->marked[edge->to]);
		check_in_round(round, plain->own[v] ? plain->own[edge->to]
		                                    : plain->to_block[edge->to] + length_of(edge) ==
		                                              plain->to_block[v]);
	}
	if (plain->from_root[v] == FAR) {
		check_in_round(round, mark->from_root == GM_NO_DISTANCE);
		return;
	}
	check_in_round(round, mark->from_root == plain->from_root[v]);
	if (is_root(plain, v))
		return;
	const struct gm_edge *edge = &edges[mark->root_edge];
	check_in_round(round, edge->to == v && plain->from_root[edge->from] + length_of(edge) ==
	                                               plain->from_root[v]);
}

static void marks_and_distances_are_those_of_a_plain_search(void **state)
{
	for (uint64_t round = 0; round < random_rounds(2000); round++) {
		struct process process;
		struct gm_holders_answer answer = {0};
		struct gm_finding finding;
		process_make_random(&process, round, 0);
		struct plain *plain = search(process.graph, BLOCK, BLOCK_SIZE);
		begin_finding(&finding, &answer, plain);
		for (uint32_t v = 0; v < plain->count; v++)
			check_mark(round, &finding, plain, v);
		uint32_t *ways = gm_finding_count_ways(&finding);
		assert_non_null(ways);
		for (size_t i = 0; i < finding.marks.count; i++)
			check_in_round(
			        round, ways[i] == ways_of(plain, finding.marks.items[i].vertex));
		free(ways);
		end_finding(&finding);
		process_end(&process);
	}
}

/* --- chains ----------------------------------------------------------------------------------- */

/* The reference in a chain by which something else holds one of the block's own objects; -1:
 * none. */
static int64_t direct_of(
        const struct plain *plain, const struct gm_chain *chain, uint32_t *ret_before)
{
	const struct gm_edge *edges = plain->graph->edges.items;
	int64_t direct = -1;
	uint32_t length = 0;
	*ret_before = 0;
	for (size_t i = 0; i < chain->count; i++) {
		const struct gm_edge *edge = &edges[chain->edges[i]];
		if (plain->own[edge->to] && !plain->own[edge->from]) {
			direct = chain->edges[i];
			*ret_before = length;
		}
		length += length_of(edge);
	}
	return direct;
}

static void check_chain(uint64_t round, const struct plain *plain, const struct gm_chain *chain)
{
	const struct gm_edge *edges = plain->graph->edges.items;
	assert_true(chain->count > 0);
	for (size_t i = 0; i + 1 < chain->count; i++)
		check_in_round(round, edges[chain->edges[i]].to == edges[chain->edges[i + 1]].from);
	check_in_round(round, plain->start[edges[chain->edges[chain->count - 1]].to]);
	check_in_round(round, chain->rooted == is_root(plain, edges[chain->edges[0]].from));
}

/* Each reference of a root to something that leads to the block; all that C++ has at one place is
 * one. */
static size_t root_keys(const struct plain *plain, uint64_t *ret_keys)
{
	const struct gm_holders *graph = plain->graph;
	size_t count = 0;
	for (uint32_t e = 0; e < graph->edges.count; e++) {
		const struct gm_edge *edge = &graph->edges.items[e];
		if (!is_root(plain, edge->from) || !leads_on(plain, edge))
			continue;
		bool native = graph->vertices.items[edge->from].kind == GM_VERTEX_NATIVE;
		uint64_t key = native ? UINT64_C(1) << 40 | edge->from : e;
		bool known = false;
		for (size_t i = 0; i < count; i++)
			known |= ret_keys[i] == key;
		if (!known)
			ret_keys[count++] = key;
	}
	return count;
}

static void check_roots(uint64_t round, const struct plain *plain, const struct gm_finding *finding)
{
	static uint64_t keys[MOST_EDGES];
	size_t count = root_keys(plain, keys);
	for (size_t k = 0; k < count; k++) {
		bool told = false;
		for (size_t i = 0; i < finding->chains.count; i++) {
			const struct gm_chain *chain = &finding->chains.items[i];
			uint32_t from = plain->graph->edges.items[chain->edges[0]].from;
			told |= chain->edges[0] == keys[k] || (UINT64_C(1) << 40 | from) == keys[k];
		}
		check_in_round(round, told);
	}
}

/* Whatever refers to one of the block's own objects is in a chain, and the chain comes by the
 * nearest way. */
static void check_direct(
        uint64_t round, const struct plain *plain, const struct gm_finding *finding)
{
	const struct gm_holders *graph = plain->graph;
	for (uint32_t e = 0; e < graph->edges.count; e++) {
		const struct gm_edge *edge = &graph->edges.items[e];
		uint32_t nearest = FAR, length;
		if (!plain->own[edge->to] || plain->own[edge->from] || edge->kind == GM_REF_WRAPPED)
			continue;
		bool told = false;
		for (size_t i = 0; i < finding->chains.count; i++) {
			const struct gm_chain *chain = &finding->chains.items[i];
			if (direct_of(plain, chain, &length) != e)
				continue;
			told = true;
			if (chain->rooted)
				lower(&nearest, length);
		}
		check_in_round(round, told);
		if (plain->from_root[edge->from] == FAR)
			check_in_round(round, nearest == FAR);
		else
			check_in_round(round, nearest >= plain->from_root[edge->from] &&
			                              (nearest <= plain->around_own[edge->from]));
	}
}

/* The root's reference with which the nearest way to a vertex begins. */
static uint32_t first_of(struct gm_finding *finding, const struct plain *plain, uint32_t e)
{
	while (!is_root(plain, plain->graph->edges.items[e].from))
		e = gm_finding_mark_at(finding, plain->graph->edges.items[e].from)->root_edge;
	return e;
}

static bool nearest_leads_through(
        struct gm_finding *finding, const struct plain *plain, uint32_t from, uint32_t through)
{
	while (from != through && !is_root(plain, from))
		from = plain->graph->edges.items[gm_finding_mark_at(finding, from)->root_edge].from;
	return from == through;
}

/* The only holder's only holder, and so on, up to what several hold. */
static uint32_t top_of(const struct plain *plain, uint32_t top)
{
	const struct gm_holders *graph = plain->graph;
	for (;;) {
		const struct gm_vertex *vertex = &graph->vertices.items[top];
		if (is_root(plain, top) || vertex->count != 1)
			return top;
		const struct gm_edge *only = &graph->edges.items[vertex->first];
		bool own_dict = only->kind == GM_REF_PYTHON && (only->extra & GM_LINK_IS_DICT);
		if (plain->own[only->from] || (plain->from_root[only->from] == FAR && !own_dict))
			return top;
		top = only->from;
	}
}

/* If several objects hold one on the way, each of them gives a chain. */
static size_t check_branches(uint64_t round, const struct plain *plain, struct gm_finding *finding)
{
	const struct gm_holders *graph = plain->graph;
	size_t branches = 0;
	for (uint32_t d = 0; d < graph->edges.count; d++) {
		const struct gm_edge *direct = &graph->edges.items[d];
		if (!plain->own[direct->to] || plain->own[direct->from] ||
		        direct->kind == GM_REF_WRAPPED)
			continue;
		uint32_t top = top_of(plain, direct->from), length;
		const struct gm_vertex *vertex = &graph->vertices.items[top];
		if (is_root(plain, top) || vertex->kind != GM_VERTEX_PYTHON ||
		        (vertex->flags & GM_VERTEX_WRAPPER))
			continue;
		for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++) {
			uint32_t from = graph->edges.items[e].from;
			if (plain->own[from] || plain->from_root[from] == FAR ||
			        nearest_leads_through(finding, plain, from, top))
				continue;
			bool told = false;
			for (size_t i = 0; i < finding->chains.count; i++)
				told |= direct_of(plain, &finding->chains.items[i], &length) == d &&
				        finding->chains.items[i].edges[0] ==
				                first_of(finding, plain, e);
			check_in_round(round, told);
			branches++;
		}
	}
	return branches;
}

static void check_no_chain_twice(uint64_t round, const struct gm_finding *finding)
{
	for (size_t i = 0; i < finding->chains.count; i++)
		for (size_t k = 0; k < i; k++) {
			const struct gm_chain *a = &finding->chains.items[i];
			const struct gm_chain *b = &finding->chains.items[k];
			check_in_round(round,
			        a->count != b->count || memcmp(a->edges, b->edges,
			                                        a->count * sizeof(*a->edges)) != 0);
		}
}

static void each_root_and_each_direct_reference_has_a_chain(void **state)
{
	size_t chains = 0, further_chains = 0, branches = 0;
	for (uint64_t round = 0; round < random_rounds(2000); round++) {
		struct process process;
		struct gm_holders_answer answer = {0};
		struct gm_finding finding;
		process_make_random(&process, round, 0);
		struct plain *plain = search(process.graph, BLOCK, BLOCK_SIZE);
		begin_finding(&finding, &answer, plain);
		gm_finding_find_chains(&finding);
		size_t nearest = finding.chains.count;
		gm_finding_find_further_roots(&finding);
		assert_false(finding.no_memory);
		for (size_t i = 0; i < finding.chains.count; i++)
			check_chain(round, plain, &finding.chains.items[i]);
		/* a root that is nobody's nearest one comes by its own best way */
		for (size_t i = nearest; i < finding.chains.count; i++) {
			const struct gm_chain *chain = &finding.chains.items[i];
			uint32_t length = 0;
			for (size_t k = 1; k < chain->count; k++)
				length +=
				        plain->own[process.graph->edges.items[chain->edges[k]].from]
				                ? 0
				                : length_of(&process.graph->edges
				                                     .items[chain->edges[k]]);
			uint32_t to = process.graph->edges.items[chain->edges[0]].to;
			check_in_round(round, length == plain->to_block[to]);
		}
		check_roots(round, plain, &finding);
		check_direct(round, plain, &finding);
		branches += check_branches(round, plain, &finding);
		check_no_chain_twice(round, &finding);
		chains += finding.chains.count;
		further_chains += finding.chains.count - nearest;
		end_finding(&finding);
		process_end(&process);
	}
	assert_true(chains > 4000 && further_chains > 100 &&
	            branches > 1000); /* the graphs were complex enough */
}

/* --- the answer ------------------------------------------------------------------------------- */

/* A root as an answer names it. */
struct named_root {
	char text[64];
	uint64_t ways;
	bool seen;
};

static size_t name_roots(struct plain *plain, struct named_root *ret_roots)
{
	const struct gm_holders *graph = plain->graph;
	size_t count = 0;
	for (uint32_t e = 0; e < graph->edges.count; e++) {
		const struct gm_edge *edge = &graph->edges.items[e];
		const struct gm_vertex *from = &graph->vertices.items[edge->from];
		if (!is_root(plain, edge->from) || !leads_on(plain, edge) ||
		        from->kind == GM_VERTEX_NATIVE)
			continue;
		struct named_root *root = &ret_roots[count++];
		*root = (struct named_root){.ways = ways_of(plain, edge->to)};
		if (from->kind == GM_VERTEX_FRAME)
			snprintf(root->text, sizeof(root->text), "v%u of f%u", edge->extra,
			        from->detail);
		else
			snprintf(root->text, sizeof(root->text), "%s",
			        graph->modules.items[from->detail].name);
	}
	return count;
}

/* Globals are told by their keys, which the graph does not keep: by the module and the ways
 * here. */
static void see_root(
        uint64_t round, const struct gm_holder *holder, struct named_root *roots, size_t count)
{
	const struct gm_holder_step *step = &holder->steps[0];
	char text[64];
	bool local = step->form == GM_STEP_LOCAL;
	snprintf(text, sizeof(text), local ? "%s of %s" : "%s%s", local ? step->name : "",
	        step->function);
	size_t i = 0;
	while (i < count && (roots[i].seen || roots[i].ways != holder->ways ||
	                            strcmp(roots[i].text, text) != 0))
		i++;
	check_in_round(round, i < count);
	roots[i].seen = true;
}

static void check_answer(
        uint64_t round, struct plain *plain, const struct gm_holders_answer *answer)
{
	static struct named_root roots[MOST_EDGES];
	static uint64_t keys[MOST_EDGES];
	size_t count = name_roots(plain, roots), numbered = 0;
	check_in_round(round, answer->roots == root_keys(plain, keys));
	for (size_t i = 0; i < answer->holder_count; i++) {
		const struct gm_holder *holder = &answer->holders[i];
		check_in_round(round, holder->step_count > 0);
		if (!holder->rooted)
			continue;
		check_in_round(round, holder->root > 0 && holder->root <= numbered + 1);
		check_in_round(round, holder->further == (holder->root <= numbered));
		numbered += !holder->further;
		if (!holder->further && holder->steps[0].form != GM_STEP_NATIVE)
			see_root(round, holder, roots, count);
	}
	check_in_round(round, answer->omitted_roots == answer->roots - numbered);
	if (answer->omitted_roots == 0)
		for (size_t i = 0; i < count; i++)
			check_in_round(round, roots[i].seen);
}

static void an_answer_has_each_root_once_with_its_ways(void **state)
{
	for (uint64_t round = 0; round < random_rounds(1500); round++) {
		struct process process;
		struct gm_holders_answer answer;
		process_make_random(&process, round, 0);
		assert_null(gm_holders_find(process.graph, BLOCK, &answer));
		struct plain *plain = search(process.graph, answer.address, answer.size);
		check_in_round(round, answer.address == BLOCK && answer.place == GM_PLACE_STORAGE);
		check_in_round(round, answer.complete);
		check_in_round(round, answer.note_count == 0);
		check_answer(round, plain, &answer);
		gm_holders_answer_deinit(&answer);
		process_end(&process);
	}
}

/* --- what is missing -------------------------------------------------------------------------- */

static bool counts_more(const struct process *process, const struct plain *plain, uint32_t v)
{
	enum gm_vertex_kind kind = plain->graph->vertices.items[v].kind;
	bool counted = kind == GM_VERTEX_STORAGE || kind == GM_VERTEX_TENSOR ||
	               kind == GM_VERTEX_NODE || kind == GM_VERTEX_PYTHON;
	return counted && process->uncounted[v] > 0;
}

static void a_count_that_is_too_high_makes_an_answer_incomplete_and_adds_no_holder(void **state)
{
	size_t complete = 0, garbage = 0, cycles = 0, unknown = 0;
	for (uint64_t round = 0; round < random_rounds(1000); round++) {
		struct process process;
		struct gm_holders_answer answer;
		bool lacks = false, islands_held = false;
		process_make_random(&process, round, RANDOM_UNCOUNTED);
		assert_null(gm_holders_find(process.graph, BLOCK, &answer));
		struct plain *plain = search(process.graph, answer.address, answer.size);
		for (uint32_t v = 0; v < plain->count; v++) {
			if (!plain->marked[v] || is_root(plain, v) ||
			        !counts_more(&process, plain, v))
				continue;
			lacks = true;
			islands_held |= !plain->own[v] && plain->from_root[v] == FAR;
		}
		check_in_round(round, answer.complete == !lacks);
		check_in_round(round, (answer.note_count > 0) == lacks);
		check_answer(round, plain, &answer);
		for (size_t i = 0; i < answer.holder_count; i++) {
			const struct gm_holder *holder = &answer.holders[i];
			check_in_round(round, holder->class == GM_PROVEN);
			bool nothing =
			        holder->end == GM_CHAIN_GARBAGE || holder->end == GM_CHAIN_CYCLE;
			check_in_round(round, nothing == (!holder->rooted && !islands_held));
			check_in_round(round,
			        nothing || holder->end == (holder->rooted ? GM_CHAIN_ROOTED
			                                                  : GM_CHAIN_UNKNOWN));
			garbage += holder->end == GM_CHAIN_GARBAGE;
			cycles += holder->end == GM_CHAIN_CYCLE;
			unknown += holder->end == GM_CHAIN_UNKNOWN;
		}
		complete += answer.complete;
		gm_holders_answer_deinit(&answer);
		process_end(&process);
	}
	assert_true(complete > 100 && garbage > 20 && cycles > 20 && unknown > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(marks_and_distances_are_those_of_a_plain_search),
	        cmocka_unit_test(each_root_and_each_direct_reference_has_a_chain),
	        cmocka_unit_test(an_answer_has_each_root_once_with_its_ways),
	        cmocka_unit_test(
	                a_count_that_is_too_high_makes_an_answer_incomplete_and_adds_no_holder),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
