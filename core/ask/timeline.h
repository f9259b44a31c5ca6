/*
 * The question `timeline`: a plot of allocated memory, and a description of its shapes. Each shape
 * has the events it spans, its bytes and, if one line made it, that line. gpumem looks for shapes
 * in the whole recording (the bands), in the first step (what only that step allocates), and in one
 * typical step: the second, or the only one. If the recording has native stacks, shapes also have
 * PyTorch's operators.
 */
#ifndef GM_ASK_TIMELINE_H
#define GM_ASK_TIMELINE_H

#include "ask/context.h"
#include "ask/recording/shapes.h"

struct gm_error *gm_ask_shapes(struct gm_context *context, struct gm_shapes *ret_shapes);

/* The plot: `columns` equal parts of the record's events. */
struct gm_column {
	uint32_t first, last;
	uint64_t allocated, reserved; /* the greatest in it */
	uint32_t step;
	enum gm_phase phase; /* where `allocated` was greatest */
	bool peak;           /* of the whole record */
};
/* Fills at most `capacity` elements of the caller's array `columns`, of the main device;
 * *ret_count: how many; 0: no events. */
struct gm_error *gm_ask_plot(
        struct gm_context *context, struct gm_column *columns, size_t capacity, size_t *ret_count);

#endif
