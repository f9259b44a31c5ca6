#include "holders/search/find.h"
#include "holders/describe/names.h"
#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_ROUNDS =
	        6, /* of searches; each further one has references that were added to the graph */
};

static void finding_deinit(struct gm_finding *finding)
{
	for (size_t i = 0; i < finding->chains.count; i++)
		free(finding->chains.items[i].edges);
	gm_array_deinit(&finding->chains);
	gm_array_deinit(&finding->chain_strays);
	gm_array_deinit(&finding->marks);
	gm_map_deinit(&finding->mark_of);
	gm_map_deinit(&finding->told);
	free(finding->forward.first);
	free(finding->forward.edges);
	free(gm_take(finding->ways));
	finding->forward = (struct gm_forward){0};
	gm_strays_deinit(&finding->strays);
}

/* The storages of [block, block + size), as answers and as the marks to start from. */
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
		        storage->refcount, (uint32_t)gm_finding_references(graph, number)};
		if (!gm_array_push(&held, row)) {
			finding->no_memory = true;
			break;
		}
		gm_finding_mark(finding, number, UINT32_MAX, true);
	}
	finding->answer->storages = held.items;
	finding->answer->storage_count = held.count;
}

/* "float32 [1000, 1000], requires_grad, Parameter" */
static void describe_block(struct gm_finding *finding)
{
	struct gm_holders_answer *answer = finding->answer;
	struct gm_block_note known = {.address = answer->address, .size = answer->size};
	char shape[GM_TENSOR_MAX_DIMENSIONS * 24];
	size_t used = 0;
	gm_holders_annotate(finding->graph, &known, 1);
	if (!known.dtype)
		return;
	shape[0] = 0;
	for (uint32_t i = 0; i < known.dimensions && i < GM_TENSOR_MAX_DIMENSIONS; i++)
		used += (size_t)snprintf(shape + used, sizeof(shape) - used, "%s%jd", i ? ", " : "",
		        (intmax_t)known.shape[i]);
	if (asprintf(&answer->description, "%s [%s%s]%s%s%s", known.dtype, shape,
	            known.dimensions > GM_TENSOR_MAX_DIMENSIONS ? ", ..." : "",
	            known.requires_grad ? ", requires_grad" : "",
	            known.parameter ? ", Parameter" : "",
	            known.gradient ? ", a gradient" : "") < 0) {
		answer->description = NULL;
		finding->no_memory = true;
	}
}

/* One search. `ret_again`: references were added to the graph, and all that this one found is void. */
static struct gm_error *search(struct gm_finding *finding, bool last, bool *ret_again)
{
	struct gm_holders_answer *answer = finding->answer;
	start_marks(finding, answer->address, answer->size);
	gm_finding_mark_all(finding);
	gm_finding_find_roots(finding);
	gm_finding_find_chains(finding);
	gm_finding_find_further_roots(finding);
	if (finding->no_memory)
		return &gm_error_no_memory;
	return gm_finding_find_missing(finding, answer->address, answer->size, last, ret_again);
}

struct gm_error *gm_holders_find(
        struct gm_holders *graph, uint64_t address, struct gm_holders_answer *ret_answer)
{
	struct gm_holders_answer answer = {.address = address, .device = -1};
	struct gm_error *error = gm_graph_place(graph, address, &answer);
	struct gm_finding finding = {.graph = graph, .answer = &answer};
	if (!error && (answer.place == GM_PLACE_STORAGE || answer.place == GM_PLACE_BLOCK)) {
		bool again = true;
		for (unsigned round = 0; again && !error; round++) {
			finding_deinit(&finding);
			finding = (struct gm_finding){.graph = graph, .answer = &answer};
			free(answer.storages);
			answer.storages = NULL;
			error = search(&finding, round == MAX_ROUNDS, &again);
			if (!error && graph->wants_all && !graph->keep_all)
				error = gm_graph_keep_all(graph);
		}
		describe_block(&finding);
		for (size_t i = 0; i < answer.storage_count && !answer.part; i++)
			answer.part = gm_storage_part_name(graph, answer.storages[i].address);
		if (!error)
			gm_finding_list_holders(&finding);
		if (finding.truncated || graph->hits_truncated)
			gm_finding_note(&finding, "the search was cut short at its bound");
		if (finding.truncated || graph->hits_truncated)
			answer.complete = false;
		if (!graph->python)
			gm_finding_note(&finding, "Python's objects were not looked at");
		if (!error && finding.no_memory)
			error = &gm_error_no_memory;
	}
	answer.holders = finding.holders.items;
	answer.holder_count = finding.holders.count;
	answer.notes = finding.notes.items;
	answer.note_count = finding.notes.count;
	finding_deinit(&finding);
	if (error)
		gm_holders_answer_deinit(&answer);
	else
		*ret_answer = answer;
	return error;
}

void gm_holders_answer_deinit(struct gm_holders_answer *answer)
{
	for (size_t i = 0; i < answer->holder_count; i++)
		gm_holder_deinit(&answer->holders[i]);
	for (size_t i = 0; i < answer->note_count; i++)
		free(answer->notes[i]);
	free(answer->holders);
	free(answer->notes);
	free(answer->storages);
	free(answer->place_text);
	free(answer->description);
	free(answer->part);
	*answer = (struct gm_holders_answer){0};
}
