/*
 * Decides which words are references after all. A count shows how many references an object has. If
 * the unexplained words are as many as the missing references, and each of them is in memory with a
 * known owner (a static variable, an object of a class, memory that a Python object leads to, a
 * live frame of a native stack), then these words are the references: a reference must be
 * somewhere, and all memory was searched.
 *
 * If stale values in owned memory make the words too many, some of them are chosen: those whose
 * meaning is known, if they are as many as are missing; or those that are part of a structure that
 * was read (a vector's item, a slot of a TorchScript object, a variable). Words elsewhere in an
 * object of a known class do not qualify, because such objects have uninitialized words. If a live
 * frame has a word too, words of unknown meaning are not preferred to it. Otherwise nothing is
 * decided. A word about which only the owner is known stays conservative: counts alone have been
 * wrong there.
 */
#include "holders/unattributed/promote.h"

#include "holders/graph/graph.h"
#include "holders/unattributed/unattributed.h"
#include "holders/graph/counts.h"
#include "holders/graph/freeze.h"

enum { MAX_WORDS = 1 << 16 };

struct tally {
	size_t read, named, owned, on_stacks;
};

static bool is_owned(const struct gm_unattributed *unattributed)
{
	return unattributed->owner == GM_OWNER_VERTEX || unattributed->owner == GM_OWNER_STATIC ||
	       unattributed->owner == GM_OWNER_CLASS || unattributed->owner == GM_OWNER_CALL;
}

/* Words in a heap chunk that a frame leads to (a vector that is a local variable) are the frame's
 * own, like the words in the frame. */
static bool is_on_stack(const struct gm_unattributed *unattributed)
{
	return unattributed->owner == GM_OWNER_STACK;
}

static struct tally tally_of(const struct gm_unattributed_list *unattributed_list, uint32_t target)
{
	struct tally tally = {0};
	for (size_t i = 0; i < unattributed_list->items.count; i++) {
		const struct gm_unattributed *unattributed = &unattributed_list->items.items[i];
		if (unattributed->vertex != target || unattributed->class != GM_PLAUSIBLE)
			continue;
		if (is_owned(unattributed) && unattributed->sense >= GM_WORD_NAMED)
			tally.named += unattributed->words;
		if (is_owned(unattributed) && unattributed->sense == GM_WORD_READ)
			tally.read += unattributed->words;
		if (is_owned(unattributed))
			tally.owned += unattributed->words;
		else if (is_on_stack(unattributed))
			tally.on_stacks += unattributed->words;
	}
	return tally;
}

static void refer(struct gm_holders *graph, const struct gm_unattributed *unattributed)
{
	bool vertex = unattributed->owner == GM_OWNER_VERTEX;
	uint64_t owner = unattributed->owner == GM_OWNER_STACK ? unattributed->address
	                                                       : unattributed->owner_address;
	for (size_t i = 0; i < unattributed->words; i++)
		gm_graph_refer_native(graph,
		        vertex ? unattributed->owner_vertex : (uint32_t)GM_NO_VERTEX, owner,
		        unattributed->vertex, unattributed->address, unattributed->kind,
		        unattributed->native, unattributed->sense == GM_WORD_UNKNOWN);
}

/* A Python object that holds something only by its C++ part was left out of the graph. */
static bool leads_through_python(
        const struct gm_holders *graph, const struct gm_unattributed_list *unattributed_list)
{
	for (size_t i = 0; i < unattributed_list->items.count; i++) {
		const struct gm_unattributed *unattributed = &unattributed_list->items.items[i];
		if (unattributed->owner == GM_OWNER_VERTEX &&
		        unattributed->vertex != GM_NO_VERTEX &&
		        graph->vertices.items[unattributed->owner_vertex].kind == GM_VERTEX_PYTHON)
			return true;
	}
	return false;
}

size_t gm_graph_promote_candidates(struct gm_holders *graph, const uint32_t *targets, size_t count,
        const struct gm_unattributed_list *unattributed_list, bool *ret_rebuild)
{
	size_t promoted = 0;
	*ret_rebuild = !graph->keep_all && leads_through_python(graph, unattributed_list);
	if (*ret_rebuild)
		return 0;
	for (size_t t = 0; t < count && promoted < MAX_WORDS; t++) {
		uint64_t refcount, found = graph->vertices.items[targets[t]].count;
		struct tally tally = tally_of(unattributed_list, targets[t]);
		if (!gm_graph_refcount(graph, targets[t], &refcount) || refcount <= found)
			continue;
		uint64_t missing = refcount - found;
		/* of two candidates, one in a live frame and one elsewhere, neither is better */
		bool owned = tally.owned == missing &&
		             (tally.on_stacks == 0 || tally.named == tally.owned);
		bool stacks = tally.owned + tally.on_stacks == missing;
		bool named = !owned && !stacks && tally.named == missing;
		bool read = !owned && !stacks && !named && tally.read == missing;
		if (!owned && !stacks && !named && !read)
			continue;
		for (size_t i = 0; i < unattributed_list->items.count; i++) {
			const struct gm_unattributed *unattributed =
			        &unattributed_list->items.items[i];
			if (unattributed->vertex != targets[t] ||
			        unattributed->class != GM_PLAUSIBLE ||
			        !(is_owned(unattributed) ||
			                (stacks && is_on_stack(unattributed))) ||
			        (named && unattributed->sense == GM_WORD_UNKNOWN) ||
			        (read && unattributed->sense != GM_WORD_READ))
				continue;
			refer(graph, unattributed);
			promoted += unattributed->words;
		}
	}
	if (promoted && !graph->no_memory && !gm_graph_freeze(graph))
		graph->no_memory = true;
	return graph->no_memory ? 0 : promoted;
}

/* If all words that point to it are on native stacks, and there are enough of them. */
static bool is_on_stacks_only(
        const struct gm_unattributed_list *unattributed_list, uint32_t target, uint64_t missing)
{
	size_t words = 0;
	for (size_t i = 0; i < unattributed_list->items.count; i++) {
		const struct gm_unattributed *unattributed = &unattributed_list->items.items[i];
		if (unattributed->vertex != target || unattributed->class != GM_PLAUSIBLE)
			continue;
		if (is_on_stack(unattributed))
			words += unattributed->words;
		else if (unattributed->owner != GM_OWNER_FRAME)
			return false;
	}
	return words >= missing;
}

size_t gm_graph_promote_stack_words(struct gm_holders *graph, const uint32_t *targets, size_t count,
        const struct gm_unattributed_list *unattributed_list)
{
	size_t promoted = 0;
	for (size_t t = 0; t < count; t++) {
		uint64_t refcount, found = graph->vertices.items[targets[t]].count;
		if (!gm_graph_refcount(graph, targets[t], &refcount) || refcount <= found ||
		        !is_on_stacks_only(unattributed_list, targets[t], refcount - found))
			continue;
		uint64_t missing = refcount - found;
		for (size_t i = 0; i < unattributed_list->items.count && missing > 0; i++) {
			struct gm_unattributed unattributed = unattributed_list->items.items[i];
			if (unattributed.vertex != targets[t] ||
			        unattributed.class != GM_PLAUSIBLE || !is_on_stack(&unattributed))
				continue;
			unattributed.words =
			        unattributed.words < missing ? unattributed.words : missing;
			refer(graph, &unattributed);
			missing -= unattributed.words;
			promoted += unattributed.words;
		}
	}
	if (promoted && !graph->no_memory && !gm_graph_freeze(graph))
		graph->no_memory = true;
	return graph->no_memory ? 0 : promoted;
}
