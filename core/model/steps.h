/*
 * Steps: which pass of the training loop an event belongs to, found from recorded Python frames alone.
 *
 * Events are fed one by one, so a recorder can stop at the N-th pass as well as a model can be made of a whole
 * log. Every loop on a stack is followed at once: a pass of it begins when control, in the frame that has the
 * loop, is found further up than before, unless a loop within explains that. Which of the loops is the
 * training loop is decided by landmarks: the innermost that contains the backward pass and the optimizer,
 * both where both were seen. Without landmarks it is the outermost loop of the outermost frame that has one.
 * Loops within torch, in constructors and in imports are no candidates.
 *
 * A thin loop, whose allocations all come from one instruction (`for _ in range(3): y = model(x)`), shows no
 * control going up: there the same allocation coming again begins a pass.
 *
 * Where the recorder saw the loop's iterator move (gm_steps_turn), that alone tells its passes.
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

/* A Python frame, as the detector needs it. Strings must stay valid during the call only. */
struct gm_step_frame {
	uint32_t code; /* the same code object always has the same number */
	uint32_t lasti;
	uint32_t loop_count;
	const struct gm_log_loop *loops;
	const char *file, *name;
};

struct gm_step_loop {
	uint32_t code;
	uint32_t loop; /* index among the code's loops */
	uint32_t line;
	bool thin;
	bool modules; /* torch.nn's modules were called */
};

struct gm_steps;

/* Gives the frames of a stack, innermost first, at most `max`; called once per stack, within feed. */
typedef size_t (*gm_step_frames)(
        void *context, uint32_t stack, struct gm_step_frame *ret_frames, size_t max);

struct gm_steps *gm_steps_create(gm_step_frames frames, void *context); /* NULL: no memory */
void gm_steps_destroy(struct gm_steps *steps);
/* From now on only this loop is followed. For a second reading of a log, when the loop is known. */
void gm_steps_fix(struct gm_steps *steps, const struct gm_step_loop *loop);

/*
 * The next event: its Python stack (0: none; the event then belongs where the one before did), its native
 * stack, and its action. Returns its step as far as can be told now: 0 outside the loop. Without memory for
 * a new stack, the event is taken as one without a stack.
 */
uint32_t gm_steps_feed(struct gm_steps *steps, uint32_t python_stack, uint32_t native_stack,
        bool allocates, bool borrowed);
/* The same for who asks for the loop alone, when all events were fed: cheaper, and tells neither step nor phase. */
void gm_steps_learn(struct gm_steps *steps, uint32_t python_stack, uint32_t native_stack,
        bool allocates, bool borrowed);
/* Does an allocation tell more than another event of the same stack? */
bool gm_steps_heeds_allocations(const struct gm_steps *steps);
/*
 * From the next event on that stands in this loop it is in another pass, as its iterator tells (`told`); or
 * no iterator tells any more, and the stacks have to. Before the event is fed.
 */
void gm_steps_turn(struct gm_steps *steps, uint32_t code, uint32_t loop, bool told);
/* The phase of the event that was fed last. */
enum gm_phase gm_steps_phase(const struct gm_steps *steps);
/* The training loop as far as can be told now; false: none yet. */
bool gm_steps_loop(struct gm_steps *steps, struct gm_step_loop *ret_loop);

#endif
