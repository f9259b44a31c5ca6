/* A reach that is being made: its vertices, edges and variables are added here. Internal to
 * core/holders. Where there is no memory, reach->no_memory is set. */
#ifndef GM_HOLDERS_REACH_ADD_H
#define GM_HOLDERS_REACH_ADD_H

#include "holders/graph/graph.h"
#include "holders/retained/reach.h"
#include "holders/retained/variables.h"

/* The new vertex's number. GM_NO_VERTEX: it stands for none of the graph. */
uint32_t gm_reach_add_vertex(struct gm_reach *reach, uint32_t graph_vertex);
/* The number of the vertex that stands for one of the graph, added where there is none yet. */
uint32_t gm_reach_mark(struct gm_reach *reach, uint32_t graph_vertex);
void gm_reach_add_edge(struct gm_reach *reach, struct gm_reach_edge edge);
/* The variable's number; its vertex is given too, below the root and above `object`, if that is not
 * GM_NO_VERTEX. */
uint32_t gm_reach_add_variable(
        struct gm_reach *reach, enum gm_variable_kind kind, uint32_t object, uint32_t *ret_vertex);

#endif
