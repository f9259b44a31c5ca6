/*
 * Which objects reach the block, and the nearest root of each: Dijkstra's algorithm, first
 * backwards from the block, then within the marked objects from all roots at once. The first run
 * gives each vertex its best path to the block, the second its best path from a root.
 */
#include "holders/search/roots.h"

#include "base/cleanup.h"
#include "holders/search/finding.h"
#include "holders/graph/graph.h"

enum { MAX_EDGE_LENGTH = 12, MAX_ORDERED = 64 };

bool gm_finding_mark(struct gm_finding *finding, uint32_t vertex, uint32_t towards, bool own)
{
	bool is_new;
	if (finding->marks.count >= GM_MAX_MARKED) {
		finding->truncated = true;
		return false;
	}
	uint64_t *slot = gm_map_put(&finding->mark_of, (uint64_t)vertex + 1, &is_new);
	struct gm_mark mark = {vertex, towards, GM_NO_DISTANCE, GM_NO_DISTANCE, GM_NO_EDGE, own};
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

/* The distance of a reference, as a user sees it: a dict's key, or a leaf that a graph needs,
 * explains less than a value or an attribute. */
uint32_t gm_edge_length(const struct gm_edge *edge)
{
	if (edge->kind == GM_REF_ACCUMULATE || edge->kind == GM_REF_THREAD)
		return MAX_EDGE_LENGTH;
	if (edge->kind == GM_REF_NATIVE)
		return 8; /* a path through Python explains more */
	if (edge->kind != GM_REF_PYTHON)
		return 2;
	if (edge->extra & GM_LINK_IS_DICT)
		return 0; /* an attribute and the object's dict count as one step */
	switch (edge->extra) {
	case GM_EDGE_DICT_KEY:
	case GM_EDGE_GUESS:
		return MAX_EDGE_LENGTH;
	case GM_EDGE_OTHER:
		return 4;
	case GM_EDGE_ITEM:
		return 3;
	default:
		return 2;
	}
}

/* Does this edge stay within the block's own objects? */
static bool is_own_edge(const struct gm_edge *edge)
{
	return edge->kind == GM_REF_STORAGE || edge->kind == GM_REF_WRAPPER;
}

/* The block's own objects: the tensors on its storages, and their wrappers in Python. */
static void mark_own(struct gm_finding *finding)
{
	struct gm_holders *graph = finding->graph;
	for (size_t i = 0; i < finding->marks.count && !finding->no_memory; i++) {
		struct gm_vertex vertex = graph->vertices.items[finding->marks.items[i].vertex];
		for (uint32_t e = vertex.first; e < vertex.first + vertex.count; e++) {
			const struct gm_edge *edge = &graph->edges.items[e];
			if (is_own_edge(edge))
				gm_finding_mark(finding, edge->from, e, true);
		}
	}
}

/* A list of marks for each of the few distances ahead. */
struct ahead {
	GM_ARRAY(uint32_t) by_length[MAX_EDGE_LENGTH + 1];
	size_t waiting;
	uint32_t distance; /* of the list that is processed now */
	size_t taken;
};

static bool put_ahead(struct ahead *ahead, uint32_t length, size_t mark)
{
	ahead->waiting++;
	return gm_array_push(&ahead->by_length[length % (MAX_EDGE_LENGTH + 1)], (uint32_t)mark);
}

/* The nearest waiting mark, with its distance; false if there is none. Marks that are added to the
 * list later are processed in turn. */
static bool take_nearest(struct ahead *ahead, uint32_t *ret_mark, uint32_t *ret_distance)
{
	while (ahead->waiting > 0) {
		size_t slot = ahead->distance % (MAX_EDGE_LENGTH + 1);
		if (ahead->taken < ahead->by_length[slot].count) {
			*ret_mark = ahead->by_length[slot].items[ahead->taken++];
			*ret_distance = ahead->distance;
			ahead->waiting--;
			return true;
		}
		ahead->by_length[slot].count = 0;
		ahead->taken = 0;
		ahead->distance++;
	}
	return false;
}

static void ahead_deinit(struct ahead *ahead)
{
	for (size_t i = 0; i <= MAX_EDGE_LENGTH; i++)
		gm_array_deinit(&ahead->by_length[i]);
}

/* The referrers of a mark at `distance` from the block. */
static void mark_referrers(
        struct gm_finding *finding, size_t at, uint32_t distance, struct ahead *ahead)
{
	struct gm_holders *graph = finding->graph;
	struct gm_vertex vertex = graph->vertices.items[finding->marks.items[at].vertex];
	if (gm_graph_is_root(&vertex))
		return;
	for (uint32_t e = vertex.first; e < vertex.first + vertex.count; e++) {
		const struct gm_edge *edge = &graph->edges.items[e];
		uint32_t length = distance + gm_edge_length(edge);
		gm_finding_mark(finding, edge->from, e, false);
		struct gm_mark *from = gm_finding_mark_at(finding, edge->from);
		if (!from || from->to_block <= length)
			continue;
		from->to_block = length;
		if (!from->own)
			from->towards = e;
		finding->no_memory |=
		        !put_ahead(ahead, length, (size_t)(from - finding->marks.items));
	}
}

void gm_finding_mark_all(struct gm_finding *finding)
{
	struct ahead ahead = {0};
	mark_own(finding);
	for (size_t i = 0; i < finding->marks.count; i++) {
		finding->marks.items[i].to_block = 0;
		finding->no_memory |= !put_ahead(&ahead, 0, i);
	}
	for (uint32_t at, distance; !finding->no_memory && take_nearest(&ahead, &at, &distance);)
		/* otherwise a shorter path was found since */
		if (finding->marks.items[at].to_block == distance)
			mark_referrers(finding, at, distance, &ahead);
	ahead_deinit(&ahead);
}

/* Each edge between two marked vertices, with the number of its source. */
typedef void (*visit_edge)(void *context, size_t from, uint32_t edge);

static void each_marked_edge(struct gm_finding *finding, visit_edge visit, void *context)
{
	struct gm_holders *graph = finding->graph;
	for (size_t i = 0; i < finding->marks.count; i++) {
		const struct gm_vertex *vertex =
		        &graph->vertices.items[finding->marks.items[i].vertex];
		if (gm_graph_is_root(vertex))
			continue;
		for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++) {
			const struct gm_mark *from =
			        gm_finding_mark_at(finding, graph->edges.items[e].from);
			if (from)
				visit(context, (size_t)(from - finding->marks.items), e);
		}
	}
}

static void count_edge(void *context, size_t from, uint32_t edge)
{
	((struct gm_forward *)context)->first[from + 1]++;
}

struct filling {
	struct gm_forward *forward;
	uint32_t *filled;
};

static void place_edge(void *context, size_t from, uint32_t edge)
{
	struct filling *filling = context;
	filling->forward->edges[filling->forward->first[from] + filling->filled[from]++] = edge;
}

static uint32_t order_of(const struct gm_holders *graph, uint32_t edge)
{
	const struct gm_edge *of = &graph->edges.items[edge];
	return (uint32_t)of->kind << 24 | of->extra;
}

/* Of paths of the same length, the first is shown. Which one is first must not depend on addresses:
 * if the holder has an order (a node's hooks), it counts. */
static void order_edges(
        const struct gm_holders *graph, const struct gm_forward *forward, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t first = forward->first[i], last = forward->first[i + 1];
		for (uint32_t k = first + 1; last - first <= MAX_ORDERED && k < last; k++) {
			uint32_t edge = forward->edges[k], at = k;
			for (; at > first &&
			        order_of(graph, forward->edges[at - 1]) > order_of(graph, edge);
			        at--)
				forward->edges[at] = forward->edges[at - 1];
			forward->edges[at] = edge;
		}
	}
}

static void walk_from_roots(struct gm_finding *finding)
{
	struct gm_holders *graph = finding->graph;
	const struct gm_forward *forward = &finding->forward;
	struct ahead ahead = {0};
	for (size_t i = 0; i < finding->marks.count; i++) {
		if (!gm_graph_is_root(&graph->vertices.items[finding->marks.items[i].vertex]))
			continue;
		finding->marks.items[i].from_root = 0;
		finding->no_memory |= !put_ahead(&ahead, 0, i);
	}
	for (uint32_t at, distance; !finding->no_memory && take_nearest(&ahead, &at, &distance);) {
		if (finding->marks.items[at].from_root != distance)
			continue; /* a shorter path was found since */
		for (uint32_t k = forward->first[at]; k < forward->first[at + 1]; k++) {
			uint32_t e = forward->edges[k];
			uint32_t length = distance + gm_edge_length(&graph->edges.items[e]);
			struct gm_mark *to = gm_finding_mark_at(finding, graph->edges.items[e].to);
			if (!to || to->from_root <= length)
				continue;
			to->from_root = length;
			to->root_edge = e;
			finding->no_memory |=
			        !put_ahead(&ahead, length, (size_t)(to - finding->marks.items));
		}
	}
	ahead_deinit(&ahead);
}

void gm_finding_find_roots(struct gm_finding *finding)
{
	size_t count = finding->marks.count;
	struct gm_forward *forward = &finding->forward;
	forward->first = calloc(count + 1, sizeof(*forward->first));
	_cleanup_free_ uint32_t *filled = calloc(count + 1, sizeof(*filled));
	if (!forward->first || !filled) {
		finding->no_memory = true;
		return;
	}
	each_marked_edge(finding, count_edge, forward);
	for (size_t i = 1; i <= count; i++)
		forward->first[i] += forward->first[i - 1];
	forward->edges = malloc(((size_t)forward->first[count] + 1) * sizeof(*forward->edges));
	if (!forward->edges) {
		finding->no_memory = true;
		return;
	}
	struct filling filling = {forward, filled};
	each_marked_edge(finding, place_edge, &filling);
	order_edges(finding->graph, forward, count);
	walk_from_roots(finding);
}
