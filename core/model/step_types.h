/*
 * What the detector of steps (steps.h) is given and what it says: frames, loops, landmarks, events,
 * plans, phases.
 */
#ifndef GM_MODEL_STEP_TYPES_H
#define GM_MODEL_STEP_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/log.h"

enum gm_phase {
	GM_PHASE_OTHER = 0,
	GM_PHASE_INIT,
	GM_PHASE_DATA,
	GM_PHASE_FORWARD,
	GM_PHASE_RECOMPUTE,
	GM_PHASE_BACKWARD,
	GM_PHASE_OPTIMIZER,
	GM_PHASE_ZERO_GRAD,
	GM_PHASE_EVALUATION, /* a forward pass that no backward pass follows */
	GM_PHASE_PREFILL,    /* the first pass of generate(), over the prompt */
	GM_PHASE_DECODE,     /* its others, a token each */
	GM_PHASE_COUNT,
};
const char *gm_phase_name(enum gm_phase phase);

/* The work that a step goes around, as bits. */
enum gm_landmark {
	GM_LANDMARK_BACKWARD = 1,
	GM_LANDMARK_OPTIMIZER = 2,
	GM_LANDMARK_MODULE = 4,    /* a module is called */
	GM_LANDMARK_ZERO_GRAD = 8, /* gradients are given up */
};

/* A Python frame, as the detector needs it. Strings must stay valid during the call only. */
struct gm_step_frame {
	uint32_t code; /* the same code object always has the same number */
	uint32_t lasti;
	uint32_t line; /* 0: not known */
	bool iterates; /* a loop's iterator is asked for its next item; false: it is not, or that is
	                  not known */
	uint32_t loop_count;
	const struct gm_log_loop *loops;
	const char *file, *name;
};

struct gm_step_loop {
	uint32_t code;
	uint32_t loop; /* index among the code's loops */
	uint32_t line;
	bool thin;
};

/* How it was told what the steps are. */
enum gm_step_rule {
	GM_STEPS_NOT_FOUND = 0,
	GM_STEPS_AROUND_WORK, /* the innermost loop around all of the work */
	GM_STEPS_OUTERMOST,   /* no work was seen: the outermost loop of the outermost function */
	GM_STEPS_UPDATES,  /* no loop goes around the work: each update of the weights ends one */
	GM_STEPS_ONE_CALL, /* a module is called at one place, in no loop: one step */
	GM_STEPS_CHOSEN,   /* the user named the loop */
};

enum { GM_STEP_LOOPS_CHOSEN = 32 };

struct gm_step_plan {
	enum gm_step_rule rule;
	unsigned work;    /* what the loops go around: enum gm_landmark */
	bool modules;     /* torch.nn's modules were called at all */
	bool accumulates; /* a loop within one of these goes around the work too; it accumulates the
	                     gradients of one update */
	/* The thread whose steps they are: its kernel id (0: not recorded) and the code of its
	 * outermost frame. */
	uint64_t thread;
	uint32_t outermost;
	uint32_t task;   /* of those that take turns in the thread; 0: they are not distinguished */
	uint32_t others; /* threads that have steps of their own, which are not counted */
	uint32_t other_tasks;                            /* of the same thread, that have too */
	struct gm_step_loop loops[GM_STEP_LOOPS_CHOSEN]; /* none is within another */
	uint32_t loop_count;
	uint32_t unit;    /* GM_STEPS_UPDATES: the code of the innermost function around the work */
	bool unit_called; /* and it is called once for each step */
};

struct gm_step_event {
	uint64_t thread;                     /* kernel id, 0: not recorded */
	uint32_t python_stack, native_stack; /* 0: none */
	bool allocates;
	bool releases; /* anything but an allocation */
	bool borrowed; /* the Python stack is that of the thread that waits in backward() */
	bool foreign;  /* the memory is another library's, not PyTorch's */
};

static inline struct gm_step_event gm_step_event_of(const struct gm_event *event)
{
	return (struct gm_step_event){
	        .thread = event->thread,
	        .python_stack = event->python_stack,
	        .native_stack = event->native_stack,
	        .allocates = event->action == GM_ALLOC,
	        .releases = event->action != GM_ALLOC,
	        .borrowed = event->flags & GM_EVENT_BORROWED,
	        .foreign = event->owner != 0,
	};
}

/* Gives the frames of a stack, innermost first, at most `max`; called once per stack, within
 * feed. */
typedef size_t (*gm_step_frames)(
        void *context, uint32_t stack, struct gm_step_frame *ret_frames, size_t max);

#endif
