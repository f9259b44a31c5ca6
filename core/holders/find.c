#include "holders/find.h"
#include "holders/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_CHAINS = 64,
	MAX_DESCRIBED = 4096, /* before those of one container become one */
	LEAST_GROUP = 3,
	MAX_ROUNDS =
	        6, /* of searches; each further one has references that were added to the graph */
};

static uint32_t storage_of(
        struct gm_finding *finding, const struct gm_chain *chain, const struct gm_stray *stray)
{
	if (chain->count > 0)
		return finding->graph->edges.items[chain->edges[chain->count - 1]].to;
	return stray ? stray->vertex : (uint32_t)GM_NO_VERTEX;
}

/* Of proven chains: those from a variable, those from another root, those that nothing was found to hold. */
static int rank_of(const struct gm_holder *holder)
{
	if (holder->class != GM_PROVEN || !holder->rooted || holder->step_count == 0)
		return 2;
	const char *kind = holder->steps[0].kind;
	return strcmp(kind, "local") != 0 && strcmp(kind, "global") != 0;
}

static int by_class_and_length(const void *a, const void *b)
{
	const struct gm_holder *left = a, *right = b;
	if (left->class != right->class)
		return left->class < right->class ? -1 : 1;
	if (rank_of(left) != rank_of(right))
		return rank_of(left) - rank_of(right);
	if (left->step_count != right->step_count)
		return left->step_count < right->step_count ? -1 : 1;
	return strverscmp(left->text, right->text); /* item 2 before item 10 */
}

/* Nothing typed refers to the chain's first object, but a plausible word does: that one tells the chain. */
static bool told_by_stray(const struct gm_finding *finding, const struct gm_chain *chain)
{
	if (chain->rooted || chain->count == 0)
		return false;
	uint32_t top = finding->graph->edges.items[chain->edges[0]].from;
	for (size_t i = 0; i < finding->chain_strays.count; i++)
		if (finding->chain_strays.items[i] && finding->chain_strays.items[i]->vertex == top)
			return true;
	return false;
}

/* "item 12 of list: ...": its number and what comes behind it. */
static bool is_item(const struct gm_holder *holder, uint64_t *ret_number, const char **ret_rest)
{
	char *end;
	if (strncmp(holder->text, "item ", 5) != 0 || !strchr("0123456789", holder->text[5]))
		return false;
	*ret_number = strtoull(holder->text + 5, &end, 10);
	*ret_rest = end;
	return *end == ' ';
}

/* How many holders from `first` on are neighbours in one container. */
static size_t group_length(const struct gm_finding *finding, size_t first)
{
	const struct gm_holder *holders = finding->holders.items;
	uint64_t number, next;
	const char *rest, *other;
	size_t count = 1;
	if (!is_item(&holders[first], &number, &rest))
		return 1;
	while (first + count < finding->holders.count &&
	        holders[first + count].class == holders[first].class &&
	        is_item(&holders[first + count], &next, &other) && next == number + count &&
	        strcmp(rest, other) == 0)
		count++;
	return count;
}

/* A list of a thousand views is one line: "items 0 to 999 of list: ...". Its path is the first item's. */
static void group_items(struct gm_finding *finding)
{
	size_t kept = 0;
	for (size_t i = 0; i < finding->holders.count;) {
		struct gm_holder holder = finding->holders.items[i];
		size_t count = group_length(finding, i);
		uint64_t number;
		const char *rest;
		char *text;
		if (count < LEAST_GROUP || !is_item(&holder, &number, &rest) ||
		        asprintf(&text, "items %ju to %ju%s", (uintmax_t)number,
		                (uintmax_t)(number + count - 1), rest) < 0) {
			holder.references = 1;
			finding->holders.items[kept++] = holder;
			i++;
			continue;
		}
		free(holder.text);
		holder.text = text;
		holder.references = count;
		for (size_t k = 1; k < count; k++)
			gm_holder_deinit(&finding->holders.items[i + k]);
		finding->holders.items[kept++] = holder;
		i += count;
	}
	finding->holders.count = kept;
}

static void describe_chains(struct gm_finding *finding)
{
	for (size_t i = 0; i < finding->chains.count && !finding->no_memory; i++) {
		struct gm_chain *chain = &finding->chains.items[i];
		const struct gm_stray *stray = finding->chain_strays.items[i];
		struct gm_holder holder;
		if (!stray && told_by_stray(finding, chain))
			continue;
		chain->garbage = !chain->rooted && !finding->islands_held;
		if (finding->holders.count >= MAX_DESCRIBED) {
			finding->answer->omitted++;
			continue;
		}
		if (!gm_graph_describe(finding->graph, chain, storage_of(finding, chain, stray),
		            stray, &holder)) {
			finding->no_memory = true;
			return;
		}
		if (!gm_array_push(&finding->holders, holder)) {
			gm_holder_deinit(&holder);
			finding->no_memory = true;
			return;
		}
	}
	if (finding->holders.count)
		qsort(finding->holders.items, finding->holders.count,
		        sizeof(*finding->holders.items), by_class_and_length);
	group_items(finding);
	while (finding->holders.count > MAX_CHAINS) {
		struct gm_holder *last = &finding->holders.items[--finding->holders.count];
		finding->answer->omitted += last->references;
		gm_holder_deinit(last);
	}
}

static void finding_deinit(struct gm_finding *finding)
{
	for (size_t i = 0; i < finding->chains.count; i++)
		free(finding->chains.items[i].edges);
	gm_array_deinit(&finding->chains);
	gm_array_deinit(&finding->chain_strays);
	gm_array_deinit(&finding->marks);
	gm_map_deinit(&finding->mark_of);
	gm_map_deinit(&finding->told);
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
			describe_chains(&finding);
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
