/* What tensors other than plain ones are made of. Internal to core/holders. */
#ifndef GM_HOLDERS_TENSOR_PARTS_H
#define GM_HOLDERS_TENSOR_PARTS_H

#include "holders/graph/graph.h"

void gm_graph_refer_parts(
        struct gm_holders *graph, uint32_t number, const struct gm_tensor *tensor);
/* "values" for an edge of kind GM_REF_PART. Static. */
const char *gm_graph_part_name(struct gm_holders *graph, const struct gm_edge *edge);

#endif
