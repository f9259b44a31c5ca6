/*
 * Grad modes: what the program told autograd at the time decides whether a module's call is a
 * forward pass that trains or an evaluation. Recordings of the agent have the mode of each block;
 * in others the phase stays what the stacks tell.
 *
 * The mode that counts is that of the *outermost* call of a module. A module may switch autograd
 * off within (rotary embeddings, running means), and so do checkpoints and autograd functions: what
 * is allocated there belongs to the pass around. A section is what happened one after another while
 * autograd was off; where a module is called in it, all of it is evaluation: its data, its metrics
 * too. Both are known only behind their first events, which then change. Internal to core/model.
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
