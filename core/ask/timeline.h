/*
 * The question `timeline`: a plot of allocated memory, and its shapes: what one sees in a plot of
 * allocated memory, said in words. Each shape has the events it spans, its bytes and, where one
 * line made it, that line. They are searched for in the whole record (the bands), in the first step
 * (what it alone makes), and in one typical step: the second, or the only one. What made them is
 * told by PyTorch's operators, where the record has native stacks.
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
/* Fills at most `columns`; *ret_count: how many. The caller owns the array. */
struct gm_error *gm_ask_plot(
        struct gm_context *context, struct gm_column *columns, size_t capacity, size_t *ret_count);

#endif
