/* What stacks are taken of. */
#ifndef GM_AGENT_STACKS_OPTIONS_H
#define GM_AGENT_STACKS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct gm_stacks_options {
	bool python, native;
	uint32_t max_frames; /* of one stack; 0: the most there may be (4096) */
};

#endif
