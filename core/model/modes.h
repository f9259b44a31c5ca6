/*
 * Grad modes: whether autograd was on decides whether a module's call is a forward pass of training
 * or an evaluation. Recordings of the agent have the mode of each block; in others the stacks
 * decide the phase.
 *
 * The mode of the *outermost* call of a module counts. A module may switch autograd off inside
 * (rotary embeddings, running means), and so do checkpoints and autograd functions: their
 * allocations belong to the enclosing pass. A section is a sequence of events while autograd was
 * off; if a module is called in it, all of it is evaluation, including its data and metrics. Both
 * become known only after their first events, whose phases then change. Autocast turns autograd on
 * while it copies a weight that it keeps, whatever the program wants (cached_cast(),
 * aten/src/ATen/autocast_mode.cpp, PyTorch 2.15): that says nothing. Internal to core/model.
 */
#ifndef GM_MODEL_MODES_H
#define GM_MODEL_MODES_H

#include "model/step_types.h"

struct gm_modes;

struct gm_modes *gm_modes_create(gm_step_frames frames, void *context); /* NULL: no memory */
void gm_modes_destroy(struct gm_modes *modes);

struct gm_mode_event {
	uint32_t number;
	uint32_t python_stack;
	uint32_t flags; /* enum gm_event_flags */
	uint32_t step;
	enum gm_phase phase; /* as the stacks tell */
	bool casts;          /* autocast makes its copy of a tensor */
};

/* Events from `since` up to this one that are in one of the phases `from` (bits) are in `to`. */
struct gm_mode_change {
	uint32_t since;
	uint32_t from;
	enum gm_phase to;
};

/* The phase of the main thread's next event; *ret_change is of those before it, `from` 0: none
 * changes. */
enum gm_phase gm_modes_feed(struct gm_modes *modes, const struct gm_mode_event *event,
        struct gm_mode_change *ret_change);

#endif
