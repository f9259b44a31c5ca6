#include "holders/retained/sharing.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "holders/graph/dominators.h"
#include "holders/retained/paths.h"
#include "holders/retained/variables.h"

enum { MAX_SETS = 1 << 20 };

/* --- the dominator tree ----------------------------------------------------------------------- */

static bool number_tree(struct gm_sharing *sharing, const uint32_t *dominators)
{
	uint32_t count = sharing->reach->count, clock = 0, depth = 0;
	uint32_t *first = calloc((size_t)count + 2, sizeof(*first));
	_cleanup_free_ uint32_t *stack = malloc(((size_t)count + 1) * sizeof(*stack));
	_cleanup_free_ uint32_t *next = malloc(((size_t)count + 1) * sizeof(*next));
	sharing->child_first = first;
	sharing->children = malloc(((size_t)count + 1) * sizeof(uint32_t));
	sharing->before = calloc((size_t)count + 1, sizeof(uint32_t));
	sharing->after = calloc((size_t)count + 1, sizeof(uint32_t));
	if (!first || !stack || !next || !sharing->children || !sharing->before || !sharing->after)
		return false;
	for (uint32_t v = 0; v < count; v++)
		if (dominators[v] != GM_NO_DOMINATOR)
			first[dominators[v] + 2]++;
	for (uint32_t v = 1; v < count; v++)
		first[v + 1] += first[v];
	for (uint32_t v = 0; v < count; v++)
		if (dominators[v] != GM_NO_DOMINATOR)
			sharing->children[first[dominators[v] + 1]++] = v;
	stack[depth++] = 0;
	next[0] = first[0];
	sharing->before[0] = ++clock;
	while (depth > 0) {
		uint32_t at = stack[depth - 1];
		if (next[at] == first[at + 1]) {
			sharing->after[at] = ++clock;
			depth--;
			continue;
		}
		uint32_t child = sharing->children[next[at]++];
		sharing->before[child] = ++clock;
		next[child] = first[child];
		stack[depth++] = child;
	}
	return true;
}

static bool dominates(const struct gm_sharing *sharing, uint32_t a, uint32_t b)
{
	return sharing->before[a] <= sharing->before[b] && sharing->after[b] <= sharing->after[a];
}

/* The child of `top` that dominates `below`, in the dominator tree of `top`. */
static uint32_t branch_of(const struct gm_sharing *sharing, uint32_t top, uint32_t below)
{
	uint32_t low = sharing->child_first[top], high = sharing->child_first[top + 1];
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (sharing->before[sharing->children[middle]] <= sharing->before[below])
			low = middle;
		else
			high = middle;
	}
	return sharing->children[low];
}

/* --- sets ------------------------------------------------------------------------------------- */

/* A sharer has two numbers: the odd one if it holds only through the autograd graph. */
static uint32_t element(struct gm_sharing *sharing, struct gm_step step)
{
	bool is_new;
	uint64_t *slot = gm_map_put(
	        &sharing->element_of, ((uint64_t)step.part << 32 | step.name) + 1, &is_new);
	if (!slot || (is_new && !gm_array_push(&sharing->elements, step))) {
		sharing->no_memory = true;
		return 0;
	}
	if (is_new)
		*slot = sharing->elements.count - 1;
	return 2 * (uint32_t)*slot;
}

static bool set_is(const struct gm_sharing *sharing, uint32_t set, const uint32_t *members,
        uint32_t count, bool more, bool graph)
{
	const struct gm_sharers *sharers = &sharing->sets.items[set];
	return sharers->count == count && sharers->more == more && sharers->graph == graph &&
	       memcmp(sharing->members.items + sharers->first, members, count * sizeof(*members)) ==
	               0;
}

/* The number of the set with these members, in ascending order. */
static uint32_t set_number(
        struct gm_sharing *sharing, const uint32_t *members, uint32_t count, bool more, bool graph)
{
	if (count > GM_SHARERS_MAX) {
		count = GM_SHARERS_MAX;
		more = true;
	}
	if (count == 0)
		return 0;
	uint64_t hash = gm_hash_bytes(members, count * sizeof(*members), more + 2 * graph) | 1;
	for (;; hash += 2) {
		bool is_new;
		uint64_t *slot = gm_map_put(&sharing->set_by_hash, hash, &is_new);
		if (!slot)
			break;
		if (!is_new && *slot &&
		        set_is(sharing, (uint32_t)*slot, members, count, more, graph))
			return (uint32_t)*slot;
		if (!is_new && *slot)
			continue;
		struct gm_sharers made = {.first = (uint32_t)sharing->members.count,
		        .count = count,
		        .more = more,
		        .graph = graph};
		for (uint32_t i = 0; i < count; i++)
			if (!gm_array_push(&sharing->members, members[i]))
				sharing->no_memory = true;
		if (sharing->no_memory || !gm_array_push(&sharing->sets, made))
			break;
		*slot = sharing->sets.count - 1;
		return (uint32_t)*slot;
	}
	sharing->no_memory = true;
	return 0;
}

static uint32_t unite(struct gm_sharing *sharing, uint32_t a, uint32_t b)
{
	uint32_t members[2 * GM_SHARERS_MAX], count = 0;
	if (a == b || b == 0)
		return a;
	if (a == 0)
		return b;
	uint64_t *known = gm_map_put(
	        &sharing->unions, (uint64_t)(a < b ? a : b) << 32 | (a < b ? b : a), NULL);
	if (!known || sharing->sets.count > MAX_SETS) {
		sharing->no_memory |= !known;
		return a;
	}
	if (*known)
		return (uint32_t)*known;
	const struct gm_sharers *left = &sharing->sets.items[a], *right = &sharing->sets.items[b];
	const uint32_t *all = sharing->members.items;
	bool more = left->more || right->more;
	for (uint32_t i = 0, j = 0; i < left->count || j < right->count;) {
		uint32_t x = i < left->count ? all[left->first + i] : UINT32_MAX;
		uint32_t y = j < right->count ? all[right->first + j] : UINT32_MAX;
		members[count++] = x < y ? x : y;
		i += x <= y;
		j += y <= x;
	}
	uint32_t united = set_number(sharing, members, count, more, false);
	*known = united; /* set_number adds to other tables: the pointer stays valid */
	return united;
}

/* The same sharers, with the part that their graphs hold. */
static uint32_t through_graph(struct gm_sharing *sharing, uint32_t set)
{
	uint32_t members[GM_SHARERS_MAX], count = 0;
	if (set == 0)
		return 0;
	uint64_t *known = gm_map_put(&sharing->unions, (uint64_t)set, NULL);
	if (!known) {
		sharing->no_memory = true;
		return set;
	}
	if (*known)
		return (uint32_t)*known;
	const struct gm_sharers *sharers = &sharing->sets.items[set];
	for (uint32_t i = 0; i < sharers->count; i++) {
		uint32_t member = sharing->members.items[sharers->first + i] | 1;
		if (count == 0 || members[count - 1] != member)
			members[count++] = member;
	}
	*known = set_number(sharing, members, count, sharers->more, false);
	return (uint32_t)*known;
}

static uint32_t set_of_step(struct gm_sharing *sharing, struct gm_step step)
{
	uint32_t member = element(sharing, step);
	return member ? set_number(sharing, &member, 1, false, false) : 0;
}

/* --- objects with several holders ------------------------------------------------------------- */

struct finding {
	struct gm_sharing *sharing;
	struct gm_reach *reach;
	const uint32_t *dominators;
	bool *shared; /* by vertex: whether it has other holders than its dominator */
};

/* The name of the dominator's part that begins with `branch`. Internal edges have no name. */
static uint32_t set_of_branch(struct finding *finding, uint32_t top, uint32_t branch)
{
	struct gm_step steps[GM_PATH_MAX];
	const struct gm_variable *variable =
	        top == 0 ? gm_reach_variable_at(finding->reach, branch) : NULL;
	if (variable && (variable->running || (gm_reach_is_self(finding->reach, variable) &&
	                                              finding->shared[variable->object])))
		return set_number(finding->sharing, &finding->sharing->running, 1, false, false);
	return gm_paths_between(finding->sharing->paths, top, branch, steps)
	               ? set_of_step(finding->sharing, steps[0])
	               : 0;
}

static bool counts(const struct finding *finding, uint32_t from, uint32_t to)
{
	return finding->dominators[to] != GM_NO_DOMINATOR &&
	       (from == 0 || finding->dominators[from] != GM_NO_DOMINATOR) &&
	       !dominates(finding->sharing, to, from);
}

static void find_shared(struct finding *finding)
{
	const struct gm_reach *reach = finding->reach;
	for (size_t i = 0; i < reach->edges.count; i++) {
		const struct gm_reach_edge *edge = &reach->edges.items[i];
		if (counts(finding, edge->from, edge->to) &&
		        finding->dominators[edge->to] != edge->from)
			finding->shared[edge->to] = true;
	}
}

struct pair {
	uint32_t from, to; /* shared objects of one dominator: the first one holds the second */
	bool graph;        /* by a node of autograd */
};

static bool is_graph(const struct gm_reach_edge *edge)
{
	return edge->part == GM_PART_GRAPH || edge->part == GM_PART_SAVED;
}

static int by_from(const void *a, const void *b)
{
	const struct pair *left = a, *right = b;
	return left->from < right->from ? -1 : left->from > right->from;
}

/* The sharers that an object's holders have in common with their own holders. */
static void spread(struct finding *finding, struct pair *pairs, size_t count)
{
	struct gm_sharing *sharing = finding->sharing;
	GM_ARRAY(uint32_t) queue = {0};
	if (count)
		qsort(pairs, count, sizeof(*pairs), by_from);
	for (size_t i = 0; i < count && !sharing->no_memory; i++)
		if (i == 0 || pairs[i - 1].from != pairs[i].from)
			sharing->no_memory |= !gm_array_push(&queue, pairs[i].from);
	for (size_t done = 0; done < queue.count && !sharing->no_memory; done++) {
		uint32_t from = queue.items[done];
		size_t low = gm_partition_point(count, middle, pairs[middle].from < from);
		for (; low < count && pairs[low].from == from; low++) {
			uint32_t to = pairs[low].to;
			uint32_t set = sharing->set_of[from];
			if (pairs[low].graph)
				set = through_graph(sharing, set);
			uint32_t united = unite(sharing, sharing->set_of[to], set);
			if (united == sharing->set_of[to])
				continue;
			sharing->set_of[to] = united;
			sharing->no_memory |= !gm_array_push(&queue, to);
		}
	}
	gm_array_deinit(&queue);
}

static void find_sets(struct finding *finding)
{
	struct gm_sharing *sharing = finding->sharing;
	const struct gm_reach *reach = finding->reach;
	GM_ARRAY(struct pair) pairs = {0};
	for (size_t i = 0; i < reach->edges.count && !sharing->no_memory; i++) {
		const struct gm_reach_edge *edge = &reach->edges.items[i];
		uint32_t top = finding->dominators[edge->to], set;
		bool graph = is_graph(edge);
		if (!finding->shared[edge->to] || !counts(finding, edge->from, edge->to))
			continue;
		if (edge->from == top) {
			struct gm_step step = {edge->part, edge->name};
			set = edge->part == GM_PART_INTERNAL_EDGE ? 0 : set_of_step(sharing, step);
		} else {
			uint32_t branch = branch_of(sharing, top, edge->from);
			struct pair pair = {branch, edge->to,
			        graph || gm_paths_through_graph(sharing->paths, 0, edge->from)};
			if (finding->shared[branch]) {
				sharing->no_memory |= !gm_array_push(&pairs, pair);
				continue;
			}
			set = set_of_branch(finding, top, branch);
		}
		if (graph || gm_paths_through_graph(sharing->paths, 0, edge->from))
			set = through_graph(sharing, set);
		sharing->set_of[edge->to] = unite(sharing, sharing->set_of[edge->to], set);
	}
	if (!sharing->no_memory)
		spread(finding, pairs.items, pairs.count);
	gm_array_deinit(&pairs);
}

/*
 * The set as it is reported. Every graph that a model's parameters take part in holds them as well,
 * and so do running functions that compute with them. If two other sharers hold the object
 * directly, these are left out, and the graphs are kept beside the set. A reference that was not
 * found is probably from such a function, if there is one: an argument of a call in C++. A sharer
 * that holds in both ways is reported once.
 */
static uint32_t reported_set(struct gm_sharing *sharing, uint32_t set)
{
	uint32_t members[GM_SHARERS_MAX], count = 0, own = 0;
	uint32_t graphs[GM_SHARERS_MAX], graph_count = 0, before = 0;
	const struct gm_sharers sharers = sharing->sets.items[set];
	bool running = false, graph = true;
	for (uint32_t i = 0; i < sharers.count; i++) {
		uint32_t member = sharing->members.items[sharers.first + i];
		running |= (member | 1) == (sharing->running | 1);
		own += !(member & 1) && member != sharing->running && member != sharing->missing;
	}
	for (uint32_t i = 0; i < sharers.count; i++) {
		uint32_t member = sharing->members.items[sharers.first + i];
		bool is_running = (member | 1) == (sharing->running | 1);
		bool is_missing = (member | 1) == (sharing->missing | 1);
		/* in ascending order the same sharer comes before if it holds directly, too */
		bool directly = (member & 1) && before == member - 1;
		before = member;
		if (own > 1 && ((member & 1) || is_running)) {
			if (!is_running && !is_missing && !directly)
				graphs[graph_count++] = member & ~UINT32_C(1);
			continue;
		}
		if (is_missing && running)
			continue;
		graph &= member & 1;
		member &= ~UINT32_C(1);
		if (count == 0 || members[count - 1] != member)
			members[count++] = member;
	}
	/* two parts of one module, or two nodes of one graph, are shown as one */
	bool all_modules = true;
	for (uint32_t i = 0; i < count; i++) {
		uint8_t part = sharing->elements.items[members[i] / 2].part;
		all_modules &= part == GM_PART_MODULE || part == GM_PART_PARAMETER ||
		               part == GM_PART_BUFFER || part == GM_PART_GRAD;
	}
	if (all_modules || (count == 1 && members[0] != sharing->running))
		return 0;
	/* what a full set lacks is probably of the kinds that are left out, if it has any */
	bool more = sharers.more && (own < 2 || own + 2 >= sharers.count);
	uint32_t plain = set_number(sharing, members, count, more, false);
	uint32_t reported = graph ? set_number(sharing, members, count, more, true) : plain;
	uint32_t held = set_number(sharing, graphs, graph_count, false, false);
	held = unite(sharing, sharing->sets.items[reported].graphs, held);
	sharing->sets.items[reported].plain = plain;
	sharing->sets.items[reported].graphs = held;
	return reported;
}

struct gm_step gm_sharing_member(const struct gm_sharing *sharing, uint32_t set, uint32_t number)
{
	const struct gm_sharers *sharers = &sharing->sets.items[set];
	return sharing->elements.items[sharing->members.items[sharers->first + number] / 2];
}

/* A large set keeps the members with the lowest numbers: the variables that are nearest to the
 * program's author get these. */
static void number_variables(struct gm_sharing *sharing, struct gm_reach *reach)
{
	enum { FARTHEST = UINT8_MAX };
	for (uint32_t length = 0, next; length != FARTHEST && !sharing->no_memory; length = next) {
		next = FARTHEST;
		for (uint32_t e = reach->first[0]; e < reach->first[1]; e++) {
			const struct gm_reach_edge *edge = &reach->edges.items[e];
			if (edge->length > length && edge->length < next)
				next = edge->length;
			const struct gm_variable *variable =
			        edge->length == length ? gm_reach_variable_at(reach, edge->to)
			                               : NULL;
			if (variable)
				element(sharing, (struct gm_step){GM_PART_VARIABLE,
				                         gm_reach_variable_label(reach, variable)});
		}
	}
}

bool gm_sharing_init(struct gm_sharing *sharing, const struct gm_paths *paths,
        struct gm_reach *reach, const uint32_t *dominators)
{
	*sharing = (struct gm_sharing){.reach = reach, .paths = paths};
	sharing->set_of = calloc((size_t)reach->count + 1, sizeof(*sharing->set_of));
	_cleanup_free_ bool *shared = calloc((size_t)reach->count + 1, sizeof(*shared));
	struct gm_sharers empty = {0};
	struct gm_step none = {0};
	if (!sharing->set_of || !shared || !gm_array_push(&sharing->sets, empty) ||
	        !gm_array_push(&sharing->elements, none) || !number_tree(sharing, dominators))
		return false;
	struct finding finding = {sharing, reach, dominators, shared};
	struct gm_step running = {
	        GM_PART_VARIABLE, gm_reach_label(reach, GM_NAME_RUNNING, NULL, NULL)};
	struct gm_step missing = {
	        GM_PART_VARIABLE, gm_reach_label(reach, GM_NAME_MISSING, NULL, NULL)};
	sharing->running = element(sharing, running);
	sharing->missing = element(sharing, missing);
	number_variables(sharing, reach);
	find_shared(&finding);
	find_sets(&finding);
	for (uint32_t v = 0; v < reach->count && !sharing->no_memory; v++) {
		if (sharing->set_of[v] == 0)
			continue;
		sharing->set_of[v] = reported_set(sharing, sharing->set_of[v]);
	}
	return !sharing->no_memory;
}

void gm_sharing_deinit(struct gm_sharing *sharing)
{
	free(sharing->set_of);
	free(sharing->before);
	free(sharing->after);
	free(sharing->children);
	free(sharing->child_first);
	gm_array_deinit(&sharing->sets);
	gm_array_deinit(&sharing->members);
	gm_array_deinit(&sharing->elements);
	gm_map_deinit(&sharing->element_of);
	gm_map_deinit(&sharing->set_by_hash);
	gm_map_deinit(&sharing->unions);
}
