/* Whose native memory is it? Internal to core/holders. */
#ifndef GM_HOLDERS_OWNERS_H
#define GM_HOLDERS_OWNERS_H

#include "holders/unattributed/unattributed.h"
#include "holders/heap/stacks.h"

/* Asks whose those are that lie in heap; leaves out what nobody can own. */
struct gm_error *gm_unattributed_name_owners(struct gm_holders *graph, struct gm_stacks *stacks,
        struct gm_unattributed_list *unattributed_list);
/* The Python object that has the address in its own memory; GM_NO_VERTEX: none is known.
 * `ret_native`: it is in a C type's own part, whose layout is not known. */
uint32_t gm_graph_python_around(struct gm_holders *graph, uint64_t address, bool *ret_native);

#endif
