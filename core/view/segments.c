/* The columns of a device's segments, and of their content other than the page's blocks. */
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "view/device.h"

struct change {
	uint64_t address, size, stream;
	uint32_t event;
	uint8_t action;
};
typedef GM_ARRAY(struct change) change_array;

static bool is_of_segment(unsigned action)
{
	return action == GM_SEGMENT_ALLOC || action == GM_SEGMENT_FREE ||
	       action == GM_SEGMENT_MAP || action == GM_SEGMENT_UNMAP;
}

/* In a brief walk an event without a block is complete. */
static bool find_changes(const struct gm_model *model, size_t device, change_array *ret_changes)
{
	struct gm_state_walk walk = gm_state_walk_begin_brief(model, device);
	while (gm_state_walk_next(&walk)) {
		if (walk.block != GM_NO_BLOCK || !is_of_segment(walk.event.action))
			continue;
		const struct change one = {.address = walk.event.address,
		        .size = walk.event.size,
		        .stream = walk.event.stream,
		        .event = walk.number,
		        .action = walk.event.action};
		if (!gm_array_push(ret_changes, one))
			return false;
	}
	return true;
}

enum field { EVENT, ACTION, LOW, HIGH, SIZE, STREAM, FIELDS };

static uint64_t field_of(const struct change *change, enum field field)
{
	switch (field) {
	case EVENT:
		return change->event;
	case ACTION:
		return change->action == GM_SEGMENT_ALLOC  ? 0
		       : change->action == GM_SEGMENT_FREE ? 1
		       : change->action == GM_SEGMENT_MAP  ? 2
		                                           : 3;
	case LOW:
		return change->address & UINT32_MAX;
	case HIGH:
		return change->address >> 32;
	case SIZE:
		return change->size;
	default:
		return change->stream;
	}
}

static void begin(struct gm_view_columns *columns, size_t device, const char *name)
{
	char text[64];
	snprintf(text, sizeof(text), "d%zu.%s", device, name);
	gm_view_column_begin(columns, text, GM_VIEW_NUMBERS);
}

struct gm_error *gm_view_device_segments(
        const struct gm_model *model, size_t device, struct gm_view_columns *columns)
{
	static const char *const names[FIELDS] = {"segment.event", "segment.action",
	        "segment.address.low", "segment.address.high", "segment.size", "segment.stream"};
	change_array changes = {0};
	if (!find_changes(model, device, &changes)) {
		gm_array_deinit(&changes);
		return &gm_error_no_memory;
	}
	for (int field = 0; field < FIELDS; field++) {
		begin(columns, device, names[field]);
		for (size_t i = 0; i < changes.count; i++)
			gm_view_put(columns, field_of(&changes.items[i], (enum field)field));
		gm_view_column_end(columns);
	}
	gm_array_deinit(&changes);
	return NULL;
}

/* For blocks from before the recording only the release is known: they are in segments until then.
 * If only the completed release is known, the program released it before. */
void gm_view_device_before(
        const struct gm_model *model, size_t device, struct gm_view_columns *columns)
{
	static const char *const names[] = {"before.address.low", "before.address.high",
	        "before.size", "before.end", "before.pending"};
	for (int field = 0; field < 5; field++) {
		begin(columns, device, names[field]);
		for (size_t i = 0; i < gm_model_block_count(model); i++) {
			const struct gm_block *block = gm_model_block(model, i);
			if (block->device != device || block->alloc != GM_NO_EVENT ||
			        block->free_requested == GM_NO_EVENT)
				continue;
			gm_view_put(columns, field == 0   ? block->address & UINT32_MAX
			                     : field == 1 ? block->address >> 32
			                     : field == 2 ? block->size
			                     : field == 3 ? gm_block_end(block)
			                                  : gm_view_pending(model, block));
		}
		gm_view_column_end(columns);
	}
}
