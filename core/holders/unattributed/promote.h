/* Words that are references after all. Internal to core/holders. */
#ifndef GM_HOLDERS_PROMOTE_H
#define GM_HOLDERS_PROMOTE_H

#include "holders/unattributed/unattributed.h"

/*
 * Where as many words with a known owner point at an object as its count lacks references, these
 * are they: they become references of the graph. Returns how many; the graph is sorted again, and
 * numbers of edges have changed. `ret_rebuild`: an owner was left out of the graph, which must be
 * built with all objects first (gm_graph_keep_all()), and nothing was added.
 */
size_t gm_graph_promote_candidates(struct gm_holders *graph, const uint32_t *targets, size_t count,
        const struct gm_unattributed_list *unattributed_list, bool *ret_rebuild);
/* The same where more words than are missing point at an object and all of them are on native
 * stacks (or old operands of frames): a function's copies of one reference. Which of the words it
 * is stays a guess. */
size_t gm_graph_promote_stack_words(struct gm_holders *graph, const uint32_t *targets, size_t count,
        const struct gm_unattributed_list *unattributed_list);

#endif
