/* The answer of `retained`, and how it is made of the tree of names: nodes with nothing in them are
 * left out, chains of only children become one node, the biggest comes first. */
#ifndef GM_HOLDERS_RETAINED_ANSWER_H
#define GM_HOLDERS_RETAINED_ANSWER_H

#include "holders/retained/retained_name.h"

enum gm_retained_kind {
	GM_RETAINED_VARIABLE, /* would free these bytes, if it went away */
	GM_RETAINED_PART,     /* of the one above */
	GM_RETAINED_SHARED,   /* by all members of its name: freed when all of them are gone */
	GM_RETAINED_GARBAGE,  /* cycles that nothing holds */
	GM_RETAINED_CYCLE,    /* the same, and gc.collect() does not free them */
	GM_RETAINED_LIBRARY,  /* a library's: named, and no variable of the program's */
	GM_RETAINED_UNKNOWN,
};

struct gm_retained_node {
	enum gm_retained_kind kind;
	/* From the outside in: of `global 'optimizer' .state` the global and its attribute. No line
	 * numbers: the same from stop to stop. */
	struct gm_retained_name *names;
	size_t name_count;
	bool root;   /* the first name is a variable's, or what stands in the place of one */
	char *place; /* "train.py:12", the line that a local's function is at; NULL: none */
	struct gm_retained_name *also; /* other names of a variable's object */
	size_t also_count;
	uint64_t bytes, blocks;
	struct gm_retained_node *children; /* biggest first */
	size_t child_count;
};

struct gm_retained_device {
	int device;                           /* -1: the host's memory */
	uint64_t allocated, allocated_blocks; /* the allocator's; all of top-level nodes' bytes */
	uint64_t shared, unknown;             /* of that */
	uint64_t pending,
	        pending_blocks; /* released, waiting for a stream: no longer in `allocated` */
	struct gm_retained_node *nodes; /* biggest first; unknown last */
	size_t node_count;
};

struct gm_retained {
	struct gm_retained_device *devices; /* those with blocks */
	size_t device_count;
	uint64_t storages, storages_complete; /* on these blocks; with all references found */
	size_t vertices, references;          /* that lead to them */
	double seconds;                       /* without the holders' own */
};

void gm_retained_deinit(struct gm_retained *retained);

/* --- internal to core/holders ----------------------------------------------------------------- */

struct gm_retained_builder;

/* Fills builder->variables. Without memory `no_memory` is set, here and below. */
void gm_retained_index_variables(struct gm_retained_builder *builder);
/* The answer of each device, after the vertices have their places. */
void gm_retained_add_devices(struct gm_retained_builder *builder, struct gm_retained *retained);

#endif
