/* What a model is made of: blocks, devices with their usage, segments, runs of events. */
#ifndef GM_MODEL_TYPES_H
#define GM_MODEL_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "model/step_types.h"

#define GM_NO_EVENT UINT32_MAX
#define GM_NO_BLOCK UINT32_MAX

/* One life of a piece of memory, from its allocation to its free. Numbers are those of events. */
struct gm_block {
	uint64_t address;
	uint64_t size;      /* bytes, rounded */
	uint64_t requested; /* bytes as asked for; 0 unknown */
	uint32_t alloc; /* GM_NO_EVENT: allocated before the record began, only its free is known */
	uint32_t free_requested; /* GM_NO_EVENT: not in the record */
	uint32_t free_completed;
	uint16_t device; /* index of gm_model_device() */
	uint16_t flags;  /* enum gm_event_flags of its allocation */
};

/* Bytes of one device: PyTorch's meanings. allocated: rounded bytes until the free is requested;
 * active: until it is completed; requested: as asked for, of active blocks; reserved: segments. */
struct gm_usage {
	uint64_t allocated, active, requested, reserved;
};

struct gm_model_device {
	uint8_t type; /* c10::DeviceType */
	int16_t index;
	uint64_t events;
	struct gm_usage now, peak; /* each peak on its own */
	uint32_t peak_event;       /* where allocated first reached its peak; GM_NO_EVENT: nothing
	                              allocated */
	/* The allocator's own figures after its last event, UINT64_MAX: not recorded. Where they
	 * differ from `now`, the record began late or has lost events. */
	uint64_t reported_allocated, reported_reserved;
	/* The highest of these figures after any event; 0 where they are not recorded. */
	uint64_t reported_peak_allocated, reported_peak_reserved;
	uint64_t unknown_frees,
	        unknown_free_bytes; /* frees whose allocation is not in the record */
	uint64_t ooms;
};

/* Are the allocator's own figures recorded? */
static inline bool gm_reports_allocated(const struct gm_model_device *device)
{
	return device->reported_allocated != UINT64_MAX;
}

struct gm_segment {
	uint64_t address, size, stream;
	uint16_t device;
	uint32_t alloc; /* event; GM_NO_EVENT: before the record */
	bool mapped; /* a stretch of an expandable segment: grows and shrinks by what is mapped and
	                unmapped */
	bool small;  /* of the pool of small blocks, according to its size or that of its pages; see
	                gm_segment_is_small() */
};

/* Bytes as asked for; where that is not recorded, as allocated. */
static inline uint64_t gm_block_requested(const struct gm_block *block)
{
	return block->requested ? block->requested : block->size;
}
/* The event that ended a block's being allocated: its free, as requested where the record has that.
 * GM_NO_EVENT: none. */
static inline uint32_t gm_block_end(const struct gm_block *block)
{
	return block->free_requested < block->free_completed ? block->free_requested
	                                                     : block->free_completed;
}
/* Is the block allocated after event `event`? (Free requested ends it.) */
static inline bool gm_block_live_after(const struct gm_block *block, uint32_t event)
{
	return block->alloc != GM_NO_EVENT && block->alloc <= event && gm_block_end(block) > event;
}

/* Events that follow one another in one step and phase. */
struct gm_model_run {
	uint32_t first, end; /* events [first, end) */
	uint32_t step;
	enum gm_phase phase;
};

#endif
