/* The question `segments`: the memory that PyTorch got from CUDA, and how it is cut up. */
#ifndef GM_ASK_SEGMENTS_H
#define GM_ASK_SEGMENTS_H

#include "ask/context.h"
#include "ask/target/memory.h"

struct gm_segments_options {
	bool target;    /* of the process or core, now; else of a recording */
	bool has_event; /* of a recording: after `event`; else after the last one */
	bool at_peak;   /* of a recording: at its peak */
	uint64_t event;
	int device; /* -1: the first with memory */
};

/* GM_TARGET: a process or core has no such device, or no events; of a recording as
 * gm_memory_after(). */
struct gm_error *gm_ask_segments(struct gm_context *context,
        const struct gm_segments_options *options, struct gm_memory *ret_memory);

#endif
