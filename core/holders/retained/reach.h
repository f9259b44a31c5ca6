/*
 * The part of the graph of references from which a set of blocks can be reached: all that a
 * question about all device memory needs. Internal to core/holders.
 *
 * Every vertex that leads to a storage of a block is marked, going from referents to referrers: a
 * few thousand in a process with a million objects. The marked vertices are numbered again; added
 * to them are
 *  - vertex 0, the root of all;
 *  - one vertex for each variable: the object that a local, a global or a thread refers to. Several
 *    names of one object are one variable, as the object lives until all of them are gone;
 *  - one for each block.
 * Each edge has its meaning to a user (enum gm_part).
 */
#ifndef GM_HOLDERS_REACH_H
#define GM_HOLDERS_REACH_H

#include "holders/graph/graph.h"
#include "base/strings.h"

/* What an edge is to a user. */
enum gm_part {
	GM_PART_INTERNAL_EDGE, /* nothing: an object's dict, a wrapper, a tensor's storage */
	GM_PART_VARIABLE,      /* the root -> a variable; of a step `name` is a label */
	GM_PART_ITEM,          /* of a list, tuple, set ... */
	GM_PART_KEY,           /* a value of a dict; name of its key, 0: that is no text */
	GM_PART_DICT_KEY,      /* what is itself a key of a dict */
	GM_PART_ATTRIBUTE,     /* name */
	GM_PART_MODULE,        /* torch.nn.Module -> its child; name */
	GM_PART_PARAMETER,     /* torch.nn.Module -> its parameter; name */
	GM_PART_BUFFER,
	GM_PART_STATE, /* optimizer's state -> that of a parameter; `name` is the parameter's vertex
	                  + 1, or 0 */
	GM_PART_GRAD,
	GM_PART_GRAPH, /* tensor -> node, node -> node */
	GM_PART_SAVED, /* node -> what it saved; name of the node's class */
	GM_PART_HOOK,
	GM_PART_CLOSURE, /* name */
	GM_PART_LOCAL, /* of a generator, or of a frame that a traceback keeps; `name` is a label */
	GM_PART_FIELD, /* name */
	GM_PART_VIEW,  /* a view's base */
	GM_PART_TRACEBACK, /* an exception's */
	GM_PART_ENTRY,     /* an optimizer's state of a parameter -> its value; name ("exp_avg") */
};

struct gm_reach_edge {
	uint32_t from, to;
	uint32_t name; /* in strings; 0: none */
	uint8_t part;
	uint8_t reference; /* enum gm_reference; 0: one of the added edges */
	uint8_t link;      /* enum gm_edge_kind of a GM_REF_PYTHON */
	uint8_t length;    /* how far that is, as a user sees it */
};

/* A name of a variable. */
struct gm_reach_name {
	uint32_t vertex; /* the variable's */
	uint32_t edge;   /* in graph->edges: which root, which slot */
	uint32_t name;   /* in strings; 0: not known, an operand */
	uint8_t rank;    /* the lowest is the best name */
	uint32_t order;  /* of names of a rank, the lowest first */
};

/* What a variable, or a local of a frame that is kept, is called: of two that are called the same
 * there is one label. */
struct gm_reach_label {
	uint32_t form;     /* enum gm_retained_form */
	uint32_t name, of; /* in strings; 0: none. Of GM_NAME_NATIVE `name` is in owners, from 1 */
};

enum gm_variable_kind {
	GM_VARIABLE_NAMED,   /* a local, a global, a thread's */
	GM_VARIABLE_MISSING, /* held by references that were not found */
	GM_VARIABLE_GARBAGE, /* in cycles that nothing holds */
	GM_VARIABLE_CYCLES,  /* the same, and gc.collect() does not free them */
	GM_VARIABLE_NATIVE,  /* C++: `label` says what */
};

struct gm_variable {
	uint32_t vertex, object; /* object: GM_NO_VERTEX where it is no single one */
	enum gm_variable_kind kind;
	uint32_t label;                  /* GM_VARIABLE_NATIVE's */
	bool workspace;                  /* of it: cuBLAS's or cuBLASLt's */
	uint32_t first_name, name_count; /* in names, the best first */
	/* it is an argument or temporary of a function that a library runs: it ends by itself, and
	 * tells less than any other holder */
	bool running;
};

struct gm_reach_block {
	uint32_t vertex;
	uint64_t address, bytes;
	int device; /* -1: host memory */
};

struct gm_reach {
	struct gm_holders *graph;
	uint32_t count;              /* of vertices, the root included */
	GM_ARRAY(uint32_t) vertices; /* -> graph's; GM_NO_VERTEX: the root, a variable, a block */
	uint32_t *local;             /* graph's -> this one's; 0: not marked */
	GM_ARRAY(struct gm_reach_edge) edges; /* sorted by `from` once built */
	uint32_t *first;                      /* count + 1: edges of each vertex */
	GM_ARRAY(struct gm_reach_name) names;
	GM_ARRAY(struct gm_variable) variables;
	GM_ARRAY(struct gm_reach_block) blocks;
	struct gm_strings strings;
	GM_ARRAY(struct gm_reach_label) labels; /* a label's number - 1 */
	GM_ARRAY(struct gm_native_owner *) owners;
	struct gm_map by_label;
	uint32_t *tree;  /* the edge on the nearest way from the root; UINT32_MAX: the root, or not
	                    reached */
	uint32_t *order; /* vertices by their distance from the root; reached_count of them */
	uint32_t reached_count;
	GM_ARRAY(uint32_t) natives;         /* graph->edges of roots in C++ */
	uint8_t *more;                      /* by vertex: references found beside the graph's */
	size_t storages, storages_complete; /* on these blocks; with all references found */
	bool no_memory;
};

void gm_reach_destroy(struct gm_reach *reach);

#endif
