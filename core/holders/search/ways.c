/*
 * Counts the paths by which a root holds a block, without listing them. In a graph with cycles
 * there would be infinitely many, so objects that lead to each other (a module and an object that
 * refers back to it) count as one: Tarjan's algorithm finds these groups, those nearest to the
 * block first. The number of paths of a group is the sum over all references from its members to
 * outside of it. The block's own objects have one path, and so does a node of the autograd graph,
 * however the graph branches.
 */
#include "holders/search/ways.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/search/finding.h"

enum { MAX_WAYS = GM_WAYS_MOST, NOT_SEEN = 0, DONE = UINT32_MAX };

struct counting {
	struct gm_finding *finding;
	uint32_t *ways;   /* by mark */
	uint32_t *number; /* the order in which they were reached, from 1; DONE: its group is
	                     complete */
	uint32_t *lowest; /* the smallest `order` that it reaches within its group */
	uint32_t *next;   /* the edge to be followed next */
	GM_ARRAY(uint32_t) path, group;
	uint32_t met;
	bool no_memory;
};

static size_t target_of(struct counting *counting, uint32_t k)
{
	struct gm_finding *finding = counting->finding;
	uint32_t edge = finding->forward.edges[k];
	return (size_t)(gm_finding_mark_at(finding, finding->graph->edges.items[edge].to) -
	                finding->marks.items);
}

static void meet(struct counting *counting, uint32_t mark)
{
	counting->number[mark] = counting->lowest[mark] = ++counting->met;
	counting->next[mark] = counting->finding->forward.first[mark];
	counting->no_memory |=
	        !gm_array_push(&counting->path, mark) || !gm_array_push(&counting->group, mark);
}

static bool is_one_way(const struct counting *counting, uint32_t mark)
{
	const struct gm_finding *finding = counting->finding;
	return finding->marks.items[mark].own ||
	       finding->graph->vertices.items[finding->marks.items[mark].vertex].kind ==
	               GM_VERTEX_NODE;
}

/* All members above `first` on the stack form one group: their references to earlier groups are
 * added. */
static void count_group(struct counting *counting, size_t first)
{
	const struct gm_forward *forward = &counting->finding->forward;
	uint64_t ways = 0;
	bool one = false;
	for (size_t i = first; i < counting->group.count; i++) {
		uint32_t mark = counting->group.items[i];
		one |= is_one_way(counting, mark);
		for (uint32_t k = forward->first[mark]; k < forward->first[mark + 1]; k++) {
			size_t to = target_of(counting, k);
			if (counting->number[to] == DONE && ways < MAX_WAYS)
				ways += counting->ways[to];
		}
	}
	for (size_t i = first; i < counting->group.count; i++) {
		uint32_t mark = counting->group.items[i];
		counting->ways[mark] = one ? 1 : ways < MAX_WAYS ? (uint32_t)ways : MAX_WAYS;
	}
	while (counting->group.count > first)
		counting->number[counting->group.items[--counting->group.count]] = DONE;
}

static void leave(struct counting *counting, uint32_t mark)
{
	counting->path.count--;
	if (counting->path.count > 0) {
		uint32_t before = counting->path.items[counting->path.count - 1];
		if (counting->lowest[mark] < counting->lowest[before])
			counting->lowest[before] = counting->lowest[mark];
	}
	if (counting->lowest[mark] != counting->number[mark])
		return;
	size_t first = counting->group.count;
	while (first > 0 && counting->group.items[first - 1] != mark)
		first--;
	count_group(counting, first - 1);
}

static void follow_from(struct counting *counting, uint32_t start)
{
	const struct gm_forward *forward = &counting->finding->forward;
	meet(counting, start);
	while (counting->path.count > 0 && !counting->no_memory) {
		uint32_t mark = counting->path.items[counting->path.count - 1];
		if (counting->next[mark] == forward->first[mark + 1]) {
			leave(counting, mark);
			continue;
		}
		uint32_t to = (uint32_t)target_of(counting, counting->next[mark]++);
		if (counting->number[to] == NOT_SEEN)
			meet(counting, to);
		else if (counting->number[to] < counting->lowest[mark])
			counting->lowest[mark] = counting->number[to];
	}
}

uint32_t *gm_finding_count_ways(struct gm_finding *finding)
{
	size_t count = finding->marks.count + 1;
	_cleanup_free_ uint32_t *number = calloc(count, sizeof(*number));
	_cleanup_free_ uint32_t *lowest = calloc(count, sizeof(*lowest));
	_cleanup_free_ uint32_t *next = calloc(count, sizeof(*next));
	uint32_t *ways = calloc(count, sizeof(*ways));
	struct counting counting = {finding, ways, number, lowest, next};
	counting.no_memory = !number || !lowest || !next || !ways;
	for (uint32_t i = 0; i < finding->marks.count && !counting.no_memory; i++)
		if (number[i] == NOT_SEEN)
			follow_from(&counting, i);
	gm_array_deinit(&counting.path);
	gm_array_deinit(&counting.group);
	if (!counting.no_memory)
		return ways;
	free(ways);
	return NULL;
}
