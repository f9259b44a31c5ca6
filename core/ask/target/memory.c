/* The memory of a device, from the allocator's records or from a recording. */
#include "ask/target/memory.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/size.h"
#include "base/cleanup.h"
#include "torch/allocator.h"

struct building {
	GM_ARRAY(struct gm_memory_segment) segments;
	GM_ARRAY(struct gm_piece) pieces;
};

static void building_deinit(struct building *building)
{
	gm_array_deinit(&building->segments);
	gm_array_deinit(&building->pieces);
}

static bool add_piece(struct building *building, struct gm_piece piece)
{
	struct gm_memory_segment *segment = &building->segments.items[building->segments.count - 1];
	if (!gm_array_push(&building->pieces, piece))
		return false;
	segment->count++;
	return true;
}

/* Sums, once all pieces are there. */
static void finish(struct building *building, struct gm_memory *memory)
{
	memory->segments = gm_take(building->segments.items);
	memory->segment_count = building->segments.count;
	memory->pieces = gm_take(building->pieces.items);
	memory->piece_count = building->pieces.count;
	for (size_t i = 0; i < memory->segment_count; i++) {
		struct gm_memory_segment *segment = &memory->segments[i];
		uint64_t run = 0; /* free or soon free, without a gap */
		for (size_t j = segment->first; j < segment->first + segment->count; j++) {
			const struct gm_piece *piece = &memory->pieces[j];
			bool soon =
			        piece->state == GM_PIECE_FREE || piece->state == GM_PIECE_PENDING;
			segment->span += piece->size;
			run = soon ? run + piece->size : 0;
			if (run > memory->waited_largest)
				memory->waited_largest = run;
			if (piece->state == GM_PIECE_UNMAPPED)
				continue;
			segment->size += piece->size;
			if (piece->state == GM_PIECE_USED) {
				segment->used += piece->size;
				memory->requested += piece->requested;
				memory->blocks++;
			} else if (piece->state == GM_PIECE_PENDING) {
				segment->pending += piece->size;
				memory->requested += piece->requested;
			} else {
				segment->free += piece->size;
				segment->holes++;
				if (piece->size > segment->largest_hole)
					segment->largest_hole = piece->size;
			}
		}
		memory->allocated += segment->used;
		memory->pending += segment->pending;
		memory->free += segment->free;
		memory->reserved += segment->size;
		memory->holes += segment->holes;
		if (segment->largest_hole > memory->largest_hole)
			memory->largest_hole = segment->largest_hole;
		if (segment->is_private)
			memory->private_free += segment->free;
		else if (segment->free == segment->size)
			memory->whole_free += segment->free;
		if (!segment->is_private && segment->used == 0)
			memory->waited_whole += segment->size;
	}
}

void gm_memory_is_at_oom(struct gm_memory *memory)
{
	for (size_t i = 0; i < memory->segment_count; i++) {
		struct gm_memory_segment *segment = &memory->segments[i];
		if (segment->is_private || !segment->size || segment->free != segment->size)
			continue;
		segment->is_private = true;
		memory->private_free += segment->free;
		memory->whole_free -= segment->free;
		memory->waited_whole -= segment->size;
	}
}

bool gm_memory_agrees(const struct gm_memory *memory)
{
	const struct gm_allocator_bytes *now = &memory->own.now;
	return !memory->allocator ||
	       (memory->allocated == now->allocated && memory->reserved == now->reserved);
}

void gm_memory_deinit(struct gm_memory *memory)
{
	free(memory->segments);
	free(memory->pieces);
	*memory = (struct gm_memory){0};
}

/* --- now -------------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
	const struct gm_block_record *left = a, *right = b;
	if (left->device != right->device)
		return left->device < right->device ? -1 : 1;
	return left->address < right->address ? -1 : left->address > right->address;
}

static bool begin_segment(
        struct building *building, struct gm_torch *torch, const struct gm_block_record *block)
{
	struct gm_pool_record pool;
	struct gm_memory_segment segment = {
	        .address = block->address,
	        .stream = block->stream,
	        .expandable = block->expandable,
	        .first = building->pieces.count,
	};
	if (gm_torch_pool(torch, block->pool, &pool)) {
		segment.pool = pool.small ? GM_POOL_SMALL : GM_POOL_LARGE;
		segment.is_private = pool.is_private;
	}
	return gm_array_push(&building->segments, segment);
}

/* The blocks of a segment are a list; two segments may stand side by side. */
static struct gm_error *build_now(struct building *building, struct gm_torch *torch,
        const struct gm_block_record *blocks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct gm_block_record *block = &blocks[i];
		bool joins = i > 0 && block->previous && blocks[i - 1].record == block->previous &&
		             blocks[i - 1].address + blocks[i - 1].size == block->address;
		if (!joins && !begin_segment(building, torch, block))
			return &gm_error_no_memory;
		struct gm_piece piece = {
		        .address = block->address,
		        .size = block->size,
		        .block = GM_NO_BLOCK,
		        .state = !block->mapped           ? GM_PIECE_UNMAPPED
		                 : block->allocated       ? GM_PIECE_USED
		                 : block->event_count > 0 ? GM_PIECE_PENDING
		                                          : GM_PIECE_FREE,
		};
		if (piece.state == GM_PIECE_USED || piece.state == GM_PIECE_PENDING)
			piece.requested = block->requested;
		if (!add_piece(building, piece))
			return &gm_error_no_memory;
	}
	return NULL;
}

/* The first device with memory, of blocks that are sorted by device. */
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
	struct building building = {0};
	struct gm_error *error = build_now(&building, torch, blocks + first, end - first);
	if (error) {
		building_deinit(&building);
		return error;
	}
	finish(&building, &memory);
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

/* --- after an event --------------------------------------------------------------------------- */

struct placed {
	uint64_t address, size, requested;
	uint32_t block;
	uint8_t state;
};

static int by_place(const void *a, const void *b)
{
	const struct placed *left = a, *right = b;
	return left->address < right->address ? -1 : left->address > right->address;
}

static int by_segment(const void *a, const void *b)
{
	const struct gm_segment *left = a, *right = b;
	return left->address < right->address ? -1 : left->address > right->address;
}

/* Where blocks lie over one another (a record with holes in it), the first one counts. */
static bool fill_segment(struct building *building, const struct gm_segment *segment,
        const struct placed *placed, size_t count, size_t *at)
{
	uint64_t reached = segment->address, end = segment->address + segment->size;
	while (*at < count && placed[*at].address < reached)
		++*at;
	for (; *at < count && placed[*at].address < end; ++*at) {
		const struct placed *one = &placed[*at];
		if (one->address < reached)
			continue;
		if (one->address > reached &&
		        !add_piece(building, (struct gm_piece){.address = reached,
		                                     .size = one->address - reached,
		                                     .block = GM_NO_BLOCK,
		                                     .state = GM_PIECE_FREE}))
			return false;
		uint64_t size = one->size < end - one->address ? one->size : end - one->address;
		if (!add_piece(building, (struct gm_piece){.address = one->address,
		                                 .size = size,
		                                 .requested = one->requested,
		                                 .block = one->block,
		                                 .state = one->state}))
			return false;
		reached = one->address + size;
	}
	return reached >= end || add_piece(building, (struct gm_piece){.address = reached,
	                                                     .size = end - reached,
	                                                     .block = GM_NO_BLOCK,
	                                                     .state = GM_PIECE_FREE});
}

static struct gm_error *build_after(
        struct building *building, const struct gm_model *model, size_t device, uint32_t event)
{
	GM_ARRAY(struct placed) placed = {0};
	_cleanup_free_ struct gm_segment *segments = NULL;
	size_t segment_count, at = 0;
	gm_try(gm_model_segments_after(model, event, &segments, &segment_count));
	if (segment_count)
		qsort(segments, segment_count, sizeof(*segments), by_segment);
	bool memory = true;
	for (size_t i = 0; memory && i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		bool begun = block->alloc == GM_NO_EVENT || block->alloc <= event;
		bool ended = block->free_completed != GM_NO_EVENT && block->free_completed <= event;
		if (block->device != device || !begun || ended || block->size == 0)
			continue;
		if (block->alloc == GM_NO_EVENT && block->free_requested == GM_NO_EVENT)
			continue; /* only its completed free is known: it was let go before */
		bool used = gm_block_live_after(block, event);
		memory = gm_array_push(
		        &placed, ((struct placed){block->address, block->size, block->requested,
		                         (uint32_t)i, used ? GM_PIECE_USED : GM_PIECE_PENDING}));
	}
	if (placed.count)
		qsort(placed.items, placed.count, sizeof(*placed.items), by_place);
	for (size_t i = 0; memory && i < segment_count; i++) {
		if (segments[i].device != device)
			continue;
		memory = gm_array_push(&building->segments,
		                 ((struct gm_memory_segment){
		                         .address = segments[i].address,
		                         .stream = segments[i].stream,
		                         .pool = segments[i].size <= GM_TORCH_SMALL_SEGMENT
		                                         ? GM_POOL_SMALL
		                                         : GM_POOL_LARGE,
		                         .expandable = segments[i].mapped,
		                         .first = building->pieces.count,
		                 })) &&
		         fill_segment(building, &segments[i], placed.items, placed.count, &at);
	}
	gm_array_deinit(&placed);
	return memory ? NULL : &gm_error_no_memory;
}

static struct gm_error *model_device(const struct gm_model *model, int asked, size_t *ret_device)
{
	*ret_device = gm_model_main_device(model);
	for (size_t i = 0; asked >= 0 && i < gm_model_device_count(model); i++) {
		const struct gm_model_device *device = gm_model_device(model, i);
		if (device->type == GM_DEVICE_CUDA && device->index == asked) {
			*ret_device = i;
			return NULL;
		}
	}
	if (asked >= 0 || *ret_device == SIZE_MAX)
		return gm_error_create(GM_TARGET,
		        "no %s: the recording has no events of %s: `gpumem info` lists its devices",
		        asked >= 0 ? "such device" : "device",
		        asked >= 0 ? "that device" : "any device");
	return NULL;
}

struct gm_error *gm_memory_after(
        struct gm_context *context, int device, uint32_t event, struct gm_memory *ret_memory)
{
	struct gm_model *model;
	size_t index;
	gm_try(gm_context_model(context, &model));
	gm_try(model_device(model, device, &index));
	uint64_t count = gm_log_event_count(gm_model_log(model));
	if (event == GM_NO_EVENT)
		event = count ? (uint32_t)count - 1 : 0;
	if (event >= count)
		return gm_error_create(GM_USAGE,
		        "event %u: not in the recording: it has %ju event%s, counted from 0", event,
		        (uintmax_t)count, gm_text_s(count));
	struct gm_memory memory = {.device_type = gm_model_device(model, index)->type,
	        .device = gm_model_device(model, index)->index,
	        .event = event,
	        .model = model,
	        .model_device = index,
	        .total = GM_NOT_KNOWN,
	        .device_free = GM_NOT_KNOWN};
	struct building building = {0};
	struct gm_error *error = build_after(&building, model, index, event);
	if (error) {
		building_deinit(&building);
		return error;
	}
	finish(&building, &memory);
	*ret_memory = memory;
	return NULL;
}
