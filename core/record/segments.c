/*
 * Segments: memory that the caching allocator has got from CUDA. A new one is held until a block
 * shows its device and stream.
 */
#include "record/segments.h"

#include <string.h>

#include "record/recorder.h"
#include "record/event.h"

struct gm_live_segment *gm_record_segment(const struct gm_recorder *recorder, uint64_t address)
{
	struct gm_live_segment *segment;
	HASH_FIND(hh, recorder->segments, &address, sizeof(address), segment);
	return segment;
}

void gm_record_keep_segment(struct gm_recorder *recorder, uint64_t address, uint64_t size,
        uint64_t stream, int8_t device)
{
	struct gm_live_segment *segment = gm_record_segment(recorder, address);
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
	const uint64_t *addresses = recorder->fed_addresses;
	size_t count = recorder->fed_count, address_count = recorder->fed_address_count;
	recorder->fed_frames = held->frames;
	recorder->fed_count = held->frame_count;
	recorder->fed_addresses = held->addresses;
	recorder->fed_address_count = held->address_count;
	gm_record_event(recorder, event);
	recorder->fed_frames = frames;
	recorder->fed_count = count;
	recorder->fed_addresses = addresses;
	recorder->fed_address_count = address_count;
	free(held->frames);
	free(held->addresses);
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

void gm_record_forget_segment(struct gm_recorder *recorder, struct gm_live_segment *segment)
{
	HASH_DEL(recorder->segments, segment);
	free(segment);
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
	for (size_t i = 0; i < recorder->held.count; i++) {
		free(recorder->held.items[i].frames);
		free(recorder->held.items[i].addresses);
	}
	gm_array_deinit(&recorder->held);
}
