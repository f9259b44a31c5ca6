/*
 * Which way to a word of native memory is told: the fewest chunks of heap from a Python object, a
 * tensor or a static variable; else from an object of a known class; else from a stack.
 */
#include "holders/unattributed/owner_ways.h"

#include <string.h>

#include "holders/unattributed/owner_search.h"
#include "holders/describe/names.h"
#include "holders/graph/counts.h"
#include "holders/heap/heap.h"
#include "torch/names.h"

enum {
	MAX_REACHED = 512, /* chunks that one way is sought through */
	WITHIN = 7,        /* three chunks farther, and more */
};

/* Of several Python objects that lead to it these tell most: DDP's Reducer, which its Logger knows
 * too; a module of TorchScript, which lists of its parameters know. */
static bool is_known_object(struct gm_holders *graph, const struct gm_owner_holder *holder)
{
	if (holder->kind != GM_OWNER_VERTEX)
		return false;
	const struct gm_vertex *vertex = &graph->vertices.items[holder->number];
	const char *type =
	        vertex->kind == GM_VERTEX_PYTHON ? gm_type_text(graph, vertex->address) : "";
	return strcmp(type, "Reducer") == 0 || strcmp(type, "ScriptModule") == 0;
}

/* What refers to an object is counted only as far as it may lead to a tensor by Python's
 * references, and this one may lead there by native memory alone. Where an object was freed, the
 * allocator's list is in the place of its count. */
static bool is_uncounted(const struct gm_holders *graph, uint32_t number, uint64_t refcount)
{
	enum { MOST = 1 << 20 }; /* far more than variables refer to an object */
	return graph->vertices.items[number].kind == GM_VERTEX_PYTHON && refcount > 0 &&
	       refcount < MOST;
}

/* What was found to refer to that vertex is not what its count says, as where it was freed: rather
 * another one, even if it is farther. */
static unsigned is_unreferred(struct gm_holders *graph, const struct gm_owner_holder *holder)
{
	uint64_t refcount;
	if (holder->kind != GM_OWNER_VERTEX)
		return 0;
	const struct gm_vertex *vertex = &graph->vertices.items[holder->number];
	const bool known = gm_graph_refcount(graph, holder->number, &refcount);
	if (vertex->count == 0)
		return known && is_uncounted(graph, holder->number, refcount) ? 0 : 20;
	return known && refcount != vertex->count ? 10 : 0;
}

/* A chunk that a walk has come to, from the word's outwards. */
struct reached {
	uint32_t number, from; /* index of the one before it; UINT32_MAX: it is the first */
	uint64_t word;         /* in this one, that points at the one before */
	uint32_t count;
};

static void keep_way(const struct reached *reached, uint32_t last, struct gm_owner_holder owner,
        unsigned rank, struct gm_owner_way *ret)
{
	*ret = (struct gm_owner_way){.owner = owner, .count = reached[last].count, .rank = rank};
	ret->words[ret->count - 1] = owner.address;
	for (size_t i = ret->count; i-- > 0; last = reached[last].from) {
		ret->chunks[i] = reached[last].number;
		if (i > 0)
			ret->words[i - 1] = reached[last].word;
	}
}

/* A process group of torch.distributed: the library's own registers lead to it, all alike, and say
 * no more. */
static bool is_end(const struct gm_owner_chunk *chunk)
{
	return chunk->class && strstr(chunk->class->linkage_name, GM_TORCH_NCCL_GROUP_CLASS);
}

/* The fewest chunks, and a Python object before a variable; what runs at exit before other
 * variables, whose heap may have old words; of a static variable far away it is likely that old
 * words lead to it, and of a word within a large one that it is old itself. */
static unsigned rank_of(
        const struct gm_owner_search *search, const struct gm_owner_holder *holder, uint32_t count)
{
	unsigned rank = 2 * count;
	bool far = count > GM_OWNER_FEW_LEVELS;
	switch (holder->kind) {
	case GM_OWNER_VERTEX:
		return rank + !is_known_object(search->graph, holder) +
		       is_unreferred(search->graph, holder);
	case GM_OWNER_STATIC:
		return rank + (holder->number != GM_OWNER_INTERPRETER) + (far ? 30 : 0) +
		       (holder->number == GM_OWNER_WITHIN ? WITHIN : 0);
	case GM_OWNER_CLASS:
		return rank +
		       (is_end(&search->chunks.items[holder->number]) ? 0 : GM_OWNER_IS_CLASS);
	default:
		return rank + 2 * GM_OWNER_IS_CLASS;
	}
}

/* Does a std::vector stand there whose memory the chunk is, and the word one of its items? */
static bool is_vector_of(const struct gm_owner_search *search, const struct gm_owner_chunk *chunk,
        const struct gm_owner_holder *holder, uint64_t word)
{
	uint64_t bounds[3];
	return holder->kind != GM_OWNER_STACK &&
	       gm_image_try_read(search->graph->image, holder->address, bounds, sizeof(bounds)) &&
	       bounds[0] == chunk->start && word < bounds[1] &&
	       gm_is_vector(search->graph, bounds, 8);
}

/* A chunk that is a vector's memory is that vector's: others that point at it have done so
 * earlier. */
static bool has_vector(
        const struct gm_owner_search *search, const struct gm_owner_chunk *chunk, uint64_t word)
{
	for (size_t i = 0; i < chunk->holder_count; i++)
		if (is_vector_of(search, chunk, &chunk->holders[i], word))
			return true;
	return false;
}

/* Breadth first: what leads to a chunk by the fewest others. */
void gm_owner_find_way(const struct gm_owner_search *search, uint32_t number, uint64_t word,
        struct gm_owner_way *best)
{
	GM_ARRAY(struct reached) reached = {0};
	struct gm_map seen = {0};
	struct reached first = {number, UINT32_MAX, word, 1};
	bool whole =
	        gm_array_push(&reached, first) && gm_map_put(&seen, (uint64_t)number + 1, NULL);
	for (uint32_t i = 0; i < reached.count && whole; i++) {
		struct reached at = reached.items[i];
		const struct gm_owner_chunk *chunk = &search->chunks.items[at.number];
		struct gm_owner_holder class = {GM_OWNER_CLASS, at.number, chunk->start};
		if (chunk->class && rank_of(search, &class, at.count) < best->rank)
			keep_way(reached.items, i, class, rank_of(search, &class, at.count), best);
		bool vector = has_vector(search, chunk, at.word);
		for (size_t k = 0; k < chunk->holder_count && whole; k++) {
			const struct gm_owner_holder *holder = &chunk->holders[k];
			bool is_new = false;
			if (vector && !is_vector_of(search, chunk, holder, at.word))
				continue;
			if (holder->kind != GM_OWNER_NONE) {
				unsigned rank = rank_of(search, holder, at.count);
				if (rank < best->rank)
					keep_way(reached.items, i, *holder, rank, best);
			} else if (at.count <= GM_OWNER_MAX_LEVELS && reached.count < MAX_REACHED) {
				struct reached next = {
				        holder->number, i, holder->address, at.count + 1};
				whole = gm_map_put(&seen, (uint64_t)holder->number + 1, &is_new) &&
				        (!is_new || gm_array_push(&reached, next));
			}
		}
	}
	gm_array_deinit(&reached);
	gm_map_deinit(&seen);
}
