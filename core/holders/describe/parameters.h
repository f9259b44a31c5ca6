/* What a parameter is called in its model. Internal to core/holders. */
#ifndef GM_HOLDERS_PARAMETERS_H
#define GM_HOLDERS_PARAMETERS_H

#include "holders/graph/graph.h"

/* The key of a value in a dict; 0: not there. */
uint64_t gm_key_of_value(struct gm_holders *graph, uint64_t dict, uint64_t value);
/* "layers.0.weight" for a parameter that a module has; NULL: none is known to. Caller frees. */
char *gm_parameter_name(struct gm_holders *graph, uint64_t tensor);
/* The same for the parameter or buffer that a storage is of. */
char *gm_storage_part_name(struct gm_holders *graph, uint64_t storage);

#endif
