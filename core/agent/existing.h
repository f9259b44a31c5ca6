/*
 * The blocks that PyTorch's allocator had allocated before recording began. The agent does not read
 * the allocator's structs: `gpumem attach` does (core/torch), from outside. With the setting
 * existing=1 the agent requests these blocks while every allocating thread waits for the recording
 * to begin, so that no event is missed. It writes them as events marked as existing, and begins. If
 * nobody answers, it begins without them. A debugger that keeps all other threads stopped provides
 * them before the agent asks.
 *
 * Read by the agent and by core/cli.
 */
#ifndef GM_AGENT_EXISTING_H
#define GM_AGENT_EXISTING_H

#include <stdint.h>

enum gm_agent_existing_state {
	GM_AGENT_EXISTING_NONE = 0,
	GM_AGENT_EXISTING_ASKED,  /* `table` has space for `capacity` entries */
	GM_AGENT_EXISTING_COMING, /* somebody is about to write them */
	GM_AGENT_EXISTING_GIVEN,  /* `count` of them are there */
};

enum gm_agent_existing_kind {
	GM_AGENT_EXISTING_SEGMENT = 1,
	GM_AGENT_EXISTING_BLOCK,
	GM_AGENT_EXISTING_PENDING, /* a block whose free waits for a stream */
};

struct gm_agent_existing_entry {
	uint64_t address, size, requested, stream;
	uint16_t kind;
	int16_t device;
	uint32_t mapped; /* of a segment, 1: it is expandable, so parts are mapped and unmapped */
};

/* The exported variable gpumem_agent_existing. */
struct gm_agent_existing {
	uint32_t state; /* enum gm_agent_existing_state; atomic */
	uint32_t count;
	uint64_t table, capacity;
};

/* Asks for what there was before and writes it; while the recording begins */
void gm_agent_existing(void);

#endif
