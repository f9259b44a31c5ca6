/*
 * Words that no typed field explains: where they are, whose memory that is, and which of them count. Internal to core/holders.
 */
#ifndef GM_HOLDERS_STRAY_H
#define GM_HOLDERS_STRAY_H

#include "holders/graph/graph.h"

/* What leads to a word of native memory; the first is the best. */
enum gm_owner_kind {
	GM_OWNER_NONE,
	GM_OWNER_VERTEX, /* an object of the graph: a Python object's C++ part, a tensor's */
	GM_OWNER_STATIC, /* a library's or the program's own data */
	GM_OWNER_CLASS,  /* an object of a known class, whoever holds it */
	GM_OWNER_CALL,   /* a call of a C function that is under way */
	GM_OWNER_STACK,  /* a frame of a native stack, or a thread's own variable */
	GM_OWNER_FRAME,  /* a Python frame, beside its locals: an operand, or an old one */
};

/* What is known of a word besides whose memory it is in. */
enum gm_word_sense {
	GM_WORD_UNKNOWN, /* nothing */
	GM_WORD_NAMED, /* what it is there for: an object of a known class, a structure that has a name */
	GM_WORD_READ, /* and what it is a part of was read: an item of a vector, a slot, a variable */
};

/* A word that points to a vertex and is in no typed field. */
struct gm_stray {
	uint32_t vertex; /* what it points to; GM_NO_VERTEX: into the block itself */
	uint64_t address;
	enum gm_reference_class class;
	const char *kind; /* "native_stack", "native_heap", "object", "argument" */
	char *text;       /* "the stack of thread 1234"; owned */
	enum gm_word_sense sense;
	bool in_heap; /* whose it is can be asked */
	size_t words; /* that read alike: of one frame of a stack, of one static variable */
	enum gm_owner_kind owner;
	uint32_t owner_vertex;  /* of GM_OWNER_VERTEX */
	uint64_t owner_address; /* of the others */
};

/* stray.c: looks through all writable memory for words that point at `targets`, or into the block. */
struct gm_strays {
	GM_ARRAY(struct gm_stray) items;
	size_t stale; /* in freed memory: counted only */
};
struct gm_error *gm_graph_find_strays(struct gm_holders *graph, const uint32_t *targets,
        size_t target_count, uint64_t block, uint64_t block_size, struct gm_strays *ret_strays);
void gm_strays_deinit(struct gm_strays *strays);

/* stray_owners.c: asks whose those are that lie in heap; leaves out what nobody can own. */
struct gm_stacks;
struct gm_error *gm_strays_name_owners(
        struct gm_holders *graph, struct gm_stacks *stacks, struct gm_strays *strays);

/* call_arrays.c: is the word an argument in CPython's own array of a call under way, which owns it? `live`: an empty map, the
 * same for all words of one search. */
bool gm_is_call_argument(
        struct gm_holders *graph, struct gm_stacks *stacks, struct gm_map *live, uint64_t address);

/* weak.c: is the word a field that points at the vertex and does not own it? */
bool gm_graph_is_weak_field(struct gm_holders *graph, const struct gm_hit *hit, uint32_t vertex);

/* owners.c: whose a word in a piece of heap is: "item 0 of a vector of 2 tensors, held by a c10d::Reducer". */
struct gm_owner_query {
	uint64_t word;
	char *text; /* out: owned by the caller; NULL: not known */
	enum gm_word_sense sense;
	enum gm_owner_kind kind;
	uint32_t vertex;  /* of GM_OWNER_VERTEX: what leads there */
	uint64_t address; /* of the others */
	bool dead;        /* in the unused rest of a vector */
};
struct gm_error *gm_graph_find_owners(struct gm_holders *graph, struct gm_stacks *stacks,
        struct gm_owner_query *queries, size_t count);
/* buckets.c: what a word of a DDP's bucket is: "bucket_views_in[2] of bucket 0". `index`: of the item in the vector that the word
 * begins, UINT64_MAX: it leads elsewhere. NULL: `buckets` are none. Caller frees. */
char *gm_bucket_text(struct gm_holders *graph, uint64_t reducer, uint64_t buckets, uint64_t word,
        uint64_t index);
/* "static 'cache' of libfoo.so". Caller frees; NULL: no memory. `ret_sense` may be NULL. */
char *gm_owner_static(struct gm_holders *graph, const struct gm_module *module, uint64_t address,
        enum gm_word_sense *ret_sense);
/* The Python object that has the address in its own memory; GM_NO_VERTEX: none is known. `ret_native`: it is in a C type's own
 * part, whose layout is not known. */
uint32_t gm_graph_python_around(struct gm_holders *graph, uint64_t address, bool *ret_native);

/*
 * settle.c: where as many words with a known owner point at an object as its count lacks references, these are they: they
 * become references of the graph. Returns how many; the graph is sorted anew, and numbers of edges have changed.
 */
size_t gm_graph_settle(struct gm_holders *graph, const uint32_t *targets, size_t count,
        const struct gm_strays *strays);
/* The same where more words than are missing point at an object and all of them are on native stacks (or old operands of
 * frames): a function's copies of one reference. Which of the words it is stays a guess. */
size_t gm_graph_settle_stacks(struct gm_holders *graph, const uint32_t *targets, size_t count,
        const struct gm_strays *strays);

#endif
