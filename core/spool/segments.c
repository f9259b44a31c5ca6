/*
 * Memory that PyTorch's allocator gets from CUDA and releases. The agent sees neither the device
 * nor the stream of a segment: both are those of the block for which it was allocated, which is the
 * thread's next event.
 *
 * An expandable segment is mapped in parts, with one call for each (20 MiB; 2 MiB in the small
 * pool), and unmapped in the same way. The allocator does that for one range at a time, and its own
 * trace has one event for the whole range. The log does the same.
 */
#include "spool/segments.h"

#include <stdlib.h>

enum { CUT_MAX = 4096 }; /* the segments that are searched for an address */

static struct live_segment *find(const struct gm_spool_replay *replay, uint64_t address)
{
	struct live_segment *segment;
	HASH_FIND(hh, replay->segments, &address, sizeof(address), segment);
	return segment;
}

static void keep(struct gm_spool_replay *replay, const struct gm_event *event)
{
	struct live_segment *segment = find(replay, event->address);
	if (!segment && (segment = calloc(1, sizeof(*segment)))) {
		segment->address = event->address;
		HASH_ADD(hh, replay->segments, address, sizeof(segment->address), segment);
	}
	if (segment) {
		segment->size = event->size;
		segment->stream = event->stream;
		segment->device = event->device;
	} else {
		replay->no_memory = true;
	}
}

void gm_spool_write_held(
        struct gm_spool_replay *replay, struct thread_state *thread, const struct gm_event *next)
{
	struct gm_event *event = &thread->held;
	if (!thread->holds)
		return;
	thread->holds = false;
	/* a block of an expandable segment may begin in memory that was mapped before, and extend
	 * into the memory mapped for it */
	if (next && next->device_type == CUDA && next->action == GM_ALLOC &&
	        next->address < event->address + event->size &&
	        event->address < next->address + next->size) {
		event->device = next->device;
		event->stream = next->stream;
	}
	struct counters *counters = &replay->counters[event->device];
	counters->reserved += event->size;
	event->allocated = counters->allocated;
	event->reserved = counters->reserved;
	struct live_segment *mapped = find(replay, event->address);
	for (uint64_t done = 0; mapped && done < event->size;) {
		mapped->device = event->device;
		mapped->stream = event->stream;
		done += mapped->size;
		mapped = find(replay, event->address + done);
	}
	gm_spool_write(replay, event);
}

void gm_spool_segment_alloc(
        struct gm_spool_replay *replay, const struct gm_spool_event *from, struct gm_event *event)
{
	struct thread_state *thread = gm_spool_thread(replay, from->thread);
	if (!thread || !event->size)
		return;
	event->requested = event->size;
	keep(replay, event);
	struct gm_event *held = &thread->held;
	if (thread->holds && event->action == GM_SEGMENT_MAP && held->action == GM_SEGMENT_MAP &&
	        held->address + held->size == event->address) {
		held->size = held->requested = held->size + event->size;
		return;
	}
	gm_spool_write_held(replay, thread, NULL);
	*held = *event;
	thread->holds = true;
	if (from->device >= 0) { /* it is already known */
		held->device = from->device;
		gm_spool_write_held(replay, thread, NULL);
	}
}

void gm_spool_segment_free(struct gm_spool_replay *replay, struct gm_event *event)
{
	struct live_segment *segment = find(replay, event->address);
	if (!segment)
		return; /* not a segment of the allocator */
	struct counters *counters = &replay->counters[segment->device];
	uint64_t size = event->action == GM_SEGMENT_UNMAP ? event->size : segment->size;
	counters->reserved -= counters->reserved >= size ? size : counters->reserved;
	event->device = segment->device;
	event->size = event->requested = size;
	event->stream = segment->stream;
	event->allocated = counters->allocated;
	event->reserved = counters->reserved;
	for (uint64_t done = 0; segment && done < size;) {
		uint64_t next = segment->address + segment->size;
		done += segment->size;
		HASH_DEL(replay->segments, segment);
		free(segment);
		segment = find(replay, next);
	}
	gm_spool_write(replay, event);
}

/* A range that existed when recording began is one segment; when part of it is released, that part
 * becomes a separate segment. */
static struct live_segment *split_off(struct gm_spool_replay *replay, const struct gm_event *event)
{
	struct live_segment *whole = find(replay, event->address), *next;
	uint64_t before = 0;
	if (!whole && HASH_COUNT(replay->segments) <= CUT_MAX) {
		HASH_ITER(hh, replay->segments, whole, next)
		{
			before = event->address - whole->address;
			if (event->address > whole->address && before < whole->size)
				break;
		}
	}
	if (!whole || !event->size || event->size > whole->size - before ||
	        event->size == whole->size)
		return before ? NULL : whole;
	struct gm_event rest = {.device = whole->device, .stream = whole->stream};
	uint64_t after = whole->size - before - event->size;
	whole->size = before ? before : event->size;
	if (before) {
		rest.address = event->address;
		rest.size = event->size;
		keep(replay, &rest);
	}
	rest.address = event->address + event->size;
	rest.size = after;
	if (after)
		keep(replay, &rest);
	return find(replay, event->address);
}

void gm_spool_segment_unmap(struct gm_spool_replay *replay, const struct gm_event *event)
{
	const struct live_segment *mapped = split_off(replay, event);
	if (!mapped)
		return;
	struct gm_event *unmap = &replay->unmap;
	if (!unmap->size) {
		*unmap = *event;
		unmap->size = 0;
	}
	unmap->size += mapped->size;
}

void gm_spool_end_unmap(struct gm_spool_replay *replay, const struct gm_spool_event *next)
{
	struct gm_event *unmap = &replay->unmap;
	if (!unmap->size ||
	        (next && next->source == GM_AGENT_C10 && next->action == GM_AGENT_SEGMENT_UNMAP &&
	                next->thread == unmap->thread &&
	                next->address == unmap->address + unmap->size))
		return;
	struct gm_event event = *unmap;
	unmap->size = 0;
	gm_spool_segment_free(replay, &event);
}
