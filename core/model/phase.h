/*
 * What a Python frame by itself says about the phase of a program: that backward() waits here, that
 * a module is called, that a dataset is read. By the names of PyTorch's own functions and files,
 * which have been the same from 2.0 on, and of Keras's optimizers; not by those of users'
 * functions: what is called evaluate() may well train. Internal to core/model.
 */
#ifndef GM_MODEL_PHASE_H
#define GM_MODEL_PHASE_H

#include "model/step_types.h"

/* The last part of a qualified name: "AdamW.step" is step. */
const char *gm_plain_name(const char *name);
/* The landmarks of a training loop that a frame is, as bits. */
unsigned gm_frame_landmark(const struct gm_step_frame *frame);
/* Is it a file of the optimizers of Keras, which are not those of torch? */
bool gm_file_is_keras_optimizer(const char *file);
/* A constructor. */
bool gm_frame_constructs(const struct gm_step_frame *frame);
/* A frame under which no step loop is searched for: constructors and imports. */
bool gm_frame_shuts(const struct gm_step_frame *frame);
/* Is it an event loop's, which runs tasks? Its loop has no steps. */
bool gm_frame_runs_tasks(const struct gm_step_frame *frame);
/* Does it begin a thread that Python's `threading` made? */
bool gm_frame_begins_thread(const struct gm_step_frame *frame);
/* Is it the end of a `with`, called by the frame that has it? */
bool gm_frame_leaves(const struct gm_step_frame *frame);
/* The phase that a frame proves; GM_PHASE_OTHER: none. */
enum gm_phase gm_frame_phase(const struct gm_step_frame *frame);
/* Is it PyTorch's wrapper of a function that runs with another grad mode as a whole:
 * @torch.no_grad(), mostly? */
bool gm_frame_evaluates(const struct gm_step_frame *frame);
/* Is the frame, called by `outer` within an optimizer's step, the user's again: the closure that it
 * calls? */
bool gm_frame_leaves_optimizer(
        const struct gm_step_frame *frame, const struct gm_step_frame *outer);
/* The phase in which a frame runs that `outer` called (NULL: nobody), by what the frames around it
 * prove; and the one in which what it calls runs, if the frame itself proves `own`. */
enum gm_phase gm_phase_around(
        enum gm_phase proven, const struct gm_step_frame *frame, const struct gm_step_frame *outer);
enum gm_phase gm_phase_within(enum gm_phase around, enum gm_phase own);
/* Is it a function that generates text with a model, pass by pass? */
bool gm_frame_generates(const struct gm_step_frame *frame);

#endif
