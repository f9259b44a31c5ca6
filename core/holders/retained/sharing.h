/*
 * Who shares what no single one keeps: an object that several hold is the nearest dominator's, and
 * these are the parts of that one that together keep the object. For what the root itself
 * dominates these are variables. Internal to core/holders.
 */
#ifndef GM_HOLDERS_SHARING_H
#define GM_HOLDERS_SHARING_H

#include "holders/retained/paths.h"

enum { GM_SHARERS_MAX = 24 /* listed one by one; a larger set has `more` */ };

struct gm_sharers {
	uint32_t first, count; /* in members, ascending */
	bool more;
	bool graph;      /* all hold through the graph of autograd only */
	uint32_t plain;  /* of a reported set: the set of the same sharers without `graph` */
	uint32_t graphs; /* of a reported set: whose graphs of autograd hold such objects too */
};

struct gm_sharing {
	const struct gm_reach *reach;
	const struct gm_paths *paths;
	uint32_t *set_of;                 /* by vertex; 0: one holds it alone */
	GM_ARRAY(struct gm_sharers) sets; /* set 0 is the empty one */
	GM_ARRAY(uint32_t)
	members;                           /* of all sets: twice the number of an element, and one
	                                more where the autograd graph is what holds */
	GM_ARRAY(struct gm_step) elements; /* element 0 is none */
	struct gm_map element_of, set_by_hash, unions;
	uint32_t *before, *after; /* a vertex's numbers in a search of the dominators' tree, going
	                             in and out */
	uint32_t *children, *child_first; /* of the tree, in the order of `before` */
	uint32_t running, missing; /* members: functions that a library runs; what was not found */
	bool no_memory;
};

/* `dominators` as gm_dominators() gives them. False: no memory. */
bool gm_sharing_init(struct gm_sharing *sharing, const struct gm_paths *paths,
        struct gm_reach *reach, const uint32_t *dominators);
/* One of a set's sharers. */
struct gm_step gm_sharing_member(const struct gm_sharing *sharing, uint32_t set, uint32_t number);
void gm_sharing_deinit(struct gm_sharing *sharing);

#endif
