/*
 * What follows the last step, up to the program's end. Internal to core/ask.
 *
 * When a program ends, it releases what it still had, and this is no sign that it did not keep it.
 * So "the end" is the last event before that. Python's own end has no Python stack. A function that
 * trained and then evaluated (`main()`) releases its variables when it returns, and then its frame
 * is gone. The frames that the program *stays in* are those of the last step that all later
 * allocations of the same thread have as well. The end is the last event that has them.
 *
 * So a list that is a variable of `evaluate()` is released before the end, if `evaluate()` has
 * returned, and one that is a variable of the caller of `train()` and `evaluate()` is not.
 */
#ifndef GM_ASK_AFTER_STEPS_H
#define GM_ASK_AFTER_STEPS_H

#include "model/model.h"

struct gm_after_steps {
	uint32_t last; /* the last event of the last step; GM_NO_EVENT: there is no step */
	uint32_t end;  /* the last event before the program releases everything: `last` or later */
};

/* No memory: an error. */
struct gm_error *gm_after_steps(const struct gm_model *model, struct gm_after_steps *ret_after);

#endif
