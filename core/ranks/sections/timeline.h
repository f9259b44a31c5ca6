/* The section of the shapes that one sees in a plot, and of the plot. */
#ifndef GM_RANKS_SECTION_TIMELINE_H
#define GM_RANKS_SECTION_TIMELINE_H

#include "ask/timeline.h"
#include "ranks/sections/section.h"

enum { GM_TIMELINE_COLUMNS = 64 };

struct gm_kept_shape {
	enum gm_shape_kind kind;
	uint32_t step, first, last, count;
	uint64_t bytes, blocks, of;
	uint32_t note, site; /* strings; 0: none */
};

struct gm_timeline_section {
	GM_ARRAY(struct gm_kept_shape) shapes;         /* each kind once */
	struct gm_column columns[GM_TIMELINE_COLUMNS]; /* equal parts of the recording's events */
	size_t column_count;
};

#endif
