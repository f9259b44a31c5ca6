#include "holders/graph/graph.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	MAX_VERTICES = 1 << 25,
	MAX_EDGES = 1 << 28,
	MAX_NATIVES = (1 << 24) - 1, /* the `extra` field of an edge has 24 bits */
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
        uint64_t word, const char *kind, struct gm_native_owner *owner, bool inferred)
{
	struct gm_native native = {owner, kind, word, inferred};
	if (graph->natives.count >= MAX_NATIVES || !owner ||
	        !gm_array_push(&graph->natives, native)) {
		graph->no_memory |= graph->natives.count < MAX_NATIVES;
		return;
	}
	gm_native_owner_share(owner);
	if (from == GM_NO_VERTEX)
		from = gm_graph_add(graph, address, GM_VERTEX_NATIVE, 0);
	gm_graph_refer(graph, from, to, GM_REF_NATIVE, (uint32_t)(graph->natives.count - 1), word);
}

void gm_graph_take(struct gm_holders *graph, struct gm_walk_reference *references, size_t count)
{
	size_t left = MAX_EDGES - graph->run_edges;
	if (count > left) {
		graph->hits_truncated = true;
		count = left;
	}
	struct gm_edge_run run = {references, count, graph->edges.count};
	if (count > 0 && gm_array_push(&graph->runs, run)) {
		graph->run_edges += count;
	} else {
		graph->no_memory |= count > 0;
		free(references);
	}
}

void gm_graph_deinit_runs(struct gm_holders *graph)
{
	for (size_t i = 0; i < graph->runs.count; i++)
		free(graph->runs.items[i].references);
	gm_array_deinit(&graph->runs);
}

void gm_graph_deinit_edges(struct gm_holders *graph)
{
	gm_graph_deinit_runs(graph);
	gm_array_deinit(&graph->edges);
}
