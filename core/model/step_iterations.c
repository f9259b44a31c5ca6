/* Iterations: when an iteration of a loop begins. */
#include "model/steps_internal.h"

enum {
	SEEN_MAX = 1 << 12
}; /* allocation sites that are remembered for each iteration of a thin loop */

static bool seen_before(struct followed *loop, uint64_t site)
{
	for (size_t i = 0; i < loop->seen.count; i++)
		if (loop->seen.items[i] == site)
			return true;
	if (loop->seen.count < SEEN_MAX && !gm_array_push(&loop->seen, site))
		return false;
	return false;
}

/*
 * Whether a function that the loop's frame calls, at the same place as before, has begun again: the
 * first frame that is at another place is further up, and no inner loop explains that.
 */
static bool called_again(
        const struct summary *before, const struct summary *now, const struct standing *standing)
{
	/* usually nothing differs, or something within torch's own frames */
	if (standing->inner || (before->places_hash == now->places_hash &&
	                               before->place_count == now->place_count))
		return false;
	for (uint32_t i = standing->depth + 1; i < before->place_count && i < now->place_count;
	        i++) {
		const struct place *a = &before->places[i], *b = &now->places[i];
		if (a->code != b->code)
			return false;
		if (a->lasti != b->lasti)
			return b->lasti < a->lasti && (a->loops & b->loops) == 0;
		if (b->loops)
			return false;
	}
	return false;
}

/*
 * The evidence of the iterator. Events at the loop's head, while it creates its next item (a batch
 * is read), belong to the iteration that begins, although the iterator moves only afterwards.
 *
 * `releases`: it is a release by the loop's own frame. enumerate() moves, and then releases the
 * item before the previous one, if the program keeps the tuple with the previous one
 * (`for pair in enumerate(batches)`). The frame is still at the head, and the iteration has begun.
 */
static bool position_begins(struct followed *loop, bool at_head, bool releases)
{
	bool moved = loop->turned || loop->moved_at_head;
	bool makes = at_head && !(moved && releases);
	bool begins = !loop->inside || (loop->turned && !loop->ahead);
	loop->ahead &= loop->inside && !loop->turned;
	begins |= makes && !loop->ahead;
	loop->ahead |= makes;
	loop->moved_at_head = at_head && !makes;
	return begins;
}

/* `around_began`: with this event an iteration of a surrounding loop has begun. Returns whether one
 * of this loop has. */
static bool note_iteration(struct gm_steps *steps, struct followed *loop,
        const struct standing *standing, uint32_t stack, uint64_t site, bool alloc, bool releases,
        bool around_began)
{
	bool begins = !loop->inside;
	if (loop->inside && standing->leaving && standing->lasti < loop->last_lasti)
		return false;
	if (loop->inside && standing->lasti < loop->last_lasti)
		begins = !(standing->inner && standing->inner == loop->last_inner);
	else if (loop->inside && standing->lasti == loop->last_lasti && loop->last_stack)
		begins = called_again(&steps->summaries.items[loop->last_stack],
		        &steps->summaries.items[stack], standing);
	if (standing->lasti != loop->last_lasti)
		loop->last_stack = 0;
	/* An event after the call's return, at the same place, does not hide how far the call had
	 * come. */
	if (steps->summaries.items[stack].place_count > standing->depth + 1)
		loop->last_stack = stack;
	if (alloc) {
		if (loop->alloc_lasti == 0)
			loop->alloc_lasti = standing->lasti + 1;
		else if (loop->alloc_lasti != standing->lasti + 1)
			loop->thick = true;
	}
	if (loop->has_position || loop->turned)
		begins = position_begins(loop, standing->at_head, releases && standing->innermost);
	loop->turned = false;
	bool repeats = false;
	if (begins)
		loop->seen.count = 0;
	if (!loop->has_position && alloc && !loop->thick && !standing->inner_loops &&
	        seen_before(loop, site)) {
		repeats = true;
		loop->seen.count = 0;
		seen_before(loop, site);
	}
	loop->iterations += begins;
	loop->thin_iterations += begins || repeats;
	/* It was left and entered again without events in between; its iterator may be at the same
	 * position as the previous one's. */
	bool named = begins || repeats || (around_began && !standing->at_head);
	loop->named_iterations += named;
	loop->events++;
	loop->last_lasti = standing->lasti;
	loop->last_inner = standing->inner;
	return named;
}

/* Counts the iterations with an update of the weights. */
static void note_update(struct followed *loop, uint32_t windows, bool begins)
{
	loop->updated &= !begins;
	if (loop->inside && !loop->updated && windows != loop->windows) {
		loop->updated = true;
		loop->updates++;
	}
	loop->windows = windows;
}

/* Counts the iterations with a backward pass, and those whose gradients are not used by one update
 * of their own. */
static void note_backward(
        struct gm_steps *steps, struct followed *loop, bool backward, bool opens, bool begins)
{
	loop->passed &= !begins;
	if (!backward)
		return;
	loop->uneven += opens == loop->passed;
	loop->passes += !loop->passed;
	/* the plan may depend on it */
	steps->changed |= !loop->passed && loop->passes == 2;
	loop->passed = true;
}

/* The known position of the iterator of a loop that an event is in. */
static void take_turn(
        struct gm_steps *steps, const struct known_loop *known, struct followed *loop, bool last)
{
	for (size_t i = 0; i < steps->turn_count; i++) {
		const struct turn turn = steps->turns[i];
		if (turn.code != known->code || turn.loop != known->loop)
			continue;
		/* The first time that its iterator is seen is not a move; neither is another
		 * thread's position in between. */
		bool has_position = turn.position != GM_LOG_NO_POSITION;
		loop->turned =
		        loop->has_position && !(has_position && turn.position == loop->position);
		loop->has_position = has_position;
		loop->position = turn.position;
		if (last)
			steps->turns[i] = steps->turns[--steps->turn_count];
		return;
	}
}

static bool reserve(struct gm_steps *steps, struct step_thread *thread)
{
	while (thread->followed.count < steps->known.count)
		if (!gm_array_push(&thread->followed, ((struct followed){0})))
			return false;
	return true;
}

bool gm_steps_feed_loops(struct gm_steps *steps, struct step_thread *thread,
        const struct summary *summary, const struct gm_step_event *event, bool made, bool last)
{
	/* Without a native stack, two allocations of one call cannot be distinguished from two
	 * calls. */
	uint64_t site = (uint64_t)event->python_stack << 32 | event->native_stack;
	uint64_t before = thread->fed++;
	if (!reserve(steps, thread))
		return false;
	steps->repeatable = true;
	bool began = false, moved = false;
	for (uint32_t i = gm_steps_first_loop(thread, summary); i < summary->count; i++) {
		const struct standing *standing = &summary->standing[i];
		struct followed *loop = &thread->followed.items[standing->known];
		if (loop->fed == thread->fed)
			continue; /* a recursive function: its outermost frame was used */
		/* A frame with other callers is another call: a library's loop that trains was
		 * left, and the same loop now evaluates. It was also left if the iterator of a loop
		 * around it has moved. A task's frames move. */
		loop->inside = before && loop->fed == before &&
		               (thread->task || (loop->callers == standing->callers && !moved));
		loop->callers = standing->callers;
		loop->fed = thread->fed;
		take_turn(steps, &steps->known.items[standing->known], loop, last);
		/* events at a loop's head are within the generator of its items, which continues */
		uint32_t iterations = loop->iterations;
		bool positioned = loop->has_position || loop->turned;
		bool begins = note_iteration(steps, loop, standing, event->python_stack, site, made,
		        event->releases, began);
		moved |= positioned && loop->iterations != iterations && !standing->at_head;
		note_update(loop, thread->windows, begins);
		note_backward(steps, loop, summary->landmarks & GM_LANDMARK_BACKWARD, thread->opens,
		        begins);
		began |= begins && !standing->at_head;
		steps->repeatable &= loop->thick;
	}
	return true;
}
