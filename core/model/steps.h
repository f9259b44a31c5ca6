/*
 * Steps: which iteration of the training loop an event belongs to, found from recorded Python
 * frames alone.
 *
 * A step is an iteration around the outermost call of a module, and around the backward pass and
 * the optimizer where they are there: this is the *work*. Loops within a module's call, in
 * backward, in the optimizer, in a comprehension and in torch's own code are none.
 *
 * The events are read twice. The first reading (gm_steps_learn) follows every loop around the work
 * at once, in each thread by itself, and gathers which work was seen in which loops;
 * gm_steps_plan() then says which loops have the steps, and by which rule (step_plan.c has the
 * rules). The second reading (gm_steps_fix, gm_steps_feed) numbers the iterations of these loops
 * alone. Iterations over which gradients add up are one step: gm_steps_of_iterations().
 *
 * Coroutines take turns in a thread: where several of them are in one loop at once, the iterations
 * of each are followed by themselves, and the steps are those of one, as with threads
 * (step_tasks.c).
 *
 * An iteration begins when control, in the frame that has the loop, is found further up than
 * before, unless a loop within explains that. A thin loop, whose allocations all come from one
 * instruction (`for _ in range(3): y = f(x)`), shows no control going up: there the same allocation
 * coming again begins one. Where the recorder saw the loop's iterator move (gm_steps_turn), that
 * alone tells its iterations.
 */
#ifndef GM_MODEL_STEPS_H
#define GM_MODEL_STEPS_H

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
	unsigned work; /* what the loops go around: enum gm_landmark */
	bool modules;  /* torch.nn's modules were called at all */
	/* The thread whose steps they are: its kernel id (0: not recorded) and the code of its
	 * outermost frame. */
	uint64_t thread;
	uint32_t outermost;
	uint32_t task;   /* of those that take turns in the thread; 0: they are not told apart */
	uint32_t others; /* threads that have steps of their own, which are not counted */
	uint32_t other_tasks;                            /* of the same thread, that have too */
	struct gm_step_loop loops[GM_STEP_LOOPS_CHOSEN]; /* none is within another */
	uint32_t loop_count;
	uint32_t unit;    /* GM_STEPS_UPDATES: the code of the innermost function around the work */
	bool unit_called; /* and it is called once for each step */
};
bool gm_step_plans_are_equal(const struct gm_step_plan *a, const struct gm_step_plan *b);

struct gm_step_event {
	uint64_t thread;                     /* kernel id, 0: not recorded */
	uint32_t python_stack, native_stack; /* 0: none */
	bool allocates;
	bool borrowed; /* the Python stack is that of the thread that waits in backward() */
};

static inline struct gm_step_event gm_step_event_of(const struct gm_event *event)
{
	return (struct gm_step_event){
	        .thread = event->thread,
	        .python_stack = event->python_stack,
	        .native_stack = event->native_stack,
	        .allocates = event->action == GM_ALLOC,
	        .borrowed = event->flags & GM_EVENT_BORROWED,
	};
}

struct gm_steps;

/* Gives the frames of a stack, innermost first, at most `max`; called once per stack, within
 * feed. */
typedef size_t (*gm_step_frames)(
        void *context, uint32_t stack, struct gm_step_frame *ret_frames, size_t max);

struct gm_steps *gm_steps_create(gm_step_frames frames, void *context); /* NULL: no memory */
void gm_steps_destroy(struct gm_steps *steps);

/* The first reading: the next event. Without memory for a new stack, the event is taken as one
 * without a stack. */
void gm_steps_learn(struct gm_steps *steps, const struct gm_step_event *event);
/* How many events from the first of these on tell nothing that the one before them has not told.
 * They are taken in. */
size_t gm_steps_learn_repeated(struct gm_steps *steps, const struct gm_event *events, size_t count);
/* What the first reading tells so far. */
void gm_steps_plan(struct gm_steps *steps, struct gm_step_plan *ret_plan);
/* The same where the user names a loop: the innermost one that was followed and has this line of
 * this file (the end of its path). False: there is none. */
bool gm_steps_plan_at(
        struct gm_steps *steps, const char *file, uint32_t line, struct gm_step_plan *ret_plan);
/* The loops around those of a plan, the innermost first; at most `max`. */
size_t gm_steps_around(struct gm_steps *steps, const struct gm_step_plan *plan,
        struct gm_step_loop *ret_loops, size_t max);

/* The second reading: from now on only the plan's loops are followed. */
void gm_steps_fix(struct gm_steps *steps, const struct gm_step_plan *plan);
/*
 * The next event of the second reading, or, without a plan, of a reading that goes on while events
 * come. Returns its iteration, counted from 1 over all loops of the plan; 0 outside of them. An
 * event without a Python stack belongs where the one before did, and one of another thread where
 * the plan's thread is.
 */
uint32_t gm_steps_feed(struct gm_steps *steps, const struct gm_step_event *event);
/* Does an allocation tell more than another event of the same stack? */
bool gm_steps_heeds_allocations(const struct gm_steps *steps);
/* The phase of the event that was fed last. */
enum gm_phase gm_steps_phase(const struct gm_steps *steps);
/* How many iterations there are so far. */
uint32_t gm_steps_iteration_count(const struct gm_steps *steps);
/* The step of each iteration so far (ret_steps[iteration], [0] is 0): iterations over which
 * gradients add up, until the optimizer or zero_grad() takes them, are one. `goes_on`: the last one
 * may have work yet. Returns the number of steps. */
uint32_t gm_steps_of_iterations(const struct gm_steps *steps, bool goes_on, uint32_t *ret_steps);
/* The index of the plan's loop that an iteration is of. */
uint32_t gm_steps_loop_of_iteration(const struct gm_steps *steps, uint32_t iteration);

/* Both readings, before the event that follows is fed: */
/* From that event on this loop is in another iteration, as its iterator tells; or
 * (GM_LOG_NO_POSITION) no iterator tells any more, and the stacks have to. */
void gm_steps_turn(struct gm_steps *steps, uint32_t code, uint32_t loop, uint64_t position);
/* The thread runs this task from here on (0: none): its coroutine's frame has `depth` frames around
 * it. */
void gm_steps_task(struct gm_steps *steps, uint64_t thread, uint32_t task, uint32_t depth);
/* A thread did some work (enum gm_landmark) that need not have had an event. */
void gm_steps_mark(struct gm_steps *steps, uint64_t thread, unsigned work);

#endif
