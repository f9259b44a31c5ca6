/* The section of the calls that move data between ranks. */
#ifndef GM_RANKS_SECTION_COLLECTIVES_H
#define GM_RANKS_SECTION_COLLECTIVES_H

#include "ask/collectives.h"
#include "ranks/sections/section.h"

enum { GM_COLLECTIVES_MOST = 400 };

/* The calls of one kind in one phase of all steps, by groups of so many ranks and of one dtype. */
struct gm_kept_calls {
	uint32_t kind, dtype;
	enum gm_phase phase;
	uint32_t ranks; /* of the group; 0: not known */
	uint64_t calls, send_bytes, receive_bytes;
};

struct gm_collectives_section {
	uint64_t calls; /* all of them */
	GM_ARRAY(struct gm_kept_calls) items;
};

#endif
