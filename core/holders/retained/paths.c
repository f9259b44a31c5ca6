#include "holders/retained/paths.h"
#include "holders/retained/parts.h"
#include "holders/retained/variables.h"

#include <string.h>

static bool is_graph(uint8_t part)
{
	return part == GM_PART_GRAPH || part == GM_PART_SAVED;
}

static uint32_t extend(
        struct gm_paths *paths, uint32_t before, struct gm_step step, bool *no_memory)
{
	uint32_t depth = paths->paths.items[before].depth + 1;
	if (depth > GM_PATH_MAX)
		return before;
	uint64_t key = ((uint64_t)before << 38 | (uint64_t)step.part << 32 | step.name) + 1;
	bool is_new;
	uint64_t *slot = gm_map_put(&paths->by_step, key, &is_new);
	struct gm_path path = {before, depth, step};
	if (!slot || (is_new && !gm_array_push(&paths->paths, path))) {
		*no_memory = true;
		return 0;
	}
	if (is_new)
		*slot = paths->paths.count - 1;
	return (uint32_t)*slot;
}

/* Repeated steps are shown once: a linked list, a list of lists. A path through the autograd graph
 * is shown by the node at its end that saved something. */
static uint32_t extend_by_edge(
        struct gm_paths *paths, uint32_t before, const struct gm_reach_edge *edge, bool *no_memory)
{
	const struct gm_path *last = &paths->paths.items[before];
	struct gm_step step = {edge->part, edge->name};
	switch ((enum gm_part)edge->part) {
	case GM_PART_INTERNAL_EDGE:
		return before;
	case GM_PART_GRAPH:
		if (is_graph(last->step.part))
			return before;
		step.name = 0;
		break;
	case GM_PART_SAVED:
		if (is_graph(last->step.part))
			before = last->before;
		break;
	case GM_PART_VIEW:
		if (is_graph(last->step.part))
			return before;
		break;
	case GM_PART_ITEM:
		step.name = 0;
		if (last->step.part == GM_PART_ITEM)
			return before;
		break;
	case GM_PART_ATTRIBUTE:
	case GM_PART_KEY:
	case GM_PART_DICT_KEY:
	case GM_PART_LOCAL:
	case GM_PART_FIELD:
	case GM_PART_TRACEBACK:
		if (last->step.part == step.part && last->step.name == step.name)
			return before;
		break;
	default:
		break;
	}
	return extend(paths, before, step, no_memory);
}

/* The path that an object's attributes continue. What forward() keeps in attributes of `ctx`, it
 * saved for backward: of a context that the graph holds, or of its __dict__, the path is that of
 * the node's class. */
static uint32_t path_of_owner(
        struct gm_paths *paths, struct gm_reach *reach, uint32_t owner, bool *no_memory)
{
	const struct gm_path *path = &paths->paths.items[paths->of[owner]];
	if (path->step.part != GM_PART_GRAPH)
		return paths->of[owner];
	const struct gm_reach_edge *edge = &reach->edges.items[reach->tree[owner]];
	if (edge->part == GM_PART_INTERNAL_EDGE && edge->reference == GM_REF_PYTHON)
		edge = &reach->edges.items[reach->tree[edge->from]];
	uint32_t class =
	        edge->reference == GM_REF_CONTEXT ? gm_reach_node_name(reach, edge->to) : 0;
	return class ? extend(paths, path->before, (struct gm_step){GM_PART_SAVED, class},
	                       no_memory)
	             : paths->of[owner];
}

bool gm_paths_init(struct gm_paths *paths, struct gm_reach *reach)
{
	bool no_memory = false;
	*paths = (struct gm_paths){.reach = reach};
	paths->of = calloc((size_t)reach->count + 1, sizeof(*paths->of));
	paths->through_graph = calloc((size_t)reach->count + 1, sizeof(*paths->through_graph));
	struct gm_path empty = {0};
	if (!paths->of || !paths->through_graph || !gm_array_push(&paths->paths, empty))
		return false;
	for (uint32_t i = 1; i < reach->reached_count && !no_memory; i++) {
		uint32_t v = reach->order[i];
		struct gm_reach_edge edge = reach->edges.items[reach->tree[v]];
		if (edge.part == GM_PART_VARIABLE) {
			const struct gm_variable *variable = gm_reach_variable_at(reach, v);
			edge.name = variable ? gm_reach_variable_label(reach, variable) : 0;
			no_memory |= !edge.name;
		}
		uint32_t before = edge.part == GM_PART_ATTRIBUTE
		                          ? path_of_owner(paths, reach, edge.from, &no_memory)
		                          : paths->of[edge.from];
		paths->of[v] = extend_by_edge(paths, before, &edge, &no_memory);
		paths->through_graph[v] = paths->through_graph[edge.from] || is_graph(edge.part);
	}
	return !no_memory;
}

void gm_paths_deinit(struct gm_paths *paths)
{
	gm_array_deinit(&paths->paths);
	gm_map_deinit(&paths->by_step);
	free(paths->of);
	free(paths->through_graph);
	paths->of = NULL;
	paths->through_graph = NULL;
}

bool gm_paths_through_graph(const struct gm_paths *paths, uint32_t from, uint32_t to)
{
	return paths->through_graph[to] && !paths->through_graph[from];
}

size_t gm_paths_between(const struct gm_paths *paths, uint32_t from, uint32_t to,
        struct gm_step ret_steps[GM_PATH_MAX])
{
	uint32_t start = paths->of[from], at = paths->of[to];
	size_t count = 0;
	while (at != start && at != 0 &&
	        paths->paths.items[at].depth >= paths->paths.items[start].depth) {
		ret_steps[count++] = paths->paths.items[at].step;
		at = paths->paths.items[at].before;
	}
	for (size_t i = 0; i < count / 2; i++) {
		struct gm_step swapped = ret_steps[i];
		ret_steps[i] = ret_steps[count - 1 - i];
		ret_steps[count - 1 - i] = swapped;
	}
	return count;
}

/* The path of a parameter in its module: "layers", "3", "weight". */
static size_t add_parameter_place(
        const struct gm_paths *paths, uint32_t vertex, struct gm_step *ret_steps, size_t capacity)
{
	struct gm_step steps[GM_PATH_MAX];
	size_t count = gm_paths_between(paths, 0, vertex, steps), first = count;
	if (count == 0 || steps[count - 1].part != GM_PART_PARAMETER)
		return 0;
	for (first = count - 1; first > 0 && steps[first - 1].part == GM_PART_MODULE;)
		first--;
	count = count - first > capacity ? capacity : count - first;
	memcpy(ret_steps, steps + first, count * sizeof(*steps));
	return count;
}

size_t gm_paths_grouped(const struct gm_paths *paths, uint32_t from, uint32_t to,
        struct gm_step ret_steps[2 * GM_PATH_MAX])
{
	struct gm_step steps[GM_PATH_MAX];
	size_t count = gm_paths_between(paths, from, to, steps), made = 0;
	for (size_t i = 0; i < count && made + 2 < 2 * GM_PATH_MAX; i++) {
		size_t end = i;
		while (end < count && steps[end].part == GM_PART_MODULE)
			end++;
		bool parameter = end < count && steps[end].part == GM_PART_PARAMETER;
		bool buffer = end < count && steps[end].part == GM_PART_BUFFER;
		bool grad = parameter && end + 1 < count && steps[end + 1].part == GM_PART_GRAD;
		if ((parameter || buffer) && made + (end - i) + 3 < 2 * GM_PATH_MAX) {
			ret_steps[made++] = (struct gm_step){.part = grad     ? GM_PART_GRADS
			                                             : buffer ? GM_PART_BUFFERS
			                                                      : GM_PART_PARAMETERS};
			while (i <= end)
				ret_steps[made++] = steps[i++];
			i -= !grad; /* .grad is shown by the group */
			continue;
		}
		if (steps[i].part == GM_PART_STATE && i + 1 < count &&
		        steps[i + 1].part == GM_PART_ENTRY && steps[i].name) {
			ret_steps[made++] = steps[i + 1];
			made += add_parameter_place(paths, steps[i].name - 1, ret_steps + made,
			        2 * GM_PATH_MAX - made - 2);
			i++;
			continue;
		}
		if (steps[i].part == GM_PART_SAVED)
			ret_steps[made++] = (struct gm_step){.part = GM_PART_SAVED_GROUP};
		ret_steps[made++] = steps[i];
	}
	return made;
}
