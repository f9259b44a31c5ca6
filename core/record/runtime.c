/*
 * Memory that the caching allocator gets from CUDA and releases.
 *
 * cudaMalloc has a breakpoint at its entry (where the result goes, the size) and one at its return
 * (whether it succeeded, the address). Calls from outside the allocator's library are not the
 * allocator's segments.
 */
#include "record/runtime.h"

#include <string.h>

#include "record/recorder.h"
#include "record/blocks.h"
#include "record/event.h"
#include "record/gap.h"
#include "record/probes.h"
#include "record/segments.h"

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
		        moment->thread) { /* a call that never returned */
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
		held.addresses = calloc(recorder->fed_address_count + 1, sizeof(*held.addresses));
		if (!held.frames || !held.addresses || !gm_array_push(&recorder->held, held)) {
			free(held.frames);
			free(held.addresses);
			gm_record_gap(recorder, "a segment was not recorded: no memory");
			return;
		}
		struct gm_held_segment *kept = &recorder->held.items[recorder->held.count - 1];
		kept->frame_count = recorder->fed_count;
		if (recorder->fed_count)
			memcpy(kept->frames, recorder->fed_frames,
			        recorder->fed_count * sizeof(*kept->frames));
		kept->address_count = recorder->fed_address_count;
		if (recorder->fed_address_count)
			memcpy(kept->addresses, recorder->fed_addresses,
			        recorder->fed_address_count * sizeof(*kept->addresses));
		return;
	}
}

void gm_record_cuda_free(struct gm_recorder *recorder, struct gm_moment *moment)
{
	gm_record_release_held(recorder, moment->thread, NULL);
	uint64_t address = moment->registers.value[GM_RDI];
	struct gm_live_segment *segment = gm_record_segment(recorder, address);
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
	gm_record_forget_segment(recorder, segment);
}
