#include "holders/retained/reach_blocks.h"
#include "holders/graph/graph.h"
#include "holders/place.h"
#include "holders/retained/parts.h"
#include "holders/retained/reach_add.h"

#include "base/cleanup.h"

static void add_block(struct gm_reach *reach, uint64_t address, uint64_t bytes, int device)
{
	struct gm_reach_block block = {
	        gm_reach_add_vertex(reach, GM_NO_VERTEX), address, bytes, device};
	if (!gm_array_push(&reach->blocks, block))
		reach->no_memory = true;
}

static int by_data(const void *a, const void *b, void *context)
{
	const struct gm_storage *storages = context;
	const struct gm_storage *left = &storages[*(const uint32_t *)a];
	const struct gm_storage *right = &storages[*(const uint32_t *)b];
	if (left->data != right->data)
		return left->data < right->data ? -1 : 1;
	return left->size > right->size ? -1 : left->size < right->size;
}

static void refer_block(struct gm_reach *reach, const struct gm_storage *storage)
{
	uint32_t from = gm_reach_mark(reach, gm_graph_find(reach->graph, storage->address));
	struct gm_reach_edge edge = {
	        .from = from, .to = reach->blocks.items[reach->blocks.count - 1].vertex};
	if (from)
		gm_reach_add_edge(reach, edge);
}

/* Each storage in host memory is a block of its own, unless it is within the memory of another. */
static void add_host_blocks(struct gm_reach *reach, const uint32_t *sorted, size_t count)
{
	struct gm_holders *graph = reach->graph;
	for (size_t i = 0; i < count; i++) {
		const struct gm_storage *storage = &graph->storages.items[sorted[i]];
		if (storage->device_type != GM_DEVICE_CPU || !storage->data || !storage->size)
			continue;
		const struct gm_reach_block *last =
		        reach->blocks.count ? &reach->blocks.items[reach->blocks.count - 1] : NULL;
		if (!last || storage->data - last->address >= last->bytes)
			add_block(reach, storage->data, storage->size, -1);
		if (!reach->no_memory)
			refer_block(reach, storage);
	}
}

/* The allocator's used blocks, and the storages whose memory begins in each. */
static void add_device_blocks(struct gm_reach *reach, const uint32_t *sorted, size_t count)
{
	struct gm_holders *graph = reach->graph;
	size_t at = 0;
	for (size_t i = 0; i < graph->block_count && !reach->no_memory; i++) {
		const struct gm_block_record *block = &graph->blocks[i];
		if (!block->allocated)
			continue;
		add_block(reach, block->address, block->size, block->device);
		while (at < count && graph->storages.items[sorted[at]].data < block->address)
			at++;
		for (; at < count && !reach->no_memory; at++) {
			const struct gm_storage *storage = &graph->storages.items[sorted[at]];
			if (storage->data - block->address >= block->size)
				break;
			refer_block(reach, storage);
		}
	}
}

struct gm_error *gm_reach_add_blocks(struct gm_reach *reach, bool host)
{
	struct gm_holders *graph = reach->graph;
	size_t count = graph->storages.count;
	_cleanup_free_ uint32_t *sorted = malloc((count + 1) * sizeof(*sorted));
	if (!sorted)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++)
		sorted[i] = (uint32_t)i;
	if (count)
		qsort_r(sorted, count, sizeof(*sorted), by_data, graph->storages.items);
	if (host) {
		add_host_blocks(reach, sorted, count);
		return NULL;
	}
	gm_try(gm_graph_blocks(graph));
	add_device_blocks(reach, sorted, count);
	return NULL;
}
