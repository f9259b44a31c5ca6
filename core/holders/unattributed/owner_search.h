/*
 * What leads to a word of native memory, while it is searched for: chunks of heap, and what points
 * at each of them. Internal to owners.c, which finds them, owner_ways.c, which says which way to
 * the word tells most, and owner_parts.c, which makes the parts of it.
 */
#ifndef GM_HOLDERS_OWNER_SEARCH_H
#define GM_HOLDERS_OWNER_SEARCH_H

#include "holders/unattributed/unattributed.h"

enum {
	GM_OWNER_FEW_LEVELS =
	        5, /* each is a search of all memory: more only for what is not known by then */
	GM_OWNER_MAX_LEVELS = 8,
	GM_OWNER_MANY = 64,         /* words: of so many there are always some that are not known */
	GM_OWNER_INTERPRETER = 1,   /* a static: Python's own, as what it runs at exit */
	GM_OWNER_WITHIN = 2,        /* a static: a large one, and the word is not at its start */
	GM_OWNER_MAX_BRANCHES = 32, /* words that lead to one chunk */
	GM_OWNER_IS_CLASS = 40, /* the least rank of a way that ends at an object of which only the
	                           class is known */
};

/* Whose a word in a chunk of heap is: "item 0 of a vector of 2 tensors, held by a
 * c10d::Reducer". */
struct gm_owner_query {
	uint64_t word;
	struct gm_native_owner *native; /* out: owned by the caller; NULL: not known */
	enum gm_word_evidence sense;
	enum gm_owner_kind kind;
	uint32_t vertex;  /* of GM_OWNER_VERTEX: what leads there */
	uint64_t address; /* of the others */
	bool dead;        /* in the unused rest of a vector, or an unused entry of a table */
};

/* A chunk of heap on the way from a word to its owner, and what refers to it. */
struct gm_owner_holder {
	enum gm_owner_kind kind; /* GM_OWNER_NONE: another chunk */
	uint32_t number;         /* of a chunk, or of a vertex; of a static: GM_OWNER_INTERPRETER,
	                            GM_OWNER_WITHIN or 0 */
	uint64_t address;        /* of the word */
};

struct gm_owner_chunk {
	uint64_t start, size;
	const struct gm_class *class;
	size_t holder_count;
	struct gm_owner_holder holders[GM_OWNER_MAX_BRANCHES];
	struct gm_native_owner *stack; /* what the stack is, of the last GM_OWNER_STACK */
};

struct gm_owner_search {
	struct gm_holders *graph;
	struct gm_stacks *stacks;
	GM_ARRAY(struct gm_owner_chunk) chunks;
	struct gm_map by_start; /* -> index + 1 */
	size_t first, last;     /* the chunks of this level */
};

/* The best way from a chunk to an owner: the fewest chunks to a vertex or a static; else a class;
 * else a stack. */
struct gm_owner_way {
	struct gm_owner_holder owner;
	uint32_t chunks[GM_OWNER_MAX_LEVELS + 1]; /* from the word's outwards */
	uint64_t words[GM_OWNER_MAX_LEVELS +
	               1]; /* in the next one, or the owner, that point at it */
	size_t count;
	unsigned rank;
};

#endif
