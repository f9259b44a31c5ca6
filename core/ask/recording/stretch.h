/* A stretch of events and what was allocated in it. */
#ifndef GM_ASK_STRETCH_H
#define GM_ASK_STRETCH_H

#include "model/model.h"

/* What happened in a stretch of events: before the loop, in a pass of it, or in a phase. Bytes. */
struct gm_stretch {
	uint32_t step;        /* 0: outside the loop */
	enum gm_phase phase;  /* of gm_phases.items */
	uint32_t first, last; /* events */
	uint64_t events;
	uint64_t start,
	        end; /* allocated before and after it; of phases only `end` of the last one */
	uint64_t peak;
	uint32_t peak_event;
	uint64_t blocks, bytes;     /* allocated in it */
	uint64_t kept_blocks, kept; /* of these, what was still allocated when it ended */
	uint64_t replaced; /* of `kept`, what the next step freed; of steps that one follows */
	bool followed;
};

/* Takes an event in. before: bytes allocated before it; block: the one that it makes, NULL: none;
 * kept_until: the last event of the stretch. */
void gm_stretch_add(struct gm_stretch *stretch, const struct gm_state_walk *walk, uint64_t before,
        const struct gm_block *block, uint32_t kept_until);

#endif
