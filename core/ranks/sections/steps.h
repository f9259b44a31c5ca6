/* Sections of stretches of events: the steps, and the phases. */
#ifndef GM_RANKS_SECTION_STEPS_H
#define GM_RANKS_SECTION_STEPS_H

#include "ask/recording/stretch.h"
#include "ranks/sections/section.h"

enum {
	GM_STEPS_FIRST =
	        4096, /* of more steps these, the highest, and the last stretches are kept */
	GM_STEPS_LAST = 16,
	GM_STEPS_MOST = 3 * GM_STEPS_FIRST, /* with the stretches between them */
};

struct gm_kept_stretch {
	struct gm_stretch stretch; /* of the steps: `phase` is that of the peak */
	uint32_t peak_step;        /* of the phases; 0: in none */
};

struct gm_steps_section {
	GM_ARRAY(struct gm_kept_stretch) items; /* before, between and after the steps too */
	uint32_t steps;                         /* all of them */
	uint64_t growth;                        /* as in struct gm_steps_answer */
	bool leaks, few, even;
};

struct gm_phases_section {
	GM_ARRAY(struct gm_kept_stretch) items; /* that occur */
};

#endif
