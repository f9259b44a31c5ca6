/*
 * Sorts the edges by target. Before that it removes edges that lead to no block; after it,
 * conservative references that the reference counts contradict.
 */
#include "holders/graph/freeze.h"

#include <stdlib.h>
#include <string.h>

#include "base/team.h"
#include "holders/graph/counts.h"
#include "holders/graph/graph.h"

/* --- edges that lead to no block -------------------------------------------------------------- */

struct pruning {
	struct gm_holders *graph;
	const uint8_t *leads; /* by vertex, whether it leads to a block; NULL: all do */
	uint8_t *still_leads;
};

static void prune_run(void *context, size_t number)
{
	struct pruning *pruning = context;
	struct gm_edge_run *run = &pruning->graph->runs.items[number];
	size_t kept = 0;
	for (size_t i = 0; i < run->count; i++) {
		struct gm_walk_reference reference = run->references[i];
		if (pruning->leads && !pruning->leads[reference.to])
			continue;
		run->references[kept++] = reference;
		/* written by several threads, all with the same value */
		__atomic_store_n(&pruning->still_leads[reference.from], 1, __ATOMIC_RELAXED);
	}
	run->count = kept;
}

/* In nested containers (lists of numbers in dicts in lists) each round removes one level; deep
 * nesting is rare. */
static bool prune(struct gm_holders *graph)
{
	enum { ROUNDS = 3 };
	size_t count = graph->vertices.count;
	uint8_t *leads = malloc(count + 1), *still_leads = malloc(count + 1);
	bool done = leads && still_leads;
	for (unsigned round = 0; round < ROUNDS && done; round++) {
		memset(still_leads, 0, count);
		for (size_t i = 0; i < graph->edges.count; i++)
			still_leads[graph->edges.items[i].from] = 1;
		struct pruning pruning = {graph, round ? leads : NULL, still_leads};
		gm_team_run(graph->runs.count, prune_run, &pruning);
		uint8_t *swapped = leads;
		leads = still_leads;
		still_leads = swapped;
	}
	free(leads);
	free(still_leads);
	return done;
}

/* --- by target -------------------------------------------------------------------------------- */

/* Vertices are divided among the threads. Each thread reads all edges and takes those that lead to
 * its own vertices. */
struct freezing {
	struct gm_holders *graph;
	uint32_t *next; /* by vertex: first the number of its edges, then the position of the next
	                   one */
	struct gm_edge *sorted;
	size_t part_size;
	size_t first[GM_TEAM_MOST + 1]; /* edges of each thread's range */
};

static bool is_of(const struct freezing *freezing, size_t part, uint32_t vertex)
{
	return vertex - part * freezing->part_size < freezing->part_size;
}

static void count_part(void *context, size_t part)
{
	struct freezing *freezing = context;
	const struct gm_holders *graph = freezing->graph;
	uint32_t *counts = freezing->next;
	size_t sum = 0;
	for (size_t i = 0; i < graph->edges.count; i++)
		if (is_of(freezing, part, graph->edges.items[i].to)) {
			counts[graph->edges.items[i].to]++;
			sum++;
		}
	for (size_t r = 0; r < graph->runs.count; r++)
		for (size_t i = 0; i < graph->runs.items[r].count; i++)
			if (is_of(freezing, part, graph->runs.items[r].references[i].to)) {
				counts[graph->runs.items[r].references[i].to]++;
				sum++;
			}
	freezing->first[part + 1] = sum;
}

static void number_part(struct freezing *freezing, size_t part)
{
	struct gm_holders *graph = freezing->graph;
	uint32_t first = (uint32_t)freezing->first[part];
	for (size_t i = part * freezing->part_size;
	        i < graph->vertices.count && is_of(freezing, part, (uint32_t)i); i++) {
		struct gm_vertex *vertex = &graph->vertices.items[i];
		vertex->first = first;
		vertex->count = freezing->next[i];
		freezing->next[i] = first;
		first += vertex->count;
	}
}

static void place_part(void *context, size_t part)
{
	struct freezing *freezing = context;
	struct gm_holders *graph = freezing->graph;
	struct gm_edge *sorted = freezing->sorted;
	uint32_t *next = freezing->next;
	number_part(freezing, part);
	for (size_t r = 0, i = 0; r <= graph->runs.count; r++) {
		const struct gm_edge_run *run =
		        r < graph->runs.count ? &graph->runs.items[r] : NULL;
		for (; i < (run ? run->after : graph->edges.count); i++)
			if (is_of(freezing, part, graph->edges.items[i].to))
				sorted[next[graph->edges.items[i].to]++] = graph->edges.items[i];
		for (size_t k = 0; run && k < run->count; k++)
			if (is_of(freezing, part, run->references[k].to))
				sorted[next[run->references[k].to]++] =
				        (struct gm_edge){.from = run->references[k].from,
				                .to = run->references[k].to,
				                .extra = run->references[k].extra & 0xffffff,
				                .kind = GM_REF_PYTHON};
	}
}

/* --- conservative references ------------------------------------------------------------------ */

/*
 * A word in the unknown part of a C type that points at an object may own it or be stale: fields
 * that are not set when the object is created contain whatever the memory had before. If the
 * references from known fields are as many as the reference count, no such word can be one.
 */
/* For the edges to one vertex: how many to remove. */
static size_t surplus(struct gm_holders *graph, const struct gm_edge *edges, size_t count)
{
	uint64_t refcount;
	size_t guesses = 0;
	for (size_t i = 0; i < count; i++)
		guesses += gm_edge_is_guess(graph, &edges[i]);
	return guesses > 0 && guesses < count && gm_graph_refcount(graph, edges[0].to, &refcount) &&
	                       count - guesses >= refcount
	               ? guesses
	               : 0;
}

static void drop_guesses(struct gm_holders *graph)
{
	struct gm_edge *edges = graph->edges.items;
	size_t kept = 0;
	for (size_t v = 0; v < graph->vertices.count; v++) {
		struct gm_vertex *vertex = &graph->vertices.items[v];
		size_t first = vertex->first, count = vertex->count;
		bool drop = count > 0 && surplus(graph, edges + first, count) > 0;
		vertex->first = (uint32_t)kept;
		for (size_t i = first; i < first + count; i++) {
			if (drop && gm_edge_is_guess(graph, &edges[i]))
				continue;
			if (kept != i)
				edges[kept] = edges[i];
			kept++;
		}
		vertex->count = (uint32_t)(kept - vertex->first);
	}
	graph->edges.count = kept;
}

/* ---------------------------------------------------------------------------------------------------
 */

/* A counting sort by target; edges with the same target keep their order. */
bool gm_graph_freeze(struct gm_holders *graph)
{
	struct freezing freezing = {.graph = graph};
	size_t parts = gm_team_size(), count = graph->vertices.count;
	if (!graph->frozen)
		graph->cost.references = graph->edges.count + graph->run_edges;
	freezing.part_size = count / parts + 1;
	freezing.next = calloc(count + 1, sizeof(*freezing.next));
	if (!freezing.next || graph->no_memory || (!graph->keep_all && !prune(graph))) {
		free(freezing.next);
		return false;
	}
	gm_team_run(parts, count_part, &freezing);
	for (size_t i = 0; i < parts; i++)
		freezing.first[i + 1] += freezing.first[i];
	size_t edges = freezing.first[parts];
	freezing.sorted = malloc((edges + 1) * sizeof(*freezing.sorted));
	if (freezing.sorted) {
		gm_team_run(parts, place_part, &freezing);
		free(graph->edges.items);
		graph->edges.items = freezing.sorted;
		graph->edges.count = edges;
		graph->edges.capacity = edges + 1;
		graph->frozen = true;
		drop_guesses(graph);
	}
	gm_graph_deinit_runs(graph);
	graph->run_edges = 0;
	free(freezing.next);
	return freezing.sorted != NULL;
}
