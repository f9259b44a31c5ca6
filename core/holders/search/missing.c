/*
 * Checks that all references were found. If a reference count is higher than the references in the
 * graph, all writable memory is searched for the missing ones.
 */
#include "holders/search/missing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "holders/search/finding.h"
#include "holders/heap/stacks.h"
#include "holders/describe/names.h"
#include "holders/graph/counts.h"
#include "holders/graph/instances.h"
#include "holders/search/chains.h"
#include "holders/unattributed/find_unattributed.h"
#include "holders/unattributed/promote.h"
#include "holders/unattributed/stack_words.h"

enum { MAX_UNATTRIBUTED_TARGETS = 4096 };

/* A class that a variable refers to: its instances refer to it too, and are not in the graph
 * (instances.c). */
static bool is_class(struct gm_holders *graph, uint32_t number)
{
	const struct gm_vertex *vertex = &graph->vertices.items[number];
	return vertex->kind == GM_VERTEX_PYTHON &&
	       gm_python_is_instance(graph->python, vertex->address, "type");
}

static bool is_reached(const struct gm_mark *mark)
{
	return !mark->own && mark->from_root != GM_NO_DISTANCE;
}

/*
 * Is the count higher than the number of proven references? This applies to the block's own objects
 * and to objects without a known holder. An object that a root leads to may have a second holder:
 * another root.
 */
static bool is_short(struct gm_finding *finding, const struct gm_mark *mark)
{
	struct gm_holders *graph = finding->graph;
	uint64_t refcount, found = gm_graph_references(graph, mark->vertex);
	bool fits;
	if (!gm_graph_refcount(graph, mark->vertex, &refcount))
		return false;
	fits = found >= refcount;
	if (is_reached(mark)) /* the holders of a module's own dict do not matter */
		return found + gm_graph_accounted(graph, mark->vertex) < refcount &&
		       mark->from_root > 0 && !is_class(graph, mark->vertex);
	if (!mark->own && !fits)
		finding->islands_held = true;
	return !fits || found - gm_graph_guessed_references(graph, mark->vertex) < refcount;
}

/* The marks whose references are incomplete, at most MAX_UNATTRIBUTED_TARGETS. Those that a root
 * leads to come last, from `ret_reached` on. */
static size_t find_incomplete(
        struct gm_finding *finding, uint32_t *ret_targets, size_t *ret_reached)
{
	size_t count = 0;
	for (unsigned reached = 0; reached < 2; reached++) {
		for (size_t i = 0; i < finding->marks.count && count < MAX_UNATTRIBUTED_TARGETS;
		        i++)
			if (is_reached(&finding->marks.items[i]) == (reached == 1) &&
			        is_short(finding, &finding->marks.items[i]))
				ret_targets[count++] = finding->marks.items[i].vertex;
		if (reached == 0)
			*ret_reached = count;
	}
	return count;
}

/* Records a fact about a vertex, and its count. */
static void note_count(struct gm_finding *finding, uint32_t target, struct gm_holders_note note)
{
	struct gm_holders *graph = finding->graph;
	note.address = graph->vertices.items[target].address;
	note.found = gm_graph_references(graph, target);
	switch (graph->vertices.items[target].kind) {
	case GM_VERTEX_STORAGE:
		note.counted = GM_COUNTED_STORAGE;
		break;
	case GM_VERTEX_TENSOR:
		note.counted = GM_COUNTED_TENSOR;
		break;
	case GM_VERTEX_NODE:
		note.counted = GM_COUNTED_NODE;
		break;
	case GM_VERTEX_PYTHON:
		note.type = strdup(gm_type_text(graph, note.address));
		finding->no_memory |= !note.type;
		break;
	default:
		break;
	}
	gm_finding_note(finding, note);
}

static void describe_unattributed_list(
        struct gm_finding *finding, const uint32_t *targets, size_t count)
{
	struct gm_holders *graph = finding->graph;
	for (size_t t = 0; t < count; t++) {
		uint64_t refcount = 0, found = gm_graph_references(graph, targets[t]);
		if (!gm_graph_refcount(graph, targets[t], &refcount))
			continue;
		if (found >= refcount) {
			uint64_t guessed = gm_graph_guessed_references(graph, targets[t]);
			note_count(finding, targets[t],
			        (struct gm_holders_note){.kind = GM_NOTE_GUESSED,
			                .refcount = refcount,
			                .guessed = guessed});
			continue;
		}
		uint64_t words = 0;
		for (size_t i = 0; i < finding->unattributed_list.items.count; i++)
			words += finding->unattributed_list.items.items[i].vertex == targets[t];
		note_count(finding, targets[t],
		        (struct gm_holders_note){
		                .kind = GM_NOTE_MISSING, .refcount = refcount, .words = words});
	}
	bool proven = false; /* the block has a known holder: other words that point into it add no
	                        information */
	for (size_t i = 0; i < finding->unattributed_list.items.count; i++)
		proven |= finding->unattributed_list.items.items[i].class == GM_PROVEN;
	for (size_t i = 0; i < finding->unattributed_list.items.count; i++) {
		const struct gm_unattributed *unattributed =
		        &finding->unattributed_list.items.items[i];
		if (proven && unattributed->class != GM_PROVEN)
			continue;
		const struct gm_mark *mark =
		        unattributed->vertex != GM_NO_VERTEX
		                ? gm_finding_mark_at(finding, unattributed->vertex)
		                : NULL;
		if (unattributed->class == GM_STALE ||
		        (unattributed->vertex != GM_NO_VERTEX && !mark))
			continue;
		if (mark && mark->towards != GM_NO_EDGE) {
			gm_finding_add_chain(finding, &mark->towards, 1, unattributed);
			continue;
		}
		struct gm_chain chain = {0};
		if (!gm_array_push(&finding->chains, chain) ||
		        !gm_array_push(&finding->chain_unattributed, unattributed))
			finding->no_memory = true;
	}
}

struct gm_error *gm_finding_find_missing(struct gm_finding *finding, uint64_t block, uint64_t size,
        bool last, bool *ret_promoted, bool *ret_rebuild)
{
	_cleanup_free_ uint32_t *targets = malloc(MAX_UNATTRIBUTED_TARGETS * sizeof(*targets));
	*ret_promoted = *ret_rebuild = false;
	if (!targets)
		return &gm_error_no_memory;
	size_t reached, count = find_incomplete(finding, targets, &reached);
	finding->answer->complete = count == 0 && finding->answer->storage_count > 0;
	if (count == 0 && finding->answer->storage_count > 0)
		return NULL;
	/* those with a root come last: mostly these are all there are */
	if (!last && gm_graph_refer_stacks(finding->graph, targets + reached, count - reached)) {
		*ret_promoted = true;
		return NULL;
	}
	if (!last && (gm_graph_refer_instances(finding->graph, targets, count, ret_rebuild) ||
	                     *ret_rebuild)) {
		*ret_promoted = true;
		return NULL;
	}
	gm_try(gm_graph_find_unattributed(finding->graph, targets, count,
	        finding->answer->storage_count ? 0 : block, size, &finding->unattributed_list));
	if (!last && (gm_graph_promote_candidates(finding->graph, targets, count,
	                      &finding->unattributed_list, ret_rebuild) ||
	                     *ret_rebuild ||
	                     gm_graph_promote_stack_words(finding->graph, targets, count,
	                             &finding->unattributed_list))) {
		*ret_promoted = true;
		return NULL;
	}
	if (finding->graph->no_memory)
		return &gm_error_no_memory;
	describe_unattributed_list(finding, targets, count);
	return NULL;
}
