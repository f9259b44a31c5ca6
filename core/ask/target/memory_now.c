/* The memory of a device according to the allocator's own data. */
#include "ask/target/memory_now.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ask/target/memory_build.h"
#include "ask/context.h"
#include "ask/target/device.h"
#include "ask/target/memory.h"
#include "ask/target/pause.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/size.h"
#include "torch/allocator.h"

static int by_address(const void *a, const void *b)
{
	const struct gm_block_record *left = a, *right = b;
	if (left->device != right->device)
		return left->device < right->device ? -1 : 1;
	return left->address < right->address ? -1 : left->address > right->address;
}

static bool begin_segment(struct gm_memory_building *building, struct gm_torch *torch,
        const struct gm_block_record *block)
{
	struct gm_pool_record pool;
	struct gm_memory_segment segment = {
	        .address = block->address,
	        .stream = block->stream,
	        .expandable = block->expandable,
	        .first = building->parts.count,
	};
	if (gm_torch_pool(torch, block->pool, &pool)) {
		segment.pool = pool.small ? GM_POOL_SMALL : GM_POOL_LARGE;
		segment.is_private = pool.is_private;
	}
	return gm_array_push(&building->segments, segment);
}

/* The blocks of a segment form a list; two segments may be adjacent. */
static struct gm_error *build_now(struct gm_memory_building *building, struct gm_torch *torch,
        const struct gm_block_record *blocks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct gm_block_record *block = &blocks[i];
		bool joins = i > 0 && block->previous && blocks[i - 1].record == block->previous &&
		             blocks[i - 1].address + blocks[i - 1].size == block->address;
		if (!joins && !begin_segment(building, torch, block))
			return &gm_error_no_memory;
		struct gm_segment_part part = {
		        .address = block->address,
		        .size = block->size,
		        .block = GM_NO_BLOCK,
		        .state = !block->mapped           ? GM_SEGMENT_PART_UNMAPPED
		                 : block->allocated       ? GM_SEGMENT_PART_USED
		                 : block->event_count > 0 ? GM_SEGMENT_PART_PENDING
		                                          : GM_SEGMENT_PART_FREE,
		};
		if (part.state == GM_SEGMENT_PART_USED || part.state == GM_SEGMENT_PART_PENDING)
			part.requested = block->requested;
		if (!gm_memory_add_part(building, part))
			return &gm_error_no_memory;
	}
	return NULL;
}

/* The first device with memory, from blocks that are sorted by device. */
static struct gm_error *choose_device(struct gm_context *context, int asked,
        const struct gm_block_record *blocks, size_t count, int *ret_device)
{
	size_t devices;
	gm_try(gm_torch_allocator_devices(context->torch, &devices));
	*ret_device = asked >= 0 ? asked : count ? blocks[0].device : 0;
	if ((size_t)*ret_device >= devices)
		return gm_error_create(GM_TARGET,
		        "device %d: PyTorch has not used this device (it has %zu): name another",
		        *ret_device, devices);
	return NULL;
}

static struct gm_error *look_now(
        struct gm_context *context, int device, struct gm_memory *ret_memory)
{
	struct gm_torch *torch;
	struct gm_image *image;
	size_t count, first = 0;
	gm_try(gm_context_torch(context, &torch));
	gm_try(gm_context_image(context, &image));
	_cleanup_free_ struct gm_block_record *blocks = NULL;
	gm_try(gm_torch_blocks(torch, &blocks, &count));
	if (count)
		qsort(blocks, count, sizeof(*blocks), by_address);
	gm_try(choose_device(context, device, blocks, count, &device));
	struct gm_memory memory = {.device_type = GM_DEVICE_CUDA,
	        .device = (int16_t)device,
	        .event = GM_NO_EVENT,
	        .total = GM_NOT_KNOWN,
	        .device_free = GM_NOT_KNOWN};
	gm_try(gm_torch_allocator_device(torch, device, &memory.own));
	while (first < count && blocks[first].device < device)
		first++;
	size_t end = first;
	while (end < count && blocks[end].device == device)
		end++;
	struct gm_memory_building building = {0};
	struct gm_error *error = build_now(&building, torch, blocks + first, end - first);
	if (error) {
		gm_memory_building_deinit(&building);
		return error;
	}
	gm_memory_finish(&building, &memory);
	error = gm_context_check_there(context);
	if (error) {
		gm_memory_deinit(&memory);
		return error;
	}
	memory.total = memory.own.total;
	if (gm_device_facts(context, device, &memory.own, &memory.there)) {
		memory.total = memory.there.total;
		memory.device_free = memory.there.free;
	}
	*ret_memory = memory;
	ret_memory->allocator = &ret_memory->own;
	return NULL;
}

struct gm_error *gm_memory_now(struct gm_context *context, int device, struct gm_memory *ret_memory)
{
	struct gm_pause pause;
	gm_try(gm_context_pause(context, GM_READS_LITTLE));
	struct gm_error *error = look_now(context, device, ret_memory);
	gm_context_resume(context, &pause);
	if (!error)
		ret_memory->pause = pause;
	return error;
}
