/*
 * Blocks that were live before recording began, from the allocator's own Block records, without
 * stacks. So a log that starts late still adds up to the allocator's figures.
 */
#include "record/existing.h"

#include <string.h>

#include "base/size.h"
#include "record/recorder.h"
#include "record/blocks.h"
#include "record/event.h"
#include "record/gap.h"
#include "record/segments.h"

enum { CHAIN_MAX = 1 << 20 };

/* Records by their own address, to follow the chain of a segment's blocks. */
struct by_record {
	uint64_t record;
	const struct gm_block_record *block;
	UT_hash_handle hh;
};

static int by_address(const void *left, const void *right)
{
	const struct gm_block_record *a = left, *b = right;
	return (a->address > b->address) - (a->address < b->address);
}

static void write_event(struct gm_recorder *recorder, enum gm_action action,
        const struct gm_block_record *block, uint64_t size, uint64_t requested)
{
	struct gm_event event = {
	        .action = (uint8_t)action,
	        .device_type = GM_DEVICE_CUDA,
	        .device = block->device,
	        .flags = GM_EVENT_PREEXISTING,
	        .time_ns = gm_record_now(),
	        .address = block->address,
	        .size = size,
	        .requested = requested,
	        .stream = block->stream,
	        .allocated = recorder->counters[block->device].allocated,
	        .reserved = recorder->counters[block->device].reserved,
	};
	gm_record_event(recorder, &event);
}

/* A segment's size: the sum of its blocks; 0 if part of it is not mapped (an expandable segment).
 * */
static uint64_t segment_size(const struct by_record *index, const struct gm_block_record *first)
{
	uint64_t size = 0;
	const struct gm_block_record *block = first;
	for (int i = 0; block && i < CHAIN_MAX; i++) {
		if (!block->mapped)
			return 0;
		size += block->size;
		struct by_record *next;
		HASH_FIND(hh, index, &block->next, sizeof(block->next), next);
		block = block->next && next ? next->block : NULL;
	}
	return size;
}

static void write_segment(struct gm_recorder *recorder, const struct by_record *index,
        const struct gm_block_record *block)
{
	uint64_t size = segment_size(index, block);
	if (size == 0) {
		recorder->reported_expandable = true;
		gm_record_gap(recorder, "expandable segments: their events are not recorded");
		return;
	}
	recorder->counters[block->device].reserved += size;
	gm_record_keep_segment(recorder, block->address, size, block->stream, block->device);
	write_event(recorder, GM_SEGMENT_ALLOC, block, size, size);
}

static void write_block(struct gm_recorder *recorder, const struct gm_block_record *block)
{
	struct gm_live_block live = {
	        .address = block->address,
	        .size = block->size,
	        .requested = block->requested,
	        .stream = block->stream,
	        .record = block->record,
	        .device_type = GM_DEVICE_CUDA,
	        .device = block->device,
	};
	recorder->counters[block->device].allocated += block->size;
	write_event(recorder, GM_ALLOC, block, block->size, block->requested);
	live.event = recorder->event_count - 1;
	struct gm_live_block *kept = gm_record_keep_block(recorder, &live);
	if (!block->allocated && kept) { /* a free that waits for a stream */
		recorder->counters[block->device].allocated -= block->size;
		write_event(recorder, GM_FREE_REQUESTED, block, block->size, block->requested);
		gm_record_pend(recorder, kept);
	}
}

static void write_all(
        struct gm_recorder *recorder, const struct gm_block_record *blocks, size_t count)
{
	struct by_record *index = NULL, *entries = calloc(count + 1, sizeof(*entries));
	if (!entries) {
		gm_record_gap(
		        recorder, "recording began late: its blocks were not read: no memory");
		return;
	}
	for (size_t i = 0; i < count; i++) {
		entries[i] = (struct by_record){.record = blocks[i].record, .block = &blocks[i]};
		HASH_ADD(hh, index, record, sizeof(entries[i].record), &entries[i]);
	}
	for (size_t i = 0; i < count; i++)
		if (!blocks[i].previous)
			write_segment(recorder, index, &blocks[i]);
	size_t live = 0;
	for (size_t i = 0; i < count; i++) {
		if (!blocks[i].allocated && blocks[i].event_count == 0)
			continue;
		write_block(recorder, &blocks[i]);
		live++;
	}
	HASH_CLEAR(hh, index);
	free(entries);
	gm_record_gap(recorder,
	        "recording began late, with %zu block%s that existed already; what allocated them "
	        "is not known, and steps count from here",
	        live, gm_text_s(live));
}

void gm_record_existing(struct gm_recorder *recorder)
{
	if (recorder->cpu && gm_symbols_find_module(recorder->symbols, "libc10.so"))
		gm_record_gap(recorder,
		        "recording began late: CPU tensors from before are not in the log");
	if (!recorder->cuda || !recorder->torch ||
	        strcmp(gm_torch_allocator_kind(recorder->torch), "none") == 0)
		return;
	struct gm_block_record *blocks;
	size_t count;
	_cleanup_error_ struct gm_error *error = gm_torch_blocks(recorder->torch, &blocks, &count);
	if (error) {
		gm_record_gap(recorder, "recording began late: %s", error->message);
		return;
	}
	_cleanup_free_ struct gm_block_record *owned = blocks;
	for (size_t i = 0; i < count; i++)
		if (blocks[i].device < 0)
			blocks[i].device = 0;
	qsort(blocks, count, sizeof(blocks[0]), by_address);
	write_all(recorder, blocks, count);
	for (int device = 0; device < GM_TORCH_DEVICES_MAX; device++) {
		struct gm_allocator_bytes bytes;
		struct gm_error *stop = gm_torch_allocator_bytes(recorder->torch, device, &bytes);
		gm_error_destroy(stop);
		if (stop)
			break;
		recorder->counters[device] = (struct gm_device_counters){
		        .allocated = bytes.allocated, .reserved = bytes.reserved, .known = true};
	}
}
