/*
 * Segments: what the caching allocator gets from CUDA and gives back.
 *
 * cudaMalloc is seen at its entry (where the result goes, how much) and at its return (whether it came,
 * and where). Calls from elsewhere than the allocator's library are not the allocator's segments.
 */
#include <string.h>

#include "record/recorder.h"

static bool called_by_allocator(struct gm_recorder *recorder, uint64_t return_address)
{
	const struct gm_module *module = gm_symbols_module_at(recorder->symbols, return_address);
	return module && strncmp(module->name, "libc10_cuda.so", 14) == 0;
}

bool gm_record_cuda_malloc(struct gm_recorder *recorder, struct gm_moment *moment)
{
	uint64_t stack_pointer = moment->registers.value[GM_RSP], return_address;
	if (!gm_image_try_u64(recorder->image, stack_pointer, &return_address) ||
	        !called_by_allocator(recorder, return_address))
		return false;
	gm_record_release_held(recorder, moment->thread, NULL);
	struct gm_cuda_call call = {
	        .thread = moment->thread,
	        .result = moment->registers.value[GM_RDI],
	        .size = moment->registers.value[GM_RSI],
	        .return_address = return_address,
	        .stack_pointer = stack_pointer + 8,
	};
	for (size_t i = 0; i < recorder->calls.count; i++) {
		if (recorder->calls.items[i].thread ==
		        moment->thread) { /* one that never returned */
			recorder->calls.items[i] = call;
			return gm_record_add_site(recorder, GM_PROBE_CUDA_MALLOC_RETURN,
			        return_address, "return of cudaMalloc");
		}
	}
	if (recorder->calls.count >= GM_RECORD_CALLS_MAX || !gm_array_push(&recorder->calls, call))
		return false;
	return gm_record_add_site(
	        recorder, GM_PROBE_CUDA_MALLOC_RETURN, return_address, "return of cudaMalloc");
}

void gm_record_cuda_malloc_return(struct gm_recorder *recorder, struct gm_moment *moment)
{
	for (size_t i = 0; i < recorder->calls.count; i++) {
		struct gm_cuda_call call = recorder->calls.items[i];
		if (call.thread != moment->thread ||
		        call.return_address != moment->registers.value[GM_RIP] ||
		        call.stack_pointer != moment->registers.value[GM_RSP])
			continue;
		recorder->calls.items[i] = recorder->calls.items[--recorder->calls.count];
		uint64_t address;
		if ((uint32_t)moment->registers.value[GM_RAX] != 0 /* cudaSuccess */
		        || !gm_image_try_u64(recorder->image, call.result, &address) ||
		        address == 0)
			return;
		gm_record_completions(recorder, moment);
		struct gm_held_segment held = {
		        .thread = moment->thread,
		        .event = gm_record_new_event(
		                recorder, moment, GM_SEGMENT_ALLOC, GM_DEVICE_CUDA, 0),
		};
		held.event.address = address;
		held.event.size = held.event.requested = call.size;
		held.frames = calloc(recorder->fed_count + 1, sizeof(*held.frames));
		if (!held.frames || !gm_array_push(&recorder->held, held)) {
			free(held.frames);
			gm_record_gap(recorder, "a segment was not recorded: no memory");
			return;
		}
		struct gm_held_segment *kept = &recorder->held.items[recorder->held.count - 1];
		kept->frame_count = recorder->fed_count;
		if (recorder->fed_count)
			memcpy(kept->frames, recorder->fed_frames,
			        recorder->fed_count * sizeof(*kept->frames));
		return;
	}
}

static struct gm_live_segment *find_segment(const struct gm_recorder *recorder, uint64_t address)
{
	struct gm_live_segment *segment;
	HASH_FIND(hh, recorder->segments, &address, sizeof(address), segment);
	return segment;
}

void gm_record_keep_segment(struct gm_recorder *recorder, uint64_t address, uint64_t size,
        uint64_t stream, int8_t device)
{
	struct gm_live_segment *segment = find_segment(recorder, address);
	if (!segment) {
		segment = calloc(1, sizeof(*segment));
		if (!segment)
			return;
		segment->address = address;
		HASH_ADD(hh, recorder->segments, address, sizeof(address), segment);
	}
	segment->size = size;
	segment->stream = stream;
	segment->device = device;
}

static void write_held(struct gm_recorder *recorder, struct gm_held_segment *held)
{
	struct gm_event *event = &held->event;
	struct gm_device_counters *counters = &recorder->counters[event->device];
	event->allocated = counters->known ? counters->allocated : UINT64_MAX;
	event->reserved = counters->known ? counters->reserved + event->size : UINT64_MAX;
	counters->reserved += event->size;
	gm_record_keep_segment(
	        recorder, event->address, event->size, event->stream, (int8_t)event->device);
	/* its own frames, not those of the stop at which it is written */
	const struct gm_python_frame *frames = recorder->fed_frames;
	size_t count = recorder->fed_count;
	recorder->fed_frames = held->frames;
	recorder->fed_count = held->frame_count;
	gm_record_event(recorder, event);
	recorder->fed_frames = frames;
	recorder->fed_count = count;
	free(held->frames);
}

void gm_record_release_held(
        struct gm_recorder *recorder, pid_t thread, const struct gm_live_block *block)
{
	for (size_t i = 0; i < recorder->held.count; i++) {
		if (recorder->held.items[i].thread != thread)
			continue;
		struct gm_held_segment held = recorder->held.items[i];
		memmove(&recorder->held.items[i], &recorder->held.items[i + 1],
		        (recorder->held.count - i - 1) * sizeof(recorder->held.items[0]));
		recorder->held.count--;
		i--;
		if (block && block->address >= held.event.address &&
		        block->address - held.event.address < held.event.size) {
			held.event.device = block->device;
			held.event.stream = block->stream;
		}
		write_held(recorder, &held);
	}
}

void gm_record_release_all_held(struct gm_recorder *recorder)
{
	while (recorder->held.count > 0)
		gm_record_release_held(recorder, recorder->held.items[0].thread, NULL);
}

void gm_record_cuda_free(struct gm_recorder *recorder, struct gm_moment *moment)
{
	gm_record_release_held(recorder, moment->thread, NULL);
	uint64_t address = moment->registers.value[GM_RDI];
	struct gm_live_segment *segment = find_segment(recorder, address);
	if (!segment)
		return;
	gm_record_completions(recorder, moment);
	struct gm_event event = gm_record_new_event(
	        recorder, moment, GM_SEGMENT_FREE, GM_DEVICE_CUDA, segment->device);
	struct gm_device_counters *counters = &recorder->counters[segment->device];
	if (counters->known && counters->reserved >= segment->size)
		counters->reserved -= segment->size;
	event.address = address;
	event.size = event.requested = segment->size;
	event.stream = segment->stream;
	event.allocated = counters->known ? counters->allocated : UINT64_MAX;
	event.reserved = counters->known ? counters->reserved : UINT64_MAX;
	gm_record_event(recorder, &event);
	HASH_DEL(recorder->segments, segment);
	free(segment);
}

bool gm_record_has_segment(const struct gm_recorder *recorder, uint64_t address)
{
	return find_segment(recorder, address) != NULL;
}

void gm_record_forget_segments(struct gm_recorder *recorder)
{
	struct gm_live_segment *segment, *next;
	HASH_ITER(hh, recorder->segments, segment, next)
	{
		HASH_DEL(recorder->segments, segment);
		free(segment);
	}
	gm_array_deinit(&recorder->calls);
	for (size_t i = 0; i < recorder->held.count; i++)
		free(recorder->held.items[i].frames);
	gm_array_deinit(&recorder->held);
}
