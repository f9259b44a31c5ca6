/*
 * Steps: which iteration of the training loop an event belongs to, found from recorded Python
 * frames alone.
 *
 * A step is an iteration around the outermost call of a module, and around the backward pass and
 * the optimizer where they are there: this is the *work*. Loops within a module's call, in
 * backward, in the optimizer, in a comprehension and in torch's own code do not count.
 *
 * The events are read twice. The first reading (gm_steps_learn) follows every loop around the work
 * at once, in each thread by itself, and gathers which work was seen in which loops;
 * gm_steps_plan() then says which loops have the steps, and by which rule (step_plan.c has the
 * rules). The second reading (gm_steps_fix, gm_steps_feed) numbers the iterations of these loops
 * alone. Iterations over which gradients add up are one step: gm_steps_of_iterations().
 *
 * Coroutines share a thread: if several of them are in one loop at once, the iterations of each are
 * followed separately, and the steps are those of one coroutine, as with threads (step_tasks.c).
 *
 * An iteration begins when control, in the frame with the loop, is at an earlier line than before,
 * unless an inner loop explains that. In a loop whose allocations all come from one instruction
 * (`for _ in range(3): y = f(x)`) control never moves up: there a repetition of the same allocation
 * begins an iteration. If the recorder saw the loop's iterator move (gm_steps_turn), only that
 * counts. A loop has been left if its frame is called from another place than before, or if the
 * iterator of a loop around it has moved.
 */
#ifndef GM_MODEL_STEPS_H
#define GM_MODEL_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/log.h"
#include "model/step_count.h"
#include "model/step_plan.h"
#include "model/step_types.h"

struct gm_steps;

struct gm_steps *gm_steps_create(gm_step_frames frames, void *context); /* NULL: no memory */
void gm_steps_destroy(struct gm_steps *steps);

/* The first reading: the next event. Without memory for a new stack, the event is taken as one
 * without a stack. */
void gm_steps_learn(struct gm_steps *steps, const struct gm_step_event *event);
/* How many events from the first of these on tell nothing that the one before them has not told.
 * They are taken in. */
size_t gm_steps_learn_repeated(struct gm_steps *steps, const struct gm_event *events, size_t count);
/* The second reading: from now on only the plan's loops are followed. */
void gm_steps_fix(struct gm_steps *steps, const struct gm_step_plan *plan);
/*
 * The next event of the second reading, or, without a plan, of a reading that continues while
 * events come. Returns its iteration, counted from 1 over all loops of the plan; 0 outside of them.
 * An event without a Python stack belongs where the one before did, and one of another thread where
 * the plan's thread is.
 */
uint32_t gm_steps_feed(struct gm_steps *steps, const struct gm_step_event *event);
/* Does an allocation tell more than another event of the same stack? */
bool gm_steps_heeds_allocations(const struct gm_steps *steps);
/* The phase of the event that was fed last. */
enum gm_phase gm_steps_phase(const struct gm_steps *steps);
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
