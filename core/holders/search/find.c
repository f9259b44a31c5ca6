#include "holders/search/finding.h"
#include "holders/describe/names.h"
#include "holders/build.h"
#include "holders/describe/parameters.h"
#include "holders/graph/counts.h"
#include "holders/graph/graph.h"
#include "holders/holders.h"
#include "holders/place.h"
#include "holders/search/chains.h"
#include "holders/search/list.h"
#include "holders/search/missing.h"
#include "holders/search/roots.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

enum {
	MAX_ROUNDS = 6, /* searches; each further one has references that were added to the graph */
};

/* The storages of [block, block + size), as answers and as the marks from which the search starts.
 * */
static void start_marks(struct gm_finding *finding, uint64_t block, uint64_t size)
{
	struct gm_holders *graph = finding->graph;
	GM_ARRAY(struct gm_held_storage) held = {0};
	for (size_t i = 0; i < graph->storages.count; i++) {
		const struct gm_storage *storage = &graph->storages.items[i];
		if (storage->data - block >= size)
			continue;
		uint32_t number = gm_graph_find(graph, storage->address);
		struct gm_held_storage row = {storage->address, storage->data, storage->size,
		        storage->refcount, (uint32_t)gm_graph_references(graph, number)};
		if (!gm_array_push(&held, row)) {
			finding->no_memory = true;
			break;
		}
		gm_finding_mark(finding, number, UINT32_MAX, true);
	}
	finding->answer->storages = held.items;
	finding->answer->storage_count = held.count;
}

/* One search. `ret_again`: references were added to the graph, or the graph must be built with all
 * objects (`ret_rebuild`); then the results of this search are discarded. */
static struct gm_error *search(
        struct gm_finding *finding, bool last, bool *ret_again, bool *ret_rebuild)
{
	struct gm_holders_answer *answer = finding->answer;
	start_marks(finding, answer->address, answer->size);
	gm_finding_mark_all(finding);
	gm_finding_find_roots(finding);
	gm_finding_find_chains(finding);
	gm_finding_find_further_roots(finding);
	if (finding->no_memory)
		return &gm_error_no_memory;
	return gm_finding_find_missing(
	        finding, answer->address, answer->size, last, ret_again, ret_rebuild);
}

static void name_parts(struct gm_finding *finding)
{
	struct gm_holders_answer *answer = finding->answer;
	gm_holders_annotate(finding->graph, &answer->tensor, 1);
	for (size_t i = 0; i < answer->storage_count && !answer->part; i++)
		answer->part = gm_storage_part_name(finding->graph, answer->storages[i].address);
	gm_finding_list_holders(finding);
}

struct gm_error *gm_holders_find(
        struct gm_holders *graph, uint64_t address, struct gm_holders_answer *ret_answer)
{
	struct gm_holders_answer answer = {.address = address, .device = -1};
	struct gm_error *error = gm_graph_place(graph, address, &answer);
	struct gm_finding finding = {.graph = graph, .answer = &answer};
	if (!error && (answer.place == GM_PLACE_STORAGE || answer.place == GM_PLACE_BLOCK)) {
		bool again = true, rebuild = false;
		for (unsigned round = 0; again && !error; round++) {
			gm_finding_deinit(&finding);
			finding = (struct gm_finding){.graph = graph, .answer = &answer};
			free(answer.storages);
			answer.storages = NULL;
			error = search(&finding, round == MAX_ROUNDS, &again, &rebuild);
			if (!error && rebuild)
				error = gm_graph_keep_all(graph);
		}
		answer.tensor =
		        (struct gm_block_note){.address = answer.address, .size = answer.size};
		if (!error)
			name_parts(&finding);
		if (finding.truncated || graph->hits_truncated)
			gm_finding_note(
			        &finding, (struct gm_holders_note){.kind = GM_NOTE_CUT_SHORT});
		if (finding.truncated || graph->hits_truncated)
			answer.complete = false;
		if (!graph->python)
			gm_finding_note(
			        &finding, (struct gm_holders_note){.kind = GM_NOTE_NO_PYTHON});
		if (!error && finding.no_memory)
			error = &gm_error_no_memory;
	}
	answer.holders = finding.holders.items;
	answer.holder_count = finding.holders.count;
	answer.notes = finding.notes.items;
	answer.note_count = finding.notes.count;
	gm_finding_deinit(&finding);
	if (error)
		gm_holders_answer_deinit(&answer);
	else
		*ret_answer = answer;
	return error;
}
