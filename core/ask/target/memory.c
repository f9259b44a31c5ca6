#include "ask/target/memory.h"

#include <stdlib.h>

void gm_memory_is_at_oom(struct gm_memory *memory)
{
	for (size_t i = 0; i < memory->segment_count; i++) {
		struct gm_memory_segment *segment = &memory->segments[i];
		if (segment->is_private || !segment->size || segment->free != segment->size)
			continue;
		segment->is_private = true;
		memory->private_free += segment->free;
		memory->whole_free -= segment->free;
		memory->waited_whole -= segment->size;
	}
}

bool gm_memory_agrees(const struct gm_memory *memory)
{
	const struct gm_allocator_bytes *now = &memory->own.now;
	return !memory->allocator ||
	       (memory->allocated == now->allocated && memory->reserved == now->reserved);
}

void gm_memory_deinit(struct gm_memory *memory)
{
	free(memory->segments);
	free(memory->parts);
	*memory = (struct gm_memory){0};
}
