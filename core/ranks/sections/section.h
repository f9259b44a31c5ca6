/*
 * What a summary says of a recording, in sections: each is what one question keeps of it. A section
 * is a struct in memory, and bytes in a summary; most questions need only one.
 */
#ifndef GM_RANKS_SECTION_H
#define GM_RANKS_SECTION_H

#include "ask/context.h"
#include "base/strings.h"
#include "ranks/codec.h"

enum gm_section {
	GM_SECTION_PEAK, /* of every summary: what `gpumem peak FILES` compares */
	GM_SECTION_STEPS,
	GM_SECTION_PHASES,
	GM_SECTION_LEAKS,
	GM_SECTION_OOM,
	GM_SECTION_TIMELINE,
	GM_SECTION_COLLECTIVES,
	GM_SECTIONS,
};

struct gm_section_kind {
	size_t size; /* of its struct */
	/* Of the context's recording; fills a struct that is all 0. *ret_cut: not all of it. */
	struct gm_error *(*read)(struct gm_context *context, struct gm_strings *strings,
	        void *section, bool *ret_cut);
	void (*code)(struct gm_codec *codec, void *section);
	void (*deinit)(void *section);
};

extern const struct gm_section_kind gm_section_peak, gm_section_steps, gm_section_phases,
        gm_section_leaks, gm_section_oom, gm_section_timeline, gm_section_collectives;

/* "/job/train.py:7 in train", as a number; 0: no memory. */
uint32_t gm_section_place(
        struct gm_strings *strings, const char *file, uint32_t line, const char *function);

#endif
