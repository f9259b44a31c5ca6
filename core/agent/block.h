/* The allocator's Block of a report. */
#ifndef GM_AGENT_BLOCK_H
#define GM_AGENT_BLOCK_H

#include "agent/agent.h"

struct gm_agent_block {
	uint64_t requested, stream;
};
/* Forgets all. */
void gm_agent_blocks_begin(void);
/* The allocator's record of a block that is being handed out. False: not found (reported once).
 * `at`: the registers of the function that reports. */
bool gm_agent_block_new(int device, uint64_t address, uint64_t size,
        const struct gm_agent_registers *at, struct gm_agent_block *ret);
/* A block is released: true where its free waits for a stream, and is told by
 * gm_agent_block_completed() later. */
bool gm_agent_block_free(int device, uint64_t address, uint64_t size);
bool gm_agent_blocks_wait(int device);
/* A free that waited and has come about; false: none. */
bool gm_agent_block_completed(int device, uint64_t *ret_address, uint64_t *ret_size);
/* Frees of a device that waited and have come about, as events, before what is seen next. */
void gm_agent_completions(int16_t device, const struct gm_agent_registers *at);

#endif
