/* The state after any event: usage and segments; events one after another. */
#ifndef GM_MODEL_STATE_H
#define GM_MODEL_STATE_H

#include "base/error.h"
#include "log/log.h"
#include "model/types.h"

struct gm_model;

/* The model's number of a device; SIZE_MAX: the recording has no events of it. */
size_t gm_model_find_device(const struct gm_model *model, uint8_t type, int16_t index);

/* The usage of a device after an event. Costs one pass over at most 2 K events. */
struct gm_usage gm_model_usage_after(const struct gm_model *model, size_t device, uint64_t event);

/* Goes through the events of one device in order, with its usage after each. */
struct gm_state_walk {
	const struct gm_model *model;
	size_t device;
	uint32_t number; /* of the event that gm_state_walk_next() gave */
	bool brief;
	struct gm_event event; /* brief: its action and size alone */
	uint32_t block;        /* that it is about; GM_NO_BLOCK: none */
	struct gm_usage usage;
	uint32_t ahead;
	size_t run; /* that the event is in: see gm_state_walk_run() */
};
struct gm_state_walk gm_state_walk_begin(const struct gm_model *model, size_t device);
/* The same for who needs no more of the events than what they do to memory: several times as
 * fast. */
struct gm_state_walk gm_state_walk_begin_brief(const struct gm_model *model, size_t device);
bool gm_state_walk_next(struct gm_state_walk *walk); /* false: there is no further event */

/* Segments that are there after an event, by address. The caller frees the array. */
struct gm_error *gm_model_segments_after(const struct gm_model *model, uint64_t event,
        struct gm_segment **ret_segments, size_t *ret_count);

/* Is it a segment of the pool of small blocks? `block`: the size of any block in it, which tells
 * for certain; 0: it has none. */
bool gm_segment_is_small(const struct gm_segment *segment, uint64_t block);

#endif
