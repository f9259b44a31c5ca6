/*
 * One search for the holders of a block, in progress. Internal to core/holders.
 *
 * First everything that reaches the block is marked, going from references to referrers, the
 * nearest first: each vertex remembers the edge towards the block. Then, within what was marked,
 * every vertex gets its nearest root, going the other way (roots.c). A chain is a root's shortest
 * path to a referrer, and that referrer's reference to a tensor (or storage, or wrapper) of the
 * block (chains.c). A root that is nobody's nearest one is shown with its own best path to the
 * block: every reference of a root (a frame's slot, a name in a module) to a marked vertex keeps
 * the block, and begins at least one chain. Every vertex is visited once in each direction, so
 * cycles end. If a reference count shows that references are missing, all memory is searched for
 * them (missing.c). list.c orders the result. find.c runs these steps in order.
 */
#ifndef GM_HOLDERS_FINDING_H
#define GM_HOLDERS_FINDING_H

#include "holders/graph/graph.h"
#include "holders/unattributed/unattributed.h"

enum {
	GM_MAX_MARKED = 1 << 21,
	GM_MAX_CHAIN_LENGTH = 1 << 20,
	GM_NO_DISTANCE = UINT32_MAX,
	GM_NO_EDGE = UINT32_MAX,
};

struct gm_mark {
	uint32_t vertex;
	uint32_t
	        towards; /* the edge on the best way to the block; GM_NO_EDGE: is a storage of it */
	uint32_t to_block;  /* how far that is; 0 for the block's own */
	uint32_t from_root; /* distance from the nearest root */
	uint32_t root_edge; /* the edge on the way from it */
	bool own;           /* a storage of the block, a tensor on one, a wrapper of either */
};

/* The edges between marks, turned around: those that start at mark i are edges[first[i] .. first[i
 * + 1]). */
struct gm_forward {
	uint32_t *first, *edges;
};

struct gm_finding {
	struct gm_holders *graph;
	struct gm_holders_answer *answer;
	GM_ARRAY(struct gm_mark) marks;
	struct gm_map mark_of; /* vertex + 1 -> mark + 1 */
	struct gm_forward forward;
	GM_ARRAY(struct gm_chain) chains;
	GM_ARRAY(const struct gm_unattributed *) chain_unattributed; /* beside chains; NULL: none */
	GM_ARRAY(struct gm_holder) holders;
	GM_ARRAY(struct gm_holders_note) notes;
	struct gm_map reported; /* hash of a chain's ends: each is reported once */
	struct gm_unattributed_list unattributed_list;
	bool islands_held; /* something that no root reaches is held by what was not found */
	uint32_t *ways;    /* by mark */
	bool *collected;   /* by mark: does gc.collect() free it? Of those without a root */
	bool truncated, no_memory;
};

/* A note for the answer, which takes what it owns. */
void gm_finding_note(struct gm_finding *finding, struct gm_holders_note note);
/* The mark of a vertex; NULL: it has none. Valid until the next one is made. */
struct gm_mark *gm_finding_mark_at(struct gm_finding *finding, uint32_t vertex);
/* All but what is the answer's: holders and notes. */
void gm_finding_deinit(struct gm_finding *finding);

#endif
