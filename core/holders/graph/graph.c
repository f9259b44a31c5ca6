#include "holders/graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/team.h"

enum {
	MAX_VERTICES = 1 << 25,
	MAX_EDGES = 1 << 28,
	MAX_NATIVES = (1 << 24) - 1, /* an edge's extra has 24 bits */
};

uint32_t gm_graph_add(
        struct gm_holders *graph, uint64_t address, enum gm_vertex_kind kind, uint32_t detail)
{
	bool is_new;
	uint32_t number = gm_address_set_find(&graph->objects, address);
	if (number != GM_NO_ADDRESS_NUMBER)
		return number;
	if (graph->vertices.count >= MAX_VERTICES) {
		graph->hits_truncated = true;
		return GM_NO_VERTEX;
	}
	uint64_t *slot = gm_map_put(&graph->by_address, address, &is_new);
	if (!slot) {
		graph->no_memory |= address != 0;
		return GM_NO_VERTEX;
	}
	if (!is_new)
		return (uint32_t)(*slot - 1);
	struct gm_vertex vertex = {.address = address, .kind = (uint8_t)kind, .detail = detail};
	if (!gm_array_push(&graph->vertices, vertex)) {
		graph->no_memory = true;
		return GM_NO_VERTEX;
	}
	*slot = graph->vertices.count;
	return (uint32_t)(graph->vertices.count - 1);
}

void gm_graph_refer(struct gm_holders *graph, uint32_t from, uint32_t to, enum gm_reference kind,
        uint32_t extra, uint64_t word)
{
	if (from == GM_NO_VERTEX || to == GM_NO_VERTEX)
		return;
	if (graph->edges.count + graph->run_edges >= MAX_EDGES) {
		graph->hits_truncated = true;
		return;
	}
	struct gm_edge edge = {from, to, extra & 0xffffff, (uint8_t)kind};
	if (!gm_array_push(&graph->edges, edge) ||
	        (word && !gm_map_put(&graph->typed_words, word, NULL)))
		graph->no_memory = true;
}

void gm_graph_refer_native(struct gm_holders *graph, uint32_t from, uint64_t address, uint32_t to,
        uint64_t word, const char *kind, const char *text, bool inferred)
{
	struct gm_native native = {strdup(text), kind, word, inferred};
	if (graph->natives.count >= MAX_NATIVES || !native.text ||
	        !gm_array_push(&graph->natives, native)) {
		free(native.text);
		graph->no_memory |= graph->natives.count < MAX_NATIVES;
		return;
	}
	if (from == GM_NO_VERTEX)
		from = gm_graph_add(graph, address, GM_VERTEX_NATIVE, 0);
	gm_graph_refer(graph, from, to, GM_REF_NATIVE, (uint32_t)(graph->natives.count - 1), word);
}

void gm_graph_take(struct gm_holders *graph, struct gm_walk_reference *references, size_t count)
{
	size_t room = MAX_EDGES - graph->run_edges;
	if (count > room) {
		graph->hits_truncated = true;
		count = room;
	}
	struct gm_edge_run run = {references, count, graph->edges.count};
	if (count > 0 && gm_array_push(&graph->runs, run)) {
		graph->run_edges += count;
	} else {
		graph->no_memory |= count > 0;
		free(references);
	}
}

/* --- what leads nowhere ----------------------------------------------------------------------------- */

struct pruning {
	struct gm_holders *graph;
	const uint8_t *leads; /* to something, by vertex; NULL: all do */
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
		/* by several threads, and all the same */
		__atomic_store_n(&pruning->still_leads[reference.from], 1, __ATOMIC_RELAXED);
	}
	run->count = kept;
}

/* Of lists of numbers in dicts in lists each round takes one level; what is deep is little. */
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

/* --- by target -------------------------------------------------------------------------------------- */

static void free_runs(struct gm_holders *graph)
{
	for (size_t i = 0; i < graph->runs.count; i++)
		free(graph->runs.items[i].references);
	gm_array_deinit(&graph->runs);
}

/* Vertices are split in parts, one for each thread, which looks at all edges and takes those that lead to its own. */
struct freezing {
	struct gm_holders *graph;
	uint32_t *
	        next; /* by vertex: how many edges lead there; then where the next one of these goes */
	struct gm_edge *sorted;
	size_t part_size;
	size_t first[GM_TEAM_MOST + 1]; /* edge of each part */
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

/* A counting sort by what an edge points to; edges of one target keep their order. */
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
		gm_graph_drop_guesses(graph);
	}
	free_runs(graph);
	graph->run_edges = 0;
	free(freezing.next);
	return freezing.sorted != NULL;
}

void gm_graph_deinit_edges(struct gm_holders *graph)
{
	free_runs(graph);
	gm_array_deinit(&graph->edges);
}
