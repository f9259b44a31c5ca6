/* Words of native stacks that stand for references. Internal to core/holders. */
#ifndef GM_HOLDERS_STACK_WORDS_H
#define GM_HOLDERS_STACK_WORDS_H

#include "holders/graph/graph.h"

/*
 * C code that is in progress holds what it works on: the arguments of a call, the `self` of a
 * method. Of those of `targets` whose counts are higher than the references found, the live parts
 * of all native stacks and the registers are looked through; where as many words there point to one
 * as are missing, they are taken for its references: they become one reference of the graph from
 * the thread's stack (GM_REF_NATIVE, inferred), and `accounted` has how many they stand for, by the
 * target's address. This is cheap beside a search of all memory, and right unless something else
 * holds the object and the stack has old copies. Returns for how many targets; numbers of edges
 * have changed then.
 */
size_t gm_graph_refer_stacks(struct gm_holders *graph, const uint32_t *targets, size_t count);
/* References to a vertex that words on stacks stand for, beside those of the graph. */
uint64_t gm_graph_accounted(const struct gm_holders *graph, uint32_t vertex);

#endif
