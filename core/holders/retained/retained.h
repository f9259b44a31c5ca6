/*
 * Retained bytes: of all blocks of a device, which variable, if it went away, would free how much.
 *
 * The dominators' tree of the references (holders.h) says which object's end would be the end of
 * which blocks. It is told as a tree of names: variables; within each, what a user would call its
 * parts. Blocks that no single variable keeps are in a group of those that share them; those that
 * nothing found refers to are unknown. All groups of one level add up to the one above, and the
 * first level to what the allocator calls allocated.
 */
#ifndef GM_HOLDERS_RETAINED_H
#define GM_HOLDERS_RETAINED_H

#include "holders/holders.h"
#include "holders/retained/retained_name.h"

enum gm_retained_kind {
	GM_RETAINED_VARIABLE, /* would free these bytes, if it went away */
	GM_RETAINED_PART,     /* of the one above */
	GM_RETAINED_SHARED,   /* by all members of its name: freed when all of them are gone */
	GM_RETAINED_GARBAGE,  /* cycles that nothing holds */
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

/* host: tensors in host memory instead. GM_INTERNAL: no memory. */
struct gm_error *gm_holders_retained(
        struct gm_holders *holders, bool host, struct gm_retained *ret_retained);
void gm_retained_deinit(struct gm_retained *retained);

#endif
