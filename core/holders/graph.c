#include "holders/graph.h"

#include <string.h>

enum {
	MAX_VERTICES = 1 << 25,
	MAX_EDGES = 1 << 28,
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
	if (graph->edges.count >= MAX_EDGES) {
		graph->hits_truncated = true;
		return;
	}
	struct gm_edge edge = {from, to, extra & 0xffffff, (uint8_t)kind};
	if (!gm_array_push(&graph->edges, edge) ||
	        (word && !gm_map_put(&graph->typed_words, word, NULL)))
		graph->no_memory = true;
}

/* A counting sort by what an edge points to; edges of one target keep their order. */
bool gm_graph_freeze(struct gm_holders *graph)
{
	size_t count = graph->edges.count;
	struct gm_edge *sorted = malloc((count + 1) * sizeof(*sorted));
	if (!sorted || graph->no_memory) {
		free(sorted);
		return false;
	}
	for (size_t i = 0; i < count; i++)
		graph->vertices.items[graph->edges.items[i].to].count++;
	uint32_t first = 0;
	for (size_t i = 0; i < graph->vertices.count; i++) {
		struct gm_vertex *vertex = &graph->vertices.items[i];
		vertex->first = first;
		first += vertex->count;
		vertex->count = 0;
	}
	for (size_t i = 0; i < count; i++) {
		struct gm_vertex *vertex = &graph->vertices.items[graph->edges.items[i].to];
		sorted[vertex->first + vertex->count++] = graph->edges.items[i];
	}
	free(graph->edges.items);
	graph->edges.items = sorted;
	graph->edges.capacity = count + 1;
	graph->frozen = true;
	return true;
}
