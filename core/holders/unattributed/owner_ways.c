/*
 * Chooses which path to a word of native memory is shown: the one with the fewest heap chunks from
 * a Python object, a tensor or a static variable; otherwise one from an object of a known class;
 * otherwise one from a stack.
 */
#include "holders/unattributed/owner_ways.h"

#include <string.h>

#include "holders/unattributed/owner_search.h"
#include "holders/describe/names.h"
#include "holders/graph/counts.h"
#include "holders/heap/heap.h"
#include "holders/unattributed/flat_table.h"
#include "torch/names.h"

enum {
	MAX_REACHED = 512, /* chunks through which one path is searched */
	WITHIN = 7,        /* counts as three chunks farther, and more */
};

/* Of several Python objects that lead to the word, these are the most informative: DDP's Reducer,
 * to which its Logger refers as well; a module of TorchScript, to which lists of its parameters
 * refer. */
static bool is_known_object(struct gm_holders *graph, const struct gm_owner_holder *holder)
{
	if (holder->kind != GM_OWNER_VERTEX)
		return false;
	const struct gm_vertex *vertex = &graph->vertices.items[holder->number];
	const char *type =
	        vertex->kind == GM_VERTEX_PYTHON ? gm_type_text(graph, vertex->address) : "";
	return strcmp(type, "Reducer") == 0 || strcmp(type, "ScriptModule") == 0;
}

/* The references to an object are counted only where they may lead to a tensor by Python's
 * references, and this object may lead to one through native memory alone. In a freed object, the
 * allocator's list overwrites the count. */
static bool is_uncounted(const struct gm_holders *graph, uint32_t number, uint64_t refcount)
{
	enum { MOST = 1 << 20 }; /* far more than the number of variables that refer to an object */
	return graph->vertices.items[number].kind == GM_VERTEX_PYTHON && refcount > 0 &&
	       refcount < MOST;
}

/* The references that were found to this vertex do not match its count, as in a freed object:
 * another vertex is better, even if it is farther. */
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

/* A chunk that the walk has reached, outwards from the word's own. */
struct reached {
	uint32_t number, from; /* index of the previous one; UINT32_MAX: it is the first */
	uint64_t word;         /* the word of this one that points at the previous one */
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

/* A process group of torch.distributed: the library's own registers all lead to it and add no
 * information. */
static bool is_end(const struct gm_owner_chunk *chunk)
{
	return chunk->class && strstr(chunk->class->linkage_name, GM_TORCH_NCCL_GROUP_CLASS);
}

/* Prefers few heap chunks, a Python object to a variable, and other variables to what runs at exit,
 * whose heap may have stale words. If a static variable is far away, stale words probably lead to
 * it; if the word is in a large static variable, it is probably stale itself. */
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

/* Is there a std::vector whose memory is the chunk, and is the word one of its items? */
static bool is_vector_of(const struct gm_owner_search *search, const struct gm_owner_chunk *chunk,
        const struct gm_owner_holder *holder, uint64_t word)
{
	uint64_t bounds[3];
	return holder->kind != GM_OWNER_STACK &&
	       gm_image_try_read(search->graph->image, holder->address, bounds, sizeof(bounds)) &&
	       bounds[0] == chunk->start && word < bounds[1] &&
	       gm_is_vector(search->graph, bounds, 8);
}

/* A chunk that is a vector's memory belongs to that vector; other pointers to it are stale. */
static bool has_vector(
        const struct gm_owner_search *search, const struct gm_owner_chunk *chunk, uint64_t word)
{
	for (size_t i = 0; i < chunk->holder_count; i++)
		if (is_vector_of(search, chunk, &chunk->holders[i], word))
			return true;
	return false;
}

/* Breadth first: paths with fewer chunks come first. */
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
		if (i && gm_is_in_unused_entry(search, chunk, at.word))
			continue;
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
