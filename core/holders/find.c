/*
 * Who holds a block: backwards from its storages.
 *
 * First everything that reaches the block is marked, going from references to referrers, breadth first: each vertex
 * remembers the edge towards the block. Then, within what was marked, every vertex learns its nearest root
 * going the other way. A chain is: a root's shortest way to a referrer, that referrer's reference to a tensor (or
 * storage, or wrapper) of the block. Referrers with one holder only are followed up to where several hold one, and
 * each of those gives a chain. Every vertex is visited once in each direction, so cycles end.
 */
#include "holders/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

enum {
	MAX_MARKED = 1 << 21,
	MAX_CHAINS = 64,
	MAX_CHAIN_LENGTH = 1 << 20,
	MAX_FOLLOW = 64,
	MAX_STRAY_TARGETS = 4096,
	MAX_EDGE_LENGTH = 8,
	NO_DISTANCE = UINT32_MAX,
};

struct mark {
	uint32_t vertex;
	uint32_t towards;   /* the edge on the way to the block; UINT32_MAX: is a storage of it */
	uint32_t from_root; /* distance from the nearest root */
	uint32_t root_edge; /* the edge on the way from it */
	bool own;           /* a storage of the block, a tensor on one, a wrapper of either */
};

struct finding {
	struct gm_holders *graph;
	struct gm_holders_answer *answer;
	GM_ARRAY(struct mark) marks;
	struct gm_map mark_of; /* vertex + 1 -> mark + 1 */
	GM_ARRAY(struct gm_chain) chains;
	GM_ARRAY(const struct gm_stray *) chain_strays; /* beside chains; NULL: none */
	GM_ARRAY(struct gm_holder) holders;
	GM_ARRAY(char *) notes;
	struct gm_map told; /* hash of a chain's ends: tell it once */
	struct gm_strays strays;
	bool islands_held; /* something that no root reaches is held by what was not found */
	bool truncated, no_memory;
};

static struct mark *mark_at(struct finding *finding, uint32_t vertex)
{
	uint64_t *found = gm_map_find(&finding->mark_of, (uint64_t)vertex + 1);
	return found ? &finding->marks.items[*found - 1] : NULL;
}

static bool add_mark(struct finding *finding, uint32_t vertex, uint32_t towards, bool own)
{
	bool is_new;
	if (finding->marks.count >= MAX_MARKED) {
		finding->truncated = true;
		return false;
	}
	uint64_t *slot = gm_map_put(&finding->mark_of, (uint64_t)vertex + 1, &is_new);
	struct mark mark = {vertex, towards, NO_DISTANCE, UINT32_MAX, own};
	if (!slot || (is_new && !gm_array_push(&finding->marks, mark))) {
		finding->no_memory = true;
		return false;
	}
	if (is_new)
		*slot = finding->marks.count;
	else if (own)
		finding->marks.items[*slot - 1].own = true;
	return is_new;
}

/* Does this edge stay among the block's own objects? */
static bool is_own_edge(const struct gm_edge *edge)
{
	return edge->kind == GM_REF_STORAGE || edge->kind == GM_REF_WRAPPER;
}

static void mark_all(struct finding *finding)
{
	struct gm_holders *graph = finding->graph;
	for (size_t i = 0; i < finding->marks.count && !finding->no_memory; i++) {
		struct mark mark = finding->marks.items[i];
		const struct gm_vertex *vertex = &graph->vertices.items[mark.vertex];
		if (gm_graph_is_root(vertex))
			continue;
		for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++) {
			const struct gm_edge *edge = &graph->edges.items[e];
			add_mark(finding, edge->from, e, mark.own && is_own_edge(edge));
		}
	}
}

/* How far a reference is, as a user sees it: being a dict's key, or a leaf that a graph needs, explains less than
 * being a value or an attribute. */
static uint32_t edge_length(const struct gm_edge *edge)
{
	if (edge->kind == GM_REF_ACCUMULATE || edge->kind == GM_REF_THREAD)
		return MAX_EDGE_LENGTH;
	if (edge->kind != GM_REF_PYTHON)
		return 2;
	if (edge->extra & GM_LINK_IS_DICT)
		return 0; /* an attribute's way through its object's dict is one thing */
	switch (edge->extra) {
	case GM_EDGE_DICT_KEY:
		return MAX_EDGE_LENGTH;
	case GM_EDGE_OTHER:
		return 4;
	case GM_EDGE_ITEM:
		return 3;
	default:
		return 2;
	}
}

/* Dijkstra's, with one list for each of the few lengths ahead. `forward` holds the edges of each mark. */
static void walk_from_roots(struct finding *finding, const uint32_t *first, const uint32_t *forward,
        const uint32_t *counts)
{
	struct gm_holders *graph = finding->graph;
	GM_ARRAY(uint32_t) ahead[MAX_EDGE_LENGTH + 1] = {0};
	size_t waiting = 0;
	for (size_t i = 0; i < finding->marks.count; i++) {
		if (!gm_graph_is_root(&graph->vertices.items[finding->marks.items[i].vertex]))
			continue;
		finding->marks.items[i].from_root = 0;
		finding->no_memory |= !gm_array_push(&ahead[0], (uint32_t)i);
		waiting++;
	}
	for (uint32_t distance = 0; waiting > 0 && !finding->no_memory; distance++) {
		size_t slot = distance % (MAX_EDGE_LENGTH + 1);
		for (size_t i = 0; i < ahead[slot].count; i++) {
			uint32_t at = ahead[slot].items[i];
			waiting--;
			if (finding->marks.items[at].from_root != distance)
				continue; /* a shorter way was found since */
			for (uint32_t k = 0; k < counts[at]; k++) {
				uint32_t e = forward[first[at + 1] + k];
				uint32_t length = distance + edge_length(&graph->edges.items[e]);
				struct mark *to = mark_at(finding, graph->edges.items[e].to);
				if (!to || to->from_root <= length)
					continue;
				to->from_root = length;
				to->root_edge = e;
				finding->no_memory |=
				        !gm_array_push(&ahead[length % (MAX_EDGE_LENGTH + 1)],
				                (uint32_t)(to - finding->marks.items));
				waiting++;
			}
		}
		ahead[slot].count = 0;
	}
	for (size_t i = 0; i <= MAX_EDGE_LENGTH; i++)
		gm_array_deinit(&ahead[i]);
}

/* Distances from roots, within the marked. The edges of the marked, turned around, in one array. */
static void find_roots(struct finding *finding)
{
	struct gm_holders *graph = finding->graph;
	size_t count = finding->marks.count, edge_count = 0;
	_cleanup_free_ uint32_t *first = calloc(count + 2, sizeof(*first));
	_cleanup_free_ uint32_t *queue = malloc((count + 1) * sizeof(*queue));
	if (!first || !queue) {
		finding->no_memory = true;
		return;
	}
	for (size_t i = 0; i < count; i++) {
		const struct gm_vertex *vertex =
		        &graph->vertices.items[finding->marks.items[i].vertex];
		if (gm_graph_is_root(vertex))
			continue;
		for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++) {
			uint64_t *from = gm_map_find(
			        &finding->mark_of, (uint64_t)graph->edges.items[e].from + 1);
			if (from) {
				first[*from +
				        1]++; /* mark number + 1, shifted by one for the sums */
				edge_count++;
			}
		}
	}
	for (size_t i = 1; i <= count + 1; i++)
		first[i] += first[i - 1];
	_cleanup_free_ uint32_t *forward = malloc((edge_count + 1) * sizeof(*forward));
	_cleanup_free_ uint32_t *filled = calloc(count + 1, sizeof(*filled));
	if (!forward || !filled) {
		finding->no_memory = true;
		return;
	}
	for (size_t i = 0; i < count; i++) {
		const struct gm_vertex *vertex =
		        &graph->vertices.items[finding->marks.items[i].vertex];
		if (gm_graph_is_root(vertex))
			continue;
		for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++) {
			uint64_t *from = gm_map_find(
			        &finding->mark_of, (uint64_t)graph->edges.items[e].from + 1);
			if (from)
				forward[first[*from] + filled[*from - 1]++] = e;
		}
	}
	walk_from_roots(finding, first, forward, filled);
}

/* --- chains ---------------------------------------------------------------------------------------- */

/* Puts together root ... -> `edges` (root first) -> ... the storage. */
static void add_chain(struct finding *finding, const uint32_t *edges, size_t edge_count,
        const struct gm_stray *stray)
{
	struct gm_holders *graph = finding->graph;
	GM_ARRAY(uint32_t) all = {0};
	uint32_t top = graph->edges.items[edges[0]].from, at = top;
	bool rooted = gm_graph_is_root(&graph->vertices.items[top]);
	const struct mark *mark = mark_at(finding, top);
	size_t length = 0;

	if (!rooted && !stray && mark && mark->from_root != NO_DISTANCE) {
		/* up to the nearest root, then turn it round */
		while (!gm_graph_is_root(&graph->vertices.items[at]) &&
		        length++ < MAX_CHAIN_LENGTH) {
			mark = mark_at(finding, at);
			if (!gm_array_push(&all, mark->root_edge))
				finding->no_memory = true;
			at = graph->edges.items[mark->root_edge].from;
		}
		for (size_t i = 0; i < all.count / 2; i++) {
			uint32_t swapped = all.items[i];
			all.items[i] = all.items[all.count - 1 - i];
			all.items[all.count - 1 - i] = swapped;
		}
		rooted = true;
	}
	for (size_t i = 0; i < edge_count; i++)
		if (!gm_array_push(&all, edges[i]))
			finding->no_memory = true;
	at = graph->edges.items[edges[edge_count - 1]].to;
	while ((mark = mark_at(finding, at)) && mark->towards != UINT32_MAX &&
	        length++ < MAX_CHAIN_LENGTH) {
		if (!gm_array_push(&all, mark->towards))
			finding->no_memory = true;
		at = graph->edges.items[mark->towards].to;
	}
	/* the same first and last references tell the same thing; a stray word is told by itself */
	uint64_t key = ((uint64_t)all.items[0] << 32 | edges[edge_count - 1]) + 1;
	bool is_new = true;
	struct gm_chain chain = {.edges = all.items, .count = all.count, .rooted = rooted};
	if (finding->no_memory || (!stray && !gm_map_put(&finding->told, key, &is_new))) {
		finding->no_memory = true;
		free(all.items);
	} else if (!is_new || finding->chains.count >= MAX_MARKED ||
	           !gm_array_push(&finding->chains, chain) ||
	           !gm_array_push(&finding->chain_strays, stray)) {
		free(all.items);
	}
}

static bool contains_vertex(struct finding *finding, uint32_t start, uint32_t wanted)
{
	/* does the nearest way from a root to `start` lead through `wanted`? */
	struct gm_holders *graph = finding->graph;
	for (size_t i = 0; i < MAX_CHAIN_LENGTH; i++) {
		if (start == wanted)
			return true;
		const struct mark *mark = mark_at(finding, start);
		if (!mark || mark->root_edge == UINT32_MAX)
			return false;
		start = graph->edges.items[mark->root_edge].from;
	}
	return true;
}

/* All that holds what refers to one of the block's own objects by the edge `direct`. */
static void tell_referrer(struct finding *finding, uint32_t direct)
{
	struct gm_holders *graph = finding->graph;
	uint32_t room[MAX_FOLLOW + 1];
	size_t start = MAX_FOLLOW;
	room[start] = direct;
	uint32_t top = graph->edges.items[direct].from;
	/* one holder only: go on to where it is held */
	for (;;) {
		const struct gm_vertex *vertex = &graph->vertices.items[top];
		if (gm_graph_is_root(vertex)) {
			add_chain(finding, room + start, MAX_FOLLOW + 1 - start, NULL);
			return;
		}
		if (vertex->count != 1 || start == 1)
			break;
		const struct gm_edge *only = &graph->edges.items[vertex->first];
		const struct mark *mark = mark_at(finding, only->from);
		if (!mark || mark->own || mark->from_root == NO_DISTANCE)
			break;
		room[--start] = vertex->first;
		top = only->from;
	}
	size_t before = finding->chains.count;
	const struct gm_vertex *vertex = &graph->vertices.items[top];
	/* tensors and nodes are held from all over the autograd graph: the nearest root says it */
	bool branches = vertex->kind == GM_VERTEX_PYTHON && !(vertex->flags & GM_VERTEX_WRAPPER);
	for (uint32_t e = vertex->first; branches && e < vertex->first + vertex->count; e++) {
		const struct gm_edge *edge = &graph->edges.items[e];
		const struct mark *mark = mark_at(finding, edge->from);
		if (!mark || mark->from_root == NO_DISTANCE || mark->own ||
		        contains_vertex(finding, edge->from, top))
			continue;
		room[start - 1] = e;
		add_chain(finding, room + start - 1, MAX_FOLLOW + 2 - start, NULL);
	}
	if (finding->chains.count == before)
		add_chain(finding, room + start, MAX_FOLLOW + 1 - start, NULL);
}

static void find_chains(struct finding *finding)
{
	struct gm_holders *graph = finding->graph;
	for (size_t i = 0; i < finding->marks.count && !finding->no_memory; i++) {
		struct mark mark = finding->marks.items[i];
		const struct gm_vertex *vertex = &graph->vertices.items[mark.vertex];
		if (!mark.own)
			continue;
		for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++) {
			const struct gm_edge *edge = &graph->edges.items[e];
			const struct mark *from = mark_at(finding, edge->from);
			if (!from || from->own || edge->kind == GM_REF_WRAPPED)
				continue;
			tell_referrer(finding, e);
		}
	}
}

/* --- are all references found? --------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void note(
        struct finding *finding, const char *format, ...)
{
	char *text;
	va_list args;
	va_start(args, format);
	int made = vasprintf(&text, format, args);
	va_end(args);
	if (made < 0 || !gm_array_push(&finding->notes, text)) {
		if (made >= 0)
			free(text);
		finding->no_memory = true;
	}
}

bool gm_graph_refcount(struct gm_holders *graph, uint32_t number, uint64_t *ret_count)
{
	const struct gm_vertex *vertex = &graph->vertices.items[number];
	switch (vertex->kind) {
	case GM_VERTEX_STORAGE:
		*ret_count = graph->storages.items[vertex->detail].refcount;
		return true;
	case GM_VERTEX_TENSOR:
		*ret_count = graph->tensors.items[vertex->detail].refcount;
		return true;
	case GM_VERTEX_NODE:
		*ret_count = graph->nodes.items[vertex->detail].refcount;
		return true;
	case GM_VERTEX_PYTHON:
		return graph->python &&
		       gm_python_refcount(graph->python, vertex->address, ret_count) &&
		       *ret_count != UINT64_MAX;
	default:
		return false;
	}
}

static uint64_t found_references(struct gm_holders *graph, uint32_t number)
{
	return graph->vertices.items[number].count;
}

/* The objects whose count is higher than what was found: the block's own, and those that nothing found holds. */
static size_t find_incomplete(struct finding *finding, uint32_t *ret_targets)
{
	struct gm_holders *graph = finding->graph;
	size_t count = 0;
	for (size_t i = 0; i < finding->marks.count && count < MAX_STRAY_TARGETS; i++) {
		const struct mark *mark = &finding->marks.items[i];
		uint64_t refcount, found = found_references(graph, mark->vertex);
		if (!mark->own && mark->from_root != NO_DISTANCE)
			continue;
		if (!gm_graph_refcount(graph, mark->vertex, &refcount) || found >= refcount)
			continue;
		ret_targets[count++] = mark->vertex;
		if (!mark->own)
			finding->islands_held = true;
	}
	return count;
}

static const char *vertex_text(struct gm_holders *graph, uint32_t number)
{
	switch (graph->vertices.items[number].kind) {
	case GM_VERTEX_STORAGE:
		return "storage";
	case GM_VERTEX_TENSOR:
		return "tensor";
	case GM_VERTEX_NODE:
		return "autograd node";
	default:
		return "Python object";
	}
}

static void tell_strays(struct finding *finding, const uint32_t *targets, size_t count)
{
	struct gm_holders *graph = finding->graph;
	for (size_t t = 0; t < count; t++) {
		uint64_t refcount = 0, found = found_references(graph, targets[t]);
		if (!gm_graph_refcount(graph, targets[t], &refcount) || found >= refcount)
			continue;
		uint64_t missing = refcount - found, here = 0;
		for (size_t i = 0; i < finding->strays.items.count; i++)
			here += finding->strays.items.items[i].vertex == targets[t];
		note(finding, "%ju of %ju references to the %s at 0x%jx found in typed fields; %s",
		        (uintmax_t)found, (uintmax_t)refcount, vertex_text(graph, targets[t]),
		        (uintmax_t)graph->vertices.items[targets[t]].address,
		        here == 0
		                ? "what else holds it is not known (a register, or an object that "
		                  "Python's collector does not track)"
		        : here == missing
		                ? "as many other words point to it as are missing"
		                : "the other words that point to it are listed as plausible");
	}
	for (size_t i = 0; i < finding->strays.items.count; i++) {
		const struct gm_stray *stray = &finding->strays.items.items[i];
		if (stray->vertex == GM_NO_VERTEX || stray->class != GM_PLAUSIBLE)
			continue;
		const struct mark *mark = mark_at(finding, stray->vertex);
		if (!mark)
			continue;
		if (mark->towards != UINT32_MAX) {
			add_chain(finding, &mark->towards, 1, stray);
			continue;
		}
		struct gm_chain chain = {0};
		if (!gm_array_push(&finding->chains, chain) ||
		        !gm_array_push(&finding->chain_strays, stray))
			finding->no_memory = true;
	}
}

static struct gm_error *find_missing(struct finding *finding, uint64_t block, uint64_t size)
{
	_cleanup_free_ uint32_t *targets = malloc(MAX_STRAY_TARGETS * sizeof(*targets));
	if (!targets)
		return &gm_error_no_memory;
	size_t count = find_incomplete(finding, targets);
	finding->answer->complete = count == 0 && finding->answer->storage_count > 0;
	if (count == 0 && finding->answer->storage_count > 0)
		return NULL;
	gm_try(gm_graph_find_strays(finding->graph, targets, count,
	        finding->answer->storage_count ? 0 : block, size, &finding->strays));
	tell_strays(finding, targets, count);
	return NULL;
}

/* --- the answer ------------------------------------------------------------------------------------ */

static uint32_t storage_of(
        struct finding *finding, const struct gm_chain *chain, const struct gm_stray *stray)
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
	return strcmp(left->text, right->text);
}

/* Nothing typed refers to the chain's first object, but a plausible word does: that one tells the chain. */
static bool told_by_stray(const struct finding *finding, const struct gm_chain *chain)
{
	if (chain->rooted || chain->count == 0)
		return false;
	uint32_t top = finding->graph->edges.items[chain->edges[0]].from;
	for (size_t i = 0; i < finding->chain_strays.count; i++)
		if (finding->chain_strays.items[i] && finding->chain_strays.items[i]->vertex == top)
			return true;
	return false;
}

static void describe_chains(struct finding *finding)
{
	for (size_t i = 0; i < finding->chains.count && !finding->no_memory; i++) {
		struct gm_chain *chain = &finding->chains.items[i];
		const struct gm_stray *stray = finding->chain_strays.items[i];
		struct gm_holder holder;
		if (!stray && told_by_stray(finding, chain))
			continue;
		chain->garbage = !chain->rooted && !finding->islands_held;
		if (finding->holders.count >= MAX_CHAINS * 16) {
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
	while (finding->holders.count > MAX_CHAINS) {
		gm_holder_deinit(&finding->holders.items[--finding->holders.count]);
		finding->answer->omitted++;
	}
}

static void finding_deinit(struct finding *finding)
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
static void start_marks(struct finding *finding, uint64_t block, uint64_t size)
{
	struct gm_holders *graph = finding->graph;
	GM_ARRAY(struct gm_held_storage) held = {0};
	for (size_t i = 0; i < graph->storages.count; i++) {
		const struct gm_storage *storage = &graph->storages.items[i];
		if (storage->data - block >= size)
			continue;
		uint32_t number = gm_graph_find(graph, storage->address);
		struct gm_held_storage row = {storage->address, storage->data, storage->size,
		        storage->refcount, (uint32_t)found_references(graph, number)};
		if (!gm_array_push(&held, row)) {
			finding->no_memory = true;
			break;
		}
		add_mark(finding, number, UINT32_MAX, true);
	}
	finding->answer->storages = held.items;
	finding->answer->storage_count = held.count;
}

/* "float32 [1000, 1000], requires_grad, Parameter" */
static void describe_block(struct finding *finding)
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

struct gm_error *gm_holders_find(
        struct gm_holders *graph, uint64_t address, struct gm_holders_answer *ret_answer)
{
	struct gm_holders_answer answer = {.address = address, .device = -1};
	struct gm_error *error = gm_graph_place(graph, address, &answer);
	struct finding finding = {.graph = graph, .answer = &answer};
	if (!error && (answer.place == GM_PLACE_STORAGE || answer.place == GM_PLACE_BLOCK)) {
		start_marks(&finding, answer.address, answer.size);
		describe_block(&finding);
		mark_all(&finding);
		find_roots(&finding);
		find_chains(&finding);
		error = finding.no_memory ? &gm_error_no_memory
		                          : find_missing(&finding, answer.address, answer.size);
		if (!error)
			describe_chains(&finding);
		if (finding.truncated || graph->hits_truncated)
			note(&finding, "the search was cut short at its bound");
		if (finding.truncated || graph->hits_truncated)
			answer.complete = false;
		if (!graph->python)
			note(&finding, "Python's objects were not looked at");
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
	*answer = (struct gm_holders_answer){0};
}
