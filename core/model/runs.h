/* The step and phase of an event, and what the program said of it. */
#ifndef GM_MODEL_RUNS_H
#define GM_MODEL_RUNS_H

#include "model/state.h"
#include "model/types.h"

size_t gm_model_run_count(const struct gm_model *model);
struct gm_model_run gm_model_run(const struct gm_model *model, size_t index);
/* The run that an event is in; the event must be in the record. */
size_t gm_model_run_at(const struct gm_model *model, uint32_t event);

/* The step of an event, from 1; 0: in none. */
uint32_t gm_model_step(const struct gm_model *model, uint64_t event);
enum gm_phase gm_model_phase(const struct gm_model *model, uint64_t event);
uint32_t gm_model_step_count(const struct gm_model *model);
/* Did the program itself say where its steps begin? Then they are of no loop. */
bool gm_model_steps_marked(const struct gm_model *model);
/* The ranges, named by the program, that an event is in: outermost first, at most `max`. */
size_t gm_model_ranges(
        const struct gm_model *model, uint64_t event, const char **ret_names, size_t max);
/* Did the program name any, or say anything else of itself (model/marks.h)? */
bool gm_model_has_marks(const struct gm_model *model);
/* What the program attached to the event by torch.cuda.memory._set_memory_metadata(); NULL:
 * nothing. */
const char *gm_model_metadata(const struct gm_model *model, uint64_t event);
/* The run that the event of a walk is in. */
struct gm_model_run gm_state_walk_run(struct gm_state_walk *walk);
/* A frame of the stack at which the forward pass made the node whose backward the event is of;
 * innermost first. False: there is no such frame, or the stack is not known: PyTorch keeps it in
 * anomaly mode alone. */
struct gm_forward_frame {
	char file[1024], function[256];
	uint32_t line;
};
bool gm_model_forward(const struct gm_model *model, uint64_t event, size_t index,
        struct gm_forward_frame *ret_frame);
/* The loop whose iterations are the steps, of several the one that has most; false: they are of no
 * loop, or marked. */
bool gm_model_step_loop(const struct gm_model *model, struct gm_step_loop *ret_loop);
/* All loops that have steps, and how that was told; the model's own. Where steps are marked it is
 * not gone by. */
const struct gm_step_plan *gm_model_step_plan(const struct gm_model *model);
/* How many iterations of them there are: several may make one step. */
uint32_t gm_model_iteration_count(const struct gm_model *model);
/* The steps of one of the plan's loops, by its index. */
uint32_t gm_model_loop_steps(const struct gm_model *model, uint32_t loop);

#endif
