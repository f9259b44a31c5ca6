/* The section of the lines whose memory grows. */
#ifndef GM_RANKS_SECTION_LEAKS_H
#define GM_RANKS_SECTION_LEAKS_H

#include "ask/leaks.h"
#include "ranks/sections/section.h"

enum { GM_LEAKS_MOST = 200 };

struct gm_kept_leak {
	uint32_t line, loop; /* strings; `loop` 0: it is the steps */
	uint32_t from, to;   /* the iterations of the loop that were examined */
	uint32_t steps;
	uint64_t bytes, blocks;
	bool joined;
	enum gm_category category;
	enum gm_leak_bound bound;
};

struct gm_leaks_section {
	uint32_t from, to;                   /* steps that were examined; from > to: too few */
	GM_ARRAY(struct gm_kept_leak) items; /* those that end by themselves last */
};

#endif
