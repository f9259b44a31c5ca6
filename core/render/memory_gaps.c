/* The difference between the blocks of a process or core and its allocator's counters. */
#include <inttypes.h>

#include "base/put.h"
#include "render/json.h"
#include "render/memory.h"
#include "render/pause.h"
#include "ask/target/memory.h"
#include "ask/target/pause.h"

enum { FIGURES = 2, LINE = 192 };

static bool gap_text(const struct gm_memory *memory, int figure, char text[LINE])
{
	const struct gm_allocator_bytes *now = &memory->own.now;
	if (gm_memory_agrees(memory))
		return false;
	uint64_t blocks = figure ? memory->reserved : memory->allocated;
	uint64_t counted = figure ? now->reserved : now->allocated;
	snprintf(text, LINE,
	        "cuda:%d: the blocks that were read add up to %" PRIu64
	        " bytes %s, the allocator counts %" PRIu64
	        ": some were missed, or changed while they were read",
	        memory->device, blocks, figure ? "reserved" : "allocated", counted);
	return blocks != counted;
}

void gm_put_memory_gaps(const struct gm_memory *memory, const char *indent, FILE *out)
{
	char text[LINE];
	for (int i = 0; i < FIGURES; i++)
		if (gap_text(memory, i, text))
			gm_put(out, "%s%s\n", indent, text);
}

void gm_json_memory_gaps(json_t *gaps, const struct gm_memory *memory)
{
	char text[LINE];
	for (int i = 0; i < FIGURES; i++)
		if (gap_text(memory, i, text))
			json_array_append_new(gaps, json_string(text));
}

void gm_json_set_memory_gaps(json_t *value, const struct gm_memory *memory)
{
	json_t *gaps = json_array();
	gm_json_memory_gaps(gaps, memory);
	json_object_set_new(value, "complete",
	        json_boolean(gm_memory_agrees(memory) && gm_pause_is_still(&memory->pause)));
	json_object_set_new(value, "gaps", gaps);
	if (memory->allocator)
		json_object_set_new(value, "pause", gm_json_pause(&memory->pause));
}
