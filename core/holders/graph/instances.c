/*
 * Every object has a reference to its class. These references are not in the graph, because they
 * are as many as objects, and a class is usually a variable of its module anyway. If a class leads
 * to the block and no other holder of the class was found, all objects are searched for its
 * instances.
 */
#include "holders/graph/instances.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/sort.h"
#include "holders/graph/graph.h"
#include "holders/graph/freeze.h"

enum { PAGE = 4096, TYPE = 8 /* PyObject.ob_type, after the count (Include/object.h) */ };

struct instance {
	uint64_t address;
	uint32_t vertex;
};

/* Which of the targets are classes whose instances own a reference to them: those created by a
 * class statement. */
static bool find_classes(
        struct gm_holders *graph, const uint32_t *targets, size_t count, struct gm_map *ret_classes)
{
	for (size_t i = 0; i < count; i++) {
		const struct gm_vertex *vertex = &graph->vertices.items[targets[i]];
		if (vertex->kind != GM_VERTEX_PYTHON ||
		        !gm_python_is_instance(graph->python, vertex->address, "type") ||
		        gm_map_find(&graph->classes_done, vertex->address))
			continue;
		uint64_t *slot = gm_map_put(ret_classes, vertex->address, NULL);
		if (!slot || !gm_map_put(&graph->classes_done, vertex->address, NULL))
			return false;
		*slot = targets[i];
	}
	return true;
}

static size_t refer(struct gm_holders *graph, const struct gm_map *classes,
        const struct instance *instances, size_t count)
{
	unsigned char page[PAGE];
	uint64_t page_at = UINT64_MAX, type;
	size_t added = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t at = instances[i].address + TYPE, start = at & ~(uint64_t)(PAGE - 1);
		/* in ascending order, so each page is read once */
		if (start != page_at && !gm_image_try_read(graph->image, start, page, sizeof(page)))
			continue;
		page_at = start;
		memcpy(&type, page + (at - start), sizeof(type));
		const uint64_t *class = gm_map_find(classes, type);
		/* the class of a class is followed with its other references */
		if (!class || gm_python_is_instance(graph->python, instances[i].address, "type"))
			continue;
		gm_graph_refer(
		        graph, instances[i].vertex, (uint32_t) * class, GM_REF_INSTANCE, 0, 0);
		added++;
	}
	return added;
}

size_t gm_graph_refer_instances(
        struct gm_holders *graph, const uint32_t *targets, size_t count, bool *ret_rebuild)
{
	struct gm_map classes = {0};
	size_t added = 0, found = 0, all = graph->vertices.count;
	_cleanup_free_ struct instance *instances = NULL, *scratch = NULL;
	*ret_rebuild = false;
	if (!graph->python)
		return 0;
	if (!find_classes(graph, targets, count, &classes))
		graph->no_memory = true;
	if (classes.count && !graph->keep_all && !graph->no_memory) {
		gm_map_deinit(&classes);
		*ret_rebuild = true;
		return 0;
	}
	if (classes.count && !graph->no_memory) {
		instances = malloc((all + 1) * sizeof(*instances));
		scratch = malloc((all + 1) * sizeof(*scratch));
		graph->no_memory = !instances || !scratch;
	}
	if (classes.count && !graph->no_memory) {
		for (size_t i = 0; i < all; i++) {
			const struct gm_vertex *vertex = &graph->vertices.items[i];
			if (vertex->kind == GM_VERTEX_PYTHON)
				instances[found++] =
				        (struct instance){vertex->address, (uint32_t)i};
		}
		gm_sort_by_address(instances, scratch, found, sizeof(*instances));
		added = refer(graph, &classes, instances, found);
	}
	gm_map_deinit(&classes);
	if (added && !gm_graph_freeze(graph))
		graph->no_memory = true;
	return graph->no_memory ? 0 : added;
}
