/* A device's memory while it is put together. Internal to core/ask. */
#ifndef GM_ASK_MEMORY_BUILD_H
#define GM_ASK_MEMORY_BUILD_H

#include "base/array.h"
#include "ask/target/memory.h"

struct gm_memory_building {
	GM_ARRAY(struct gm_memory_segment) segments;
	GM_ARRAY(struct gm_segment_part) parts;
};

void gm_memory_building_deinit(struct gm_memory_building *building);
/* Appends a part to the last segment. False: no memory. */
bool gm_memory_add_part(struct gm_memory_building *building, struct gm_segment_part part);
/* Takes all that was built, and adds it up. */
void gm_memory_finish(struct gm_memory_building *building, struct gm_memory *memory);

#endif
