/*
 * Driven lines: lines of the program under which a library does the work. A script of one line has
 * all its memory at that line, which is true and says nothing. Where a line holds a good part of
 * what is asked about, its blocks are told by the frame of the library that works with the model,
 * called by that line (model/wrapper_frames.h has the rule).
 */
#ifndef GM_ASK_DRIVEN_H
#define GM_ASK_DRIVEN_H

#include <stdio.h>

#include "ask/recording/place.h"
#include "model/wrapper_frames.h"

struct gm_driven;

/* A line is descended from where it holds this part of the bytes: then it makes a table too
 * coarse. */
enum { GM_DRIVEN_PART = 4 };

/* Where a block was allocated, for a reader. Strings are the log's. */
struct gm_shown_site {
	struct gm_frame_place place; /* code 0: no Python frame is known */
	struct gm_frame_place
	        caller; /* the program's own line that called it; code 0: `place` is that line */
	/* Of backward's work: the class of the node ("MmBackward0"), "" where it is not known; and
	 * PyTorch's operator. Known where native stacks were recorded. */
	char node[64], operator_name[64];
};

/*
 * Of the `count` blocks `live` of a model, whose sizes make `bytes` (0: all lines are descended
 * from). *ret_driven is NULL where no line needs it. The model must outlive it, and may not grow
 * meanwhile.
 */
struct gm_error *gm_driven_find(const struct gm_model *model, const uint32_t *live, size_t count,
        uint64_t bytes, struct gm_driven **ret_driven);
void gm_driven_destroy(struct gm_driven *driven);

/*
 * The site of an event's stacks. driven NULL: no line is descended from. False: nothing is known,
 * neither a frame nor a node nor an operator. `node` and `operator_name` are filled where the place
 * does not tell the work by itself: where there is no Python stack, and below driven lines where it
 * is that of the thread that waits in backward().
 */
bool gm_shown_site(const struct gm_driven *driven, const struct gm_log *log,
        const struct gm_event *event, struct gm_shown_site *ret_site);
/* "MmBackward0 (mm)", "MmBackward0", "mm" or nothing. */
void gm_put_node(const struct gm_shown_site *site, FILE *out);
/* "train.py:7 in train", "model.py:9 in Net.forward ← train.py:7", "MmBackward0 (mm)" */
void gm_put_shown_site(const struct gm_shown_site *site, FILE *out);

#endif
