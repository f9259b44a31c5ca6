/*
 * The memory of host tensors: like device memory, it contains numbers. A word there that looks like
 * an address is not one, so repeated searches for references need not read it.
 *
 * Only large ones count: these are usually separate mappings, which a storage that was misread from
 * stale bytes does not have.
 */
#include "holders/native/host_data.h"

#include <stdlib.h>

#include "holders/graph/graph.h"

enum { LEAST = 1 << 20, PAGE = 4096 };

static int by_start(const void *a, const void *b)
{
	const struct gm_range *left = a, *right = b;
	return left->start < right->start ? -1 : left->start > right->start;
}

/* A tensor refers to it. */
static bool is_used(struct gm_holders *graph, const struct gm_storage *storage)
{
	uint32_t number = gm_graph_find(graph, storage->address);
	if (number == GM_NO_VERTEX)
		return false;
	const struct gm_vertex *vertex = &graph->vertices.items[number];
	for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++)
		if (graph->edges.items[e].kind == GM_REF_STORAGE)
			return true;
	return false;
}

struct gm_range *gm_graph_host_data(struct gm_holders *graph, size_t *ret_count)
{
	struct gm_range *ranges = malloc((graph->storages.count + 1) * sizeof(*ranges));
	size_t count = 0, kept = 0;
	*ret_count = 0;
	for (size_t i = 0; i < graph->storages.count && ranges; i++) {
		const struct gm_storage *storage = &graph->storages.items[i];
		const struct gm_mapping *mapping =
		        storage->size >= LEAST && storage->size < UINT64_MAX - storage->data
		                ? gm_image_find_mapping(graph->image, storage->data)
		                : NULL;
		uint64_t end = storage->data + storage->size;
		if (!mapping || !gm_mapping_is_memory(mapping) || end > mapping->end ||
		        !is_used(graph, storage))
			continue;
		ranges[count++] =
		        (struct gm_range){(storage->data + PAGE - 1) & ~(uint64_t)(PAGE - 1),
		                end & ~(uint64_t)(PAGE - 1)};
	}
	if (count > 1)
		qsort(ranges, count, sizeof(*ranges), by_start);
	for (size_t i = 0; i < count; i++) { /* two storages may share the same bytes */
		if (kept > 0 && ranges[i].start < ranges[kept - 1].end) {
			if (ranges[i].end > ranges[kept - 1].end)
				ranges[kept - 1].end = ranges[i].end;
		} else {
			ranges[kept++] = ranges[i];
		}
	}
	*ret_count = kept;
	return ranges;
}
