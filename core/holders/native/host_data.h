/* What host tensors have in their memory. Internal to core/holders. */
#ifndef GM_HOLDERS_HOST_DATA_H
#define GM_HOLDERS_HOST_DATA_H

#include "holders/graph/graph.h"

/* What need not be looked through for references, for struct gm_scan_options; the caller frees it.
 * NULL: no memory. */
struct gm_range *gm_graph_host_data(struct gm_holders *graph, size_t *ret_count);

#endif
