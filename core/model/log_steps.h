/* Steps and phases of what a log has: its stacks and marks, for model/steps.h. */
#ifndef GM_MODEL_LOG_STEPS_H
#define GM_MODEL_LOG_STEPS_H

#include "log/log.h"
#include "model/steps.h"

/* The frames of a Python stack, for gm_steps_create() and gm_modes_create(); `context`: the log. */
size_t gm_log_step_frames(
        void *context, uint32_t stack, struct gm_step_frame *ret_frames, size_t max);
/* The phase that a Python stack by itself proves; GM_PHASE_OTHER: none. */
enum gm_phase gm_log_stack_phase(const struct gm_log *log, uint32_t stack);
/* The same of a collective's call: also what DeepSpeed calls before and after PyTorch's backward()
 * and step(). Not for blocks: a gradient that lives on in DeepSpeed's backward() is told by having
 * outlived PyTorch's. */
enum gm_phase gm_log_collective_phase(const struct gm_log *log, uint32_t stack);
/* Does this Python stack (0: none) begin in a thread that the program made by `threading`? */
bool gm_log_begins_thread(const struct gm_log *log, uint32_t stack);
/* By the Python stacks of a log, which must outlive the steps. NULL: no memory. */
struct gm_steps *gm_log_steps_create(const struct gm_log *log);
/* What a mark tells: work of an optimizer, or the task that a thread goes on with. */
void gm_log_steps_mark(
        const struct gm_log *log, struct gm_steps *steps, const struct gm_log_mark *mark);

#endif
