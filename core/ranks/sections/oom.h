/* The section of the last out-of-memory error. */
#ifndef GM_RANKS_SECTION_OOM_H
#define GM_RANKS_SECTION_OOM_H

#include "ask/oom.h"
#include "ranks/sections/section.h"

enum { GM_OOM_TOP_MOST = 10 };

struct gm_kept_holder {
	enum gm_group_kind kind;
	uint32_t line; /* string; 0: several smaller ones */
	uint32_t smaller;
	uint64_t bytes, blocks;
};

struct gm_oom_section {
	bool has; /* false: none is recorded */
	uint64_t ooms;
	uint32_t event;
	uint32_t site;                                                /* string; 0: not known */
	uint64_t requested, needed, total, free, allocated, reserved; /* GM_NOT_KNOWN */
	enum gm_oom_verdict verdict;
	GM_ARRAY(struct gm_kept_holder) top;
};

#endif
