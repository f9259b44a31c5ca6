/*
 * What is carried over of events that are dropped: of each piece of memory the last one. A reader
 * takes it, and what is still there of the time before the beginning, and has what was alive then.
 *
 * Memory by mmap, no locks: whoever calls holds the spool's.
 */
#ifndef GM_AGENT_CARRIED_H
#define GM_AGENT_CARRIED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An event, its differences worked out. Of the same memory (address, whose, which kind) the last
 * one counts. */
struct gm_agent_carried_event {
	uint64_t sequence, time_ns, address, size, requested, stream;
	uint32_t bits, python, native, tensor, thread;
	uint8_t action, source, device_type;
	bool used; /* of the table: there is one */
	int16_t device;
};

struct gm_agent_carried {
	struct gm_agent_carried_event
	        *table; /* open addressing, `capacity` of them: a power of two */
	size_t capacity, count;
	uint64_t walked, last; /* events, and the greatest number of one */
	bool failed;           /* no memory, or a record that is none */
};

/* Copies a record that is to be kept as it is. False: no space. */
typedef bool gm_agent_keep_record(void *context, const uint8_t *record, size_t size);

bool gm_agent_carried_init(struct gm_agent_carried *carried);
void gm_agent_carried_deinit(struct gm_agent_carried *carried);
/* The records of an extent: events are taken in, what is interned goes to `keep` (NULL: it is there
 * already). */
void gm_agent_carried_add(struct gm_agent_carried *carried, const uint8_t *records, size_t size,
        uint32_t thread, gm_agent_keep_record *keep, void *context);
/* The events that are worth it, in the order of their numbers, at the table's beginning; their
 * number. Ends of memory older than `least` are: nothing that is there can be of the time before
 * them. */
size_t gm_agent_carried_sort(struct gm_agent_carried *carried, uint64_t least);
/* One into bytes, coded against `before` (all 0: none); GM_AGENT_EVENT_MAX + 16 at most. */
uint8_t *gm_agent_carried_put(uint8_t *at, const struct gm_agent_carried_event *event,
        const struct gm_agent_carried_event *before);

#endif
