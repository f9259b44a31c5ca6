/*
 * The ring: a recording of limited size that keeps the newest events. Extents that no thread writes
 * to any more are reused, the oldest first, after the data that is still needed was copied
 * (format.h, enum gm_agent_extent_kind). The file is valid even if the process is killed at any
 * moment: the copy is complete before the old extents are dropped, and takes effect by one store.
 *
 * All of it under the spool's lock, on the thread that needs an extent: a few ms for each 2 MiB of
 * records.
 */
#ifndef GM_AGENT_RING_H
#define GM_AGENT_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/format.h"

/* How the ring gets at the file. */
struct gm_agent_ring_file {
	struct gm_agent_file_header *header;
	void *context;
	/* An extent mapped; a new one (number == header->extents) gets its space before. NULL:
	 * no. */
	struct gm_agent_extent_header *(*map)(void *context, uint32_t number);
};

enum { GM_AGENT_RING_LEAST = 16 }; /* extents: a smaller one is no ring */

/* For a file of `total` extents at most. False: none, the recording stops when it is full. */
bool gm_agent_ring_begin(uint64_t total);
bool gm_agent_ring_is_on(void);
/* The number of the next extent for a thread, unmapped; UINT32_MAX: there is none. `first`: no
 * event that is written into it will have a smaller number. */
uint32_t gm_agent_ring_take(const struct gm_agent_ring_file *file, uint64_t first);
/* A thread is done with its extent; `last`: number of its last event. */
void gm_agent_ring_finish(uint32_t number, uint64_t last);

#endif
