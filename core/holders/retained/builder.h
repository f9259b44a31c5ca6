/* The tree of `retained` under construction: what retained.c, nodes.c, answer.c
 * and node_names.c share. */
#ifndef GM_HOLDERS_RETAINED_BUILDER_H
#define GM_HOLDERS_RETAINED_BUILDER_H

#include "holders/retained/paths.h"
#include "holders/retained/reach.h"
#include "holders/retained/retained_name.h"
#include "holders/retained/sharing.h"

enum { GM_RETAINED_DEPTH = 192 /* of the answer's tree, at most */ };

/* A node of the tree under construction; children are a list. Node 0 is the root. */
struct gm_retained_building {
	uint32_t parent, first_child, next_sibling;
	uint32_t depth;
	struct gm_step step;
	uint32_t variable; /* number of the variable + 1; 0: none */
	uint32_t items;    /* of a container */
	uint64_t bytes, blocks;
};

/* Where the ways of what a vertex dominates continue: below `node`, told from `vertex` on. */
struct gm_retained_place {
	uint32_t node, vertex;
	bool graph; /* the way there leads through a graph of autograd: what saved it tells more */
};

struct gm_retained_builder {
	struct gm_reach *reach;
	const struct gm_paths *paths;
	const struct gm_sharing *sharing;
	const uint32_t *dominators;
	struct gm_retained_place *places; /* by vertex */
	uint32_t *items; /* by vertex: the item of a container that the nearest way leads through;
	                    0: none */
	GM_ARRAY(struct gm_retained_building) nodes;
	struct gm_map children;  /* (node, step) -> node */
	struct gm_map seen;      /* (node, item) */
	struct gm_map variables; /* a variable's label -> its number + 1: the first of that label */
	bool no_memory;
};

/* node_names.c: what a node of the tree is called. Without memory `no_memory` is set. */
struct gm_retained_name gm_retained_node_name(struct gm_retained_builder *builder, uint32_t number);

#endif
