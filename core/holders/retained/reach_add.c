#include "holders/retained/reach_add.h"
#include "holders/retained/parts.h"

enum { MAX_MARKED = 1 << 25 };

uint32_t gm_reach_add_vertex(struct gm_reach *reach, uint32_t graph_vertex)
{
	if (reach->vertices.count >= MAX_MARKED || !gm_array_push(&reach->vertices, graph_vertex)) {
		reach->no_memory = true;
		return 0;
	}
	reach->count = (uint32_t)reach->vertices.count;
	return reach->count - 1;
}

uint32_t gm_reach_mark(struct gm_reach *reach, uint32_t graph_vertex)
{
	if (reach->local[graph_vertex] == 0)
		reach->local[graph_vertex] = gm_reach_add_vertex(reach, graph_vertex);
	return reach->local[graph_vertex];
}

void gm_reach_add_edge(struct gm_reach *reach, struct gm_reach_edge edge)
{
	if (!gm_array_push(&reach->edges, edge))
		reach->no_memory = true;
}

uint32_t gm_reach_add_variable(
        struct gm_reach *reach, enum gm_variable_kind kind, uint32_t object, uint32_t *ret_vertex)
{
	struct gm_variable variable = {
	        .vertex = gm_reach_add_vertex(reach, GM_NO_VERTEX), .object = object, .kind = kind};
	if (!gm_array_push(&reach->variables, variable)) {
		reach->no_memory = true;
		return 0;
	}
	struct gm_reach_edge edge = {.from = 0, .to = variable.vertex, .part = GM_PART_VARIABLE};
	gm_reach_add_edge(reach, edge);
	if (object != GM_NO_VERTEX) {
		edge = (struct gm_reach_edge){.from = variable.vertex, .to = object};
		gm_reach_add_edge(reach, edge);
	}
	*ret_vertex = variable.vertex;
	return (uint32_t)reach->variables.count - 1;
}
