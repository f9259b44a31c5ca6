/*
 * Blocks: the events of the CUDA caching allocator and of CPU tensors.
 *
 * PyTorch's reports have the rounded size and come when a free is requested. The additional data of
 * its own memory history (the requested size, the stream, and when a free that waits for a stream
 * completes) are read from the allocator's Block records (c10/cuda/CUDACachingAllocator.cpp). The
 * order of events is that of its trace: free_requested, then free_completed, either at once or, if
 * other streams use the block, later: the allocator checks these (process_events) at the next
 * request, before it serves it.
 */
#include "record/blocks.h"

#include "record/recorder.h"
#include "record/event.h"
#include "record/gap.h"
#include "record/segments.h"
#include "record/stacks.h"
#include "record/tensors.h"

static struct gm_live_block *find_block(struct gm_recorder *recorder, uint64_t address)
{
	struct gm_live_block *block;
	HASH_FIND(hh, recorder->blocks, &address, sizeof(address), block);
	return block;
}

static void unlink_pending(struct gm_recorder *recorder, struct gm_live_block *block)
{
	struct gm_live_block **link = &recorder->pending_first, *before = NULL;
	while (*link && *link != block) {
		before = *link;
		link = &(*link)->pending_next;
	}
	if (!*link)
		return;
	*link = block->pending_next;
	if (recorder->pending_last == block)
		recorder->pending_last = before;
}

static void forget_block(struct gm_recorder *recorder, struct gm_live_block *block)
{
	if (block->pending)
		unlink_pending(recorder, block);
	HASH_DEL(recorder->blocks, block);
	free(block);
}

struct gm_live_block *gm_record_keep_block(
        struct gm_recorder *recorder, const struct gm_live_block *block)
{
	struct gm_live_block *kept = find_block(recorder, block->address);
	if (kept)
		forget_block(recorder, kept);
	kept = malloc(sizeof(*kept));
	if (!kept)
		return NULL;
	*kept = *block;
	kept->pending = false;
	kept->pending_next = NULL;
	HASH_ADD(hh, recorder->blocks, address, sizeof(kept->address), kept);
	return kept;
}

void gm_record_pend(struct gm_recorder *recorder, struct gm_live_block *block)
{
	block->pending = true;
	block->pending_next = NULL;
	if (recorder->pending_last)
		recorder->pending_last->pending_next = block;
	else
		recorder->pending_first = block;
	recorder->pending_last = block;
}

void gm_record_forget_blocks(struct gm_recorder *recorder)
{
	struct gm_live_block *block, *next;
	HASH_ITER(hh, recorder->blocks, block, next)
	{
		HASH_DEL(recorder->blocks, block);
		free(block);
	}
	recorder->pending_first = recorder->pending_last = NULL;
}

/* c10::Device is two bytes, type and index (c10/core/Device.h); an index of -1 means the current
 * one. */
static int16_t device_index(uint64_t word)
{
	int8_t index = (int8_t)(word >> 8);
	return index < 0 ? 0 : index;
}

/* The allocator's counters according to this report. */
static void take_counters(
        struct gm_recorder *recorder, int16_t device, uint64_t allocated, uint64_t reserved)
{
	recorder->counters[device] = (struct gm_device_counters){
	        .allocated = allocated, .reserved = reserved, .known = true};
	uint64_t sum = 0;
	for (size_t i = 0; i < GM_TORCH_DEVICES_MAX; i++)
		sum += recorder->counters[i].allocated;
	if (sum > recorder->cuda_peak)
		recorder->cuda_peak = sum;
}

static void put_counters(const struct gm_recorder *recorder, struct gm_event *event)
{
	const struct gm_device_counters *counters = &recorder->counters[event->device];
	if (counters->known) {
		event->allocated = counters->allocated;
		event->reserved = counters->reserved;
	}
}

/* Does the block still wait for a stream? Its record may belong to another block by now, or may not
 * be a record any more. */
static bool still_pending(struct gm_recorder *recorder, const struct gm_live_block *block)
{
	struct gm_block_record record;
	return recorder->torch && block->record &&
	       gm_torch_block(recorder->torch, block->record, &record) &&
	       record.address == block->address && !record.allocated && record.event_count > 0;
}

void gm_record_completions(struct gm_recorder *recorder, struct gm_moment *moment)
{
	struct gm_live_block *block = recorder->pending_first;
	while (block) {
		struct gm_live_block *next = block->pending_next;
		if (!still_pending(recorder, block)) {
			struct gm_event event = gm_record_new_event(recorder, moment,
			        GM_FREE_COMPLETED, block->device_type, block->device);
			event.address = block->address;
			event.size = block->size;
			event.requested = block->requested;
			event.stream = block->stream;
			put_counters(recorder, &event);
			gm_record_event(recorder, &event);
			forget_block(recorder, block);
		}
		block = next;
	}
}

static void note_segment(struct gm_recorder *recorder, const struct gm_block_record *record)
{
	if (record->previous || recorder->reported_expandable ||
	        gm_record_segment(recorder, record->address))
		return;
	recorder->reported_expandable = true;
	gm_record_gap(recorder,
	        "a block at 0x%jx begins a segment that did not come by cudaMalloc (expandable "
	        "segments, or another library's pool): its segment events are not recorded",
	        (uintmax_t)record->address);
}

static void cuda_alloc(struct gm_recorder *recorder, struct gm_moment *moment, int16_t device)
{
	const uint64_t *registers = moment->registers.value;
	struct gm_live_block block = {
	        .address = registers[GM_RDI],
	        .size = registers[GM_RSI],
	        .device_type = GM_DEVICE_CUDA,
	        .device = (int8_t)device,
	};
	struct gm_block_record record;
	if (recorder->torch && gm_torch_block_at_report(recorder->torch, &moment->registers,
	                               block.address, block.size, &record)) {
		block.requested = record.requested;
		block.stream = record.stream;
		block.record = record.record;
	} else if (!recorder->reported_no_record) {
		recorder->reported_no_record = true;
		gm_record_gap(recorder,
		        "the allocator's record of the block at 0x%jx was not found: requested "
		        "sizes, "
		        "streams and deferred frees are missing for such blocks",
		        (uintmax_t)block.address);
	}
	gm_record_release_held(recorder, moment->thread, &block);
	if (block.record)
		note_segment(recorder, &record);
	struct gm_event event =
	        gm_record_new_event(recorder, moment, GM_ALLOC, GM_DEVICE_CUDA, device);
	take_counters(recorder, device, registers[GM_RDX], registers[GM_RCX]);
	event.address = block.address;
	event.size = block.size;
	event.requested = block.requested;
	event.stream = block.stream;
	event.tensor = block.tensor = gm_record_take_tensor(recorder, moment, block.requested);
	put_counters(recorder, &event);
	block.event = gm_record_event(recorder, &event);
	if (!gm_record_keep_block(recorder, &block))
		gm_record_gap(recorder, "a block's life is not followed: no memory");
}

static void cuda_free(struct gm_recorder *recorder, struct gm_moment *moment, int16_t device)
{
	const uint64_t *registers = moment->registers.value;
	uint64_t address = registers[GM_RDI], size = 0 - registers[GM_RSI];
	struct gm_live_block *block = find_block(recorder, address);
	gm_record_release_held(recorder, moment->thread, NULL);
	take_counters(recorder, device, registers[GM_RDX], registers[GM_RCX]);
	if (!block) {
		/* created before recording began, by an allocator that could not be read */
		struct gm_live_block unknown = {.address = address,
		        .size = size,
		        .device_type = GM_DEVICE_CUDA,
		        .device = (int8_t)device,
		        .event = UINT64_MAX};
		block = gm_record_keep_block(recorder, &unknown);
		if (!block)
			return;
	}
	struct gm_event event =
	        gm_record_new_event(recorder, moment, GM_FREE_REQUESTED, GM_DEVICE_CUDA, device);
	event.address = address;
	event.size = size;
	event.requested = block->requested;
	event.stream = block->stream;
	event.evidence = gm_record_evidence(recorder, moment);
	put_counters(recorder, &event);
	gm_record_event(recorder, &event);
	if (still_pending(recorder, block)) {
		gm_record_pend(recorder, block);
		return;
	}
	event.action = GM_FREE_COMPLETED;
	gm_record_event(recorder, &event);
	forget_block(recorder, block);
}

void gm_record_report(struct gm_recorder *recorder, struct gm_moment *moment)
{
	uint64_t device = moment->registers.value[GM_R8];
	int64_t size = (int64_t)moment->registers.value[GM_RSI];
	if ((int8_t)device != GM_DEVICE_CUDA || size == 0)
		return;
	gm_record_completions(recorder, moment);
	if (size > 0)
		cuda_alloc(recorder, moment, device_index(device));
	else
		cuda_free(recorder, moment, device_index(device));
}

/* --- CPU tensors: c10::ProfiledCPUMemoryReporter (c10/core/CPUAllocator.cpp) ------------------ */

void gm_record_cpu_new(struct gm_recorder *recorder, struct gm_moment *moment)
{
	struct gm_live_block block = {
	        .address = moment->registers.value[GM_RSI],
	        .size = moment->registers.value[GM_RDX],
	        .requested = moment->registers.value[GM_RDX],
	        .device_type = GM_DEVICE_CPU,
	};
	if (block.size == 0)
		return;
	struct gm_event event = gm_record_new_event(recorder, moment, GM_ALLOC, GM_DEVICE_CPU, 0);
	event.address = block.address;
	event.size = event.requested = block.size;
	event.tensor = block.tensor = gm_record_take_tensor(recorder, moment, block.size);
	block.event = gm_record_event(recorder, &event);
	recorder->cpu_allocated += block.size;
	if (recorder->cpu_allocated > recorder->cpu_peak)
		recorder->cpu_peak = recorder->cpu_allocated;
	if (!gm_record_keep_block(recorder, &block))
		gm_record_gap(recorder, "a block's life is not followed: no memory");
}

void gm_record_cpu_delete(struct gm_recorder *recorder, struct gm_moment *moment)
{
	/* Delete is called for empty tensors and for memory from before the recording too: only
	 * releases of recorded allocations are recorded. */
	struct gm_live_block *block = find_block(recorder, moment->registers.value[GM_RSI]);
	if (!block || block->device_type != GM_DEVICE_CPU)
		return;
	struct gm_event event =
	        gm_record_new_event(recorder, moment, GM_FREE_REQUESTED, GM_DEVICE_CPU, 0);
	event.address = block->address;
	event.size = event.requested = block->size;
	event.evidence = gm_record_evidence(recorder, moment);
	gm_record_event(recorder, &event);
	event.action = GM_FREE_COMPLETED;
	gm_record_event(recorder, &event);
	recorder->cpu_allocated -= block->size;
	forget_block(recorder, block);
}
