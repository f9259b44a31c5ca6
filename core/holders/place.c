/*
 * What is at an address: a storage's memory, a used or free block of the CUDA allocator, host
 * memory, or nothing.
 */
#include "holders/place.h"

#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "holders/graph/graph.h"

static int by_address(const void *a, const void *b)
{
	const struct gm_block_record *left = a, *right = b;
	return left->address < right->address ? -1 : left->address > right->address;
}

/* The allocator's blocks, read once. A program without CUDA is not an error here; it has no blocks.
 * */
struct gm_error *gm_graph_blocks(struct gm_holders *graph)
{
	if (graph->blocks_read)
		return NULL;
	struct gm_error *error = gm_torch_blocks(graph->torch, &graph->blocks, &graph->block_count);
	if (error == &gm_error_no_memory)
		return error;
	graph->blocks_read = true;
	if (error) {
		gm_error_destroy(error);
		return NULL;
	}
	if (graph->block_count)
		qsort(graph->blocks, graph->block_count, sizeof(*graph->blocks), by_address);
	return NULL;
}

const struct gm_block_record *gm_graph_block_at(struct gm_holders *graph, uint64_t address)
{
	/* the block's address is not the first field of a record, and the search compares first
	 * fields */
	const size_t offset = offsetof(struct gm_block_record, address);
	const char *found = graph->block_count
	                            ? gm_search_address((const char *)graph->blocks + offset,
	                                      graph->block_count, sizeof(*graph->blocks), address)
	                            : NULL;
	const struct gm_block_record *block =
	        found ? (const struct gm_block_record *)(const void *)(found - offset) : NULL;
	return block && address - block->address < block->size ? block : NULL;
}

/* The storage whose memory contains the address; the smallest one, if several overlap. */
static const struct gm_storage *storage_at(struct gm_holders *graph, uint64_t address)
{
	const struct gm_storage *best = NULL;
	for (size_t i = 0; i < graph->storages.count; i++) {
		const struct gm_storage *storage = &graph->storages.items[i];
		if (storage->data && address - storage->data < storage->size &&
		        (!best || storage->size < best->size))
			best = storage;
	}
	return best;
}

static enum gm_place place_of_block(
        const struct gm_block_record *block, const struct gm_storage *storage)
{
	if (!block->mapped)
		return GM_PLACE_UNMAPPED;
	if (!block->allocated)
		return block->event_count > 0 ? GM_PLACE_WAITING : GM_PLACE_FREE_BLOCK;
	return storage ? GM_PLACE_STORAGE : GM_PLACE_BLOCK;
}

struct gm_error *gm_graph_place(
        struct gm_holders *graph, uint64_t address, struct gm_holders_answer *answer)
{
	gm_try(gm_graph_blocks(graph));
	const struct gm_block_record *block = gm_graph_block_at(graph, address);
	const struct gm_storage *storage = storage_at(graph, address);
	if (block) {
		answer->address = block->address;
		answer->size = block->size;
		answer->device_type = GM_DEVICE_CUDA;
		answer->device = block->device;
		answer->events = block->event_count;
		answer->place = place_of_block(block, storage);
		return NULL;
	}
	if (storage) {
		answer->address = storage->data;
		answer->size = storage->size;
		answer->device_type = storage->device_type;
		answer->device = storage->device;
		answer->place = GM_PLACE_STORAGE;
		return NULL;
	}
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, address);
	if (!mapping) {
		answer->place = GM_PLACE_NOTHING;
		return NULL;
	}
	answer->place = mapping->flags & GM_MAPPING_DEVICE ? GM_PLACE_DEVICE : GM_PLACE_HOST;
	if (answer->place == GM_PLACE_HOST && mapping->path[0] &&
	        !(answer->file = strdup(mapping->path)))
		return &gm_error_no_memory;
	return NULL;
}
