/*
 * Counting: which iteration an event is in, and which iterations form one step.
 *
 * Gradients accumulate over the backward passes until the optimizer uses them, or zero_grad() drops
 * them. If two iterations of one loop, each with a backward pass, have neither in between, they
 * belong to one update of the weights, which is one step. If a recording shows the optimizer only
 * sometimes (its state is allocated in its first step, and nothing marks the others), more
 * iterations than any update used remain open at the end: these are counted one by one.
 */
#include "model/step_count.h"

#include <stdlib.h>

#include "model/steps_internal.h"

static struct iteration *current(struct gm_steps *steps)
{
	return steps->step ? &steps->iterations.items[steps->step] : NULL;
}

static void consume(struct iteration *iteration, unsigned work)
{
	iteration->works |= (work & GM_STEP_WORK) != 0;
	if (work & GM_LANDMARK_BACKWARD) {
		iteration->backward = true;
		iteration->after = false;
	}
	if (work & GM_STEP_CONSUMES && iteration->backward)
		iteration->after = true;
	else if (work & GM_STEP_CONSUMES)
		iteration->before = true;
}

/* Gradients that a closure of the optimizer computes are used by the step() that calls it, and so
 * are those of the iterations before. */
static void consume_at(struct iteration *iteration, const struct summary *summary)
{
	consume(iteration, summary->landmarks);
	if (!summary->closure)
		return;
	iteration->begun = false;
	iteration->after |= iteration->backward;
}

void gm_steps_count_mark(struct gm_steps *steps, unsigned work)
{
	struct iteration *iteration = current(steps);
	if (!iteration)
		return;
	if (work & GM_LANDMARK_OPTIMIZER && !iteration->backward) {
		iteration->works = iteration->begun = true;
		work &= ~(unsigned)GM_LANDMARK_OPTIMIZER;
	}
	consume(iteration, work);
	steps->consumed |= iteration->after;
}

static void begin(struct gm_steps *steps, uint32_t loop, bool follows)
{
	if (!steps->iterations.count)
		gm_array_push(&steps->iterations, ((struct iteration){0}));
	const struct iteration fresh = {.loop = (uint8_t)loop, .follows = follows};
	if (gm_array_push(&steps->iterations, fresh))
		steps->step = (uint32_t)steps->iterations.count - 1;
	steps->consumed = false;
}

/* Is the stack within the innermost function around the work? */
static bool in_unit(const struct gm_steps *steps, const struct summary *summary)
{
	for (uint32_t i = 0; i < summary->place_count; i++)
		if (summary->places[i].code == steps->plan.unit)
			return true;
	return false;
}

/*
 * No loop is around the work: a step ends with the update of the weights, and the next begins with
 * the following event. The first begins with the work, or with its function if that is called once
 * for each step.
 */
static void count_updates(struct gm_steps *steps, const struct summary *summary)
{
	bool zeroes = summary->landmarks & GM_LANDMARK_ZERO_GRAD;
	if (!in_unit(steps, summary)) {
		steps->consumed |= steps->step != 0 && steps->plan.unit_called;
		steps->step = 0;
		return;
	}
	bool updates = summary->landmarks & GM_LANDMARK_OPTIMIZER ||
	               (zeroes && !steps->begins_by_zero_grad);
	bool first = steps->iterations.count == 0;
	if (first && !steps->plan.unit_called && !summary->landmarks)
		return;
	if (first || (steps->consumed && !updates)) {
		begin(steps, 0, false);
		steps->begins_by_zero_grad = first ? zeroes : steps->begins_by_zero_grad;
	} else if (!steps->step) {
		steps->step = (uint32_t)steps->iterations.count - 1;
	}
	consume(current(steps), summary->landmarks);
	steps->consumed |= current(steps)->after;
}

/* An update directly after an iteration, outside of the loop, uses that iteration's gradients and
 * belongs to it. */
static void count_update_behind(
        struct gm_steps *steps, uint32_t latest, const struct summary *summary)
{
	const unsigned other = GM_LANDMARK_BACKWARD | GM_LANDMARK_MODULE;
	if (!latest || !steps->iterations.items[latest].backward ||
	        !(summary->landmarks & GM_STEP_CONSUMES) || summary->landmarks & other)
		return;
	steps->step = latest;
	consume_at(current(steps), summary);
}

static void count_loops(
        struct gm_steps *steps, struct step_thread *thread, const struct summary *summary)
{
	uint32_t latest = steps->step;
	steps->step = 0;
	/* the plan's loops are not nested: a thread is in at most one, the innermost where that
	 * changes */
	for (uint32_t i = 0; i < steps->plan.loop_count; i++) {
		const struct gm_step_loop *loop = &steps->plan.loops[i];
		for (uint32_t j = 0; j < summary->count; j++) {
			const struct known_loop *known =
			        &steps->known.items[summary->standing[j].known];
			if (known->code != loop->code || known->loop != loop->loop)
				continue;
			struct followed *followed =
			        gm_steps_followed(thread, summary->standing[j].known);
			uint32_t iterations = steps->plan.rule == GM_STEPS_CHOSEN
			                              ? followed->named_iterations
			                      : loop->thin ? followed->thin_iterations
			                                   : followed->iterations;
			for (; followed->counted < iterations; followed->counted++)
				begin(steps, i, followed->inside);
			followed->iteration = steps->step ? steps->step : followed->iteration;
			steps->step = followed->iteration;
			if (current(steps))
				consume_at(current(steps), summary);
			return;
		}
	}
	count_update_behind(steps, latest, summary);
}

void gm_steps_count(
        struct gm_steps *steps, struct step_thread *thread, const struct summary *summary)
{
	switch (steps->plan.rule) {
	case GM_STEPS_NOT_FOUND:
		steps->step = 0;
		break;
	case GM_STEPS_UPDATES:
		count_updates(steps, summary);
		break;
	case GM_STEPS_ONE_CALL:
		if (!(summary->landmarks & GM_LANDMARK_MODULE))
			steps->step = 0;
		else if (!steps->iterations.count)
			begin(steps, 0, false);
		else
			steps->step = 1;
		break;
	default:
		count_loops(steps, thread, summary);
	}
	steps->entered |= steps->step != 0;
}

uint32_t gm_steps_iteration_count(const struct gm_steps *steps)
{
	return steps->iterations.count ? (uint32_t)steps->iterations.count - 1 : 0;
}

uint32_t gm_steps_loop_of_iteration(const struct gm_steps *steps, uint32_t iteration)
{
	return iteration < steps->iterations.count ? steps->iterations.items[iteration].loop : 0;
}

/* Which loops of the plan have an iteration that follows another without leaving the loop: bit i
 * for loop i. A snapshot's lines make a loop of a function that is called once in each iteration of
 * the real one; it is left after each. */
static uint64_t continued_loops(const struct gm_steps *steps)
{
	uint64_t loops = 0;
	for (size_t i = 1; i < steps->iterations.count; i++)
		if (steps->iterations.items[i].follows)
			loops |= UINT64_C(1) << steps->iterations.items[i].loop;
	return loops;
}

/* Do gradients accumulate over an iteration and the previous one? */
static bool adds_up(const struct iteration *iteration, uint64_t continued)
{
	bool follows = iteration->follows || (iteration->loop == iteration[-1].loop &&
	                                             !(continued >> iteration->loop & 1));
	return follows && iteration->backward && iteration[-1].backward && !iteration[-1].after &&
	       !iteration->before && !iteration->begun;
}

/*
 * A library's loop may train when it is entered from one place and evaluate when it is entered from
 * another. Marks the iterations of each entry that has no backward pass, if others have one: they
 * are not steps. `goes_on`: the last iteration may have a backward pass later.
 */
static void mark_evaluations(const struct gm_steps *steps, bool goes_on, uint32_t *ret_marks)
{
	const struct iteration *items = steps->iterations.items;
	uint32_t count = gm_steps_iteration_count(steps);
	bool known =
	        steps->plan.rule == GM_STEPS_AROUND_WORK && steps->plan.work & GM_LANDMARK_BACKWARD;
	for (uint32_t first = 1, last; first <= count; first = last + 1) {
		bool trains = items[first].backward;
		for (last = first; last < count && items[last + 1].follows;)
			trains |= items[++last].backward;
		for (uint32_t i = first; i <= last; i++)
			ret_marks[i] = known && !trains && !(goes_on && first == count);
	}
}

uint32_t gm_steps_of_iterations(const struct gm_steps *steps, bool goes_on, uint32_t *ret_steps)
{
	const struct iteration *items = steps->iterations.items;
	uint32_t count = gm_steps_iteration_count(steps), longest = 1, step = 0;
	bool updates = steps->plan.rule == GM_STEPS_UPDATES;
	bool works = steps->plan.rule == GM_STEPS_AROUND_WORK;
	uint64_t continued = continued_loops(steps);
	ret_steps[0] = 0;
	mark_evaluations(steps, goes_on, ret_steps);
	/* the most that an update used */
	for (uint32_t i = 1, first = 1; i <= count; i++) {
		first = i > 1 && adds_up(&items[i], continued) ? first : i;
		if (items[i].after && i - first + 1 > longest)
			longest = i - first + 1;
	}
	for (uint32_t first = 1, last; first <= count; first = last + 1) {
		for (last = first; last < count && adds_up(&items[last + 1], continued);)
			last++;
		/* it was closed by the optimizer, or by zero_grad() at the beginning of the next */
		bool closed = items[last].after ||
		              (last < count && (items[last + 1].before || items[last + 1].begun));
		bool one = closed || last - first + 1 <= longest;
		/* an iteration without work is not a step: a batch that is skipped, or the end of
		 * the iterator; the current one may have work later */
		bool none = first == last && !(goes_on && last == count) &&
		            ((updates && !items[first].backward) ||
		                    (works && !items[first].works) || ret_steps[first]);
		for (uint32_t i = first; i <= last; i++) {
			step += !none && (i == first || !one);
			ret_steps[i] = none ? 0 : step;
		}
	}
	return step;
}
