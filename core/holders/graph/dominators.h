/*
 * Dominators of a graph: A dominates B if every path from the root to B goes through A; the
 * immediate dominator is the last such vertex on the paths. In a graph of references it is the
 * nearest object without which the other one would be freed.
 *
 * Lengauer and Tarjan, "A fast algorithm for finding dominators in a flowgraph" (TOPLAS 1979), the
 * simple variant: O(edges * log(vertices)) for any graph. Long chains (a graph of
 * autograd with a million nodes) are why nothing here recurses.
 */
#ifndef GM_HOLDERS_DOMINATORS_H
#define GM_HOLDERS_DOMINATORS_H

#include <stdbool.h>
#include <stdint.h>

enum { GM_NO_DOMINATOR = UINT32_MAX };

/*
 * `count` vertices; the successors of v are targets[first[v]] up to, not including, targets[first[v
 * + 1]]. ret_dominators has room for `count`: the immediate dominator of each, GM_NO_DOMINATOR for
 * the root and for what it does not reach. False: no memory.
 */
bool gm_dominators(uint32_t count, const uint32_t *first, const uint32_t *targets, uint32_t root,
        uint32_t *ret_dominators);

#endif
