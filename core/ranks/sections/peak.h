/* The section of every summary: what the comparison of files keeps of one. */
#ifndef GM_RANKS_SECTION_PEAK_H
#define GM_RANKS_SECTION_PEAK_H

#include "ask/diff.h"
#include "ranks/sections/section.h"

enum {
	GM_PEAK_SHARES_MOST = 2000, /* lines: the largest */
	GM_PEAK_STEPS_MOST = 4096,  /* the first ones */
};

struct gm_peak_section {
	struct gm_compared_one one; /* by category and by line, at the peak */
};

#endif
