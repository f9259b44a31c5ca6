/*
 * Words that no typed field explains: where they are, whose memory that is, and which of them
 * count. Internal to core/holders.
 */
#ifndef GM_HOLDERS_UNATTRIBUTED_H
#define GM_HOLDERS_UNATTRIBUTED_H

#include "holders/graph/graph.h"

/* What leads to a word of native memory; the first is the best. */
enum gm_owner_kind {
	GM_OWNER_NONE,
	GM_OWNER_VERTEX, /* an object of the graph: a Python object's C++ part, a tensor's */
	GM_OWNER_STATIC, /* a library's or the program's own data */
	GM_OWNER_CLASS,  /* an object of a known class, whoever holds it */
	GM_OWNER_CALL,   /* a call of a C function that is in progress */
	GM_OWNER_STACK,  /* a frame of a native stack, or a thread's own variable */
	GM_OWNER_FRAME,  /* a Python frame, beside its locals: an operand, or an old one */
};

/* What is known of a word besides whose memory it is in. */
enum gm_word_evidence {
	GM_WORD_UNKNOWN, /* nothing */
	GM_WORD_NAMED,   /* what it is there for: an object of a known class, a structure that has a
	                    name */
	GM_WORD_READ, /* and what it is a part of was read: an item of a vector, a slot, a variable
	               */
};

/* A word that points to a vertex and is in no typed field. */
struct gm_unattributed {
	uint32_t vertex; /* what it points to; GM_NO_VERTEX: into the block itself */
	uint64_t address;
	enum gm_reference_class class;
	const char *kind; /* "native_stack", "native_heap", "object", "argument" */
	struct gm_native_owner *native;
	enum gm_word_evidence sense;
	bool in_heap; /* whose it is can be asked */
	size_t words; /* that read alike: of one frame of a stack, of one static variable */
	enum gm_owner_kind owner;
	uint32_t owner_vertex;  /* of GM_OWNER_VERTEX */
	uint64_t owner_address; /* of the others */
};

struct gm_unattributed_list {
	GM_ARRAY(struct gm_unattributed) items;
	size_t stale; /* in freed memory: counted only */
};

void gm_unattributed_list_deinit(struct gm_unattributed_list *unattributed_list);

#endif
