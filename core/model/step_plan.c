/*
 * The plan: which loops have the steps.
 *
 * Every stack of a thread is a context: the loops that it is in, from the outermost in, and the
 * work on it (a module's call, backward, the optimizer). Equal contexts are merged. A loop *covers*
 * the wanted work if the contexts within it have all of it together.
 *
 *   1. The wanted work is all work of the thread. If no loop covers it, the modules are left out
 *      (they may be called only before the loop); without an optimizer, it is backward or the
 *      modules alone.
 *   2. The innermost loops that cover it have the steps. There may be several, one after the
 *      other: phases of a training.
 *   3. A loop around those has them instead, if its own contexts, without theirs, cover the work
 *      too: its iterations train more than theirs (the generator of a GAN, after an inner loop
 *      that trains the critic).
 *   4. A loop that iterates about once each time it is entered
 *      (`for attempt in range(3): try: ...; break`) repeats a step, and does not count; unless
 *      the surrounding loop repeats a training until it fits.
 *   5. A loop does not count either if a loop around it has one update of the weights in each
 *      iteration (`for update in range(n): batches = fetch(); for batch in batches: ...`): its
 *      iterations accumulate the gradients of that update.
 *   6. If only modules are called, a library's loops count only if the program has none of its
 *      own.
 *   7. Backward passes outside of all these are considered again, separately: a phase without
 *      the optimizer.
 *   8. If no loop covers the work, or one iteration has several updates from one place
 *      (`list(map(step, batches))`), each update of the weights ends a step; if a single place
 *      calls a module, that is one step.
 *   9. If there is no work at all (no modules, no autograd), it is the outermost loop of the
 *      outermost function.
 *
 * Threads are considered one by one, and so are the tasks of a thread if several are in one loop at
 * the same time. The steps are those of the one that does most: the optimizer counts before
 * backward, backward before modules, then more iterations.
 */
#include "model/step_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "model/step_sight.h"

static bool covers(const struct step_sight *sight, uint32_t loop, unsigned wanted)
{
	return !sight->ignored[loop] && (gm_sight_work_in(sight, loop, NULL) & wanted) == wanted;
}

/*
 * Does a loop iterate about once for each iteration of a surrounding loop that covers the work as
 * well? If one iteration of that has several updates of the weights, which the others do not reach,
 * the surrounding loop repeats instead (a smaller batch after each out-of-memory error).
 */
static bool repeats(const struct step_sight *sight, uint32_t loop, unsigned wanted)
{
	uint64_t iterations = gm_sight_iterations(sight, loop);
	uint64_t updates = gm_sight_updates(sight, loop);
	for (uint32_t outer = 0; outer < sight->steps->known.count; outer++) {
		uint64_t around = gm_sight_iterations(sight, outer);
		bool once = 2 * iterations < 3 * around &&
		            (updates < 2 || updates < 2ul * gm_sight_updates(sight, outer));
		if (around > 1 && once && gm_sight_is_within(sight, loop, outer) &&
		        covers(sight, outer, wanted))
			return true;
	}
	return false;
}

/*
 * Does a surrounding loop that covers the work as well have one update of the weights in each
 * iteration, with the gradients of several iterations of this one? Then its iterations are the
 * steps, with all that they do outside of this loop: they may fetch the micro-batches before it. A
 * few exceptions are allowed, as an update may be left out (an overflow).
 */
static bool accumulates_in(
        const struct step_sight *sight, uint32_t loop, uint32_t outer, unsigned wanted)
{
	const struct followed *followed = gm_steps_followed(sight->thread, outer);
	return followed && followed->passes > 1 && 4ul * followed->uneven < followed->passes &&
	       gm_sight_iterations(sight, loop) > followed->iterations &&
	       gm_sight_is_within(sight, loop, outer) && covers(sight, outer, wanted);
}

static bool accumulates(const struct step_sight *sight, uint32_t loop, unsigned wanted)
{
	for (uint32_t outer = 0; outer < sight->steps->known.count; outer++)
		if (accumulates_in(sight, loop, outer, wanted))
			return true;
	return false;
}

/* Does a loop within it accumulate the gradients of each iteration's update? */
static bool has_updates(const struct step_sight *sight, uint32_t loop, unsigned wanted)
{
	for (uint32_t inner = 0; inner < sight->steps->known.count; inner++)
		if (covers(sight, inner, wanted) && accumulates_in(sight, inner, loop, wanted))
			return true;
	return false;
}

/* Marks in `chosen` the loops that have the steps, for this wanted work; false: there are none. */
static bool choose(struct step_sight *sight, unsigned wanted)
{
	uint32_t count = (uint32_t)sight->steps->known.count;
	_cleanup_free_ uint8_t *covering = calloc(count + 1u, 1);
	bool own = false, found = false;
	if (!covering || !wanted)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		covering[i] = covers(sight, i, wanted);
		own |= covering[i] && !sight->steps->known.items[i].library;
	}
	for (uint32_t i = 0; i < count; i++) {
		bool foreign =
		        wanted == GM_LANDMARK_MODULE && own && sight->steps->known.items[i].library;
		if (!covering[i])
			continue;
		/* an epoch may have a single update */
		bool once = repeats(sight, i, wanted) && !has_updates(sight, i, wanted);
		covering[i] = !foreign && !once && !accumulates(sight, i, wanted);
	}
	for (uint32_t i = 0; i < count; i++) {
		bool innermost = covering[i];
		for (uint32_t j = 0; innermost && j < count; j++)
			innermost = !(covering[j] && gm_sight_is_within(sight, j, i));
		if (covering[i] &&
		        (innermost || (gm_sight_work_in(sight, i, covering) & wanted) == wanted))
			sight->chosen[i] = found = true;
	}
	/* of nested ones the outermost */
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t j = 0; sight->chosen[i] && j < count; j++)
			if (sight->chosen[j] && gm_sight_is_within(sight, i, j))
				sight->chosen[i] = 0;
	return found;
}

/* The first kind of wanted work that some loop covers; 0: none is covered. */
static unsigned choose_work(struct step_sight *sight)
{
	unsigned all = sight->work, training = all & ~(unsigned)GM_LANDMARK_MODULE;
	if (choose(sight, all))
		return all;
	if (choose(sight, training))
		return training;
	return 0;
}

/* Backward passes in no chosen loop, and in none around those: a separate phase. */
static void choose_outside(struct step_sight *sight)
{
	uint32_t count = (uint32_t)sight->steps->known.count;
	struct step_sight rest = {.steps = sight->steps, .thread = sight->thread};
	rest.ignored = calloc(count + 1u, 1);
	rest.chosen = calloc(count + 1u, 1);
	for (uint32_t i = 0; rest.ignored && i < count; i++)
		for (uint32_t j = 0; j < count; j++)
			rest.ignored[i] |=
			        sight->chosen[j] && (i == j || gm_sight_is_within(sight, j, i));
	for (size_t i = 0; rest.ignored && rest.chosen && i < sight->contexts.count; i++) {
		const struct step_context *context = &sight->contexts.items[i];
		bool covered = false;
		for (uint32_t j = 0; j < context->count; j++)
			covered |= sight->chosen[context->standing[j].known];
		if (!covered && gm_array_push(&rest.contexts, *context))
			rest.work |= context->work;
	}
	if (rest.ignored && rest.chosen && rest.work & GM_LANDMARK_BACKWARD && choose_work(&rest))
		for (uint32_t i = 0; i < count; i++)
			sight->chosen[i] |= rest.chosen[i];
	gm_sight_deinit(&rest);
}

static void put_loops(const struct step_sight *sight, struct gm_step_plan *plan)
{
	for (uint32_t i = 0; i < sight->steps->known.count; i++) {
		const struct known_loop *known = &sight->steps->known.items[i];
		const struct followed *followed = gm_steps_followed(sight->thread, i);
		if (!sight->chosen[i] || plan->loop_count == GM_STEP_LOOPS_CHOSEN)
			continue;
		bool trains = gm_sight_work_in(sight, i, NULL) &
		              (GM_LANDMARK_BACKWARD | GM_LANDMARK_OPTIMIZER);
		plan->loops[plan->loop_count++] = (struct gm_step_loop){known->code, known->loop,
		        known->line, followed && !followed->thick && !trains};
	}
}

/* The innermost place of a function on a stack, plus 1; 0: it is not on the stack. */
static uint32_t place_of(const struct summary *summary, uint32_t code)
{
	uint32_t i = summary->place_count;
	while (i > 0 && summary->places[i - 1].code != code)
		i--;
	return i;
}

/* Is a function around all backward passes and updates, and around part of the other wanted work?
 * */
static bool is_around(const struct step_sight *sight, uint32_t code, unsigned wanted)
{
	const struct summary *summary;
	unsigned work = 0;
	for (uint32_t stack = 0; (summary = gm_sight_next_stack(sight, &stack));) {
		if (place_of(summary, code))
			work |= summary->landmarks;
		else if (summary->landmarks & (GM_LANDMARK_BACKWARD | GM_LANDMARK_OPTIMIZER))
			return false;
	}
	return (work & wanted) == wanted;
}

/* The innermost function around the work, if there is no loop; 0 if there is none. */
static uint32_t find_unit(const struct step_sight *sight)
{
	const struct summary *summary = NULL;
	uint32_t stack = 0;
	do
		summary = gm_sight_next_stack(sight, &stack);
	while (summary && !(summary->landmarks & (GM_LANDMARK_BACKWARD | GM_LANDMARK_OPTIMIZER)));
	unsigned module = sight->work & GM_LANDMARK_MODULE;
	for (unsigned wanted = module;; wanted = 0) {
		for (uint32_t i = summary ? summary->place_count : 0; i-- > 0;)
			if (is_around(sight, summary->places[i].code, wanted))
				return summary->places[i].code;
		if (!wanted)
			return 0;
	}
}

/* Is the function around the work called again for each update? Then the same place in it, outside
 * of any loop, runs again. */
static bool is_called_again(const struct step_sight *sight, uint32_t unit)
{
	enum { PLACES_MAX = 16 };
	uint32_t count = 0, seen[PLACES_MAX], stack = 0;
	const struct summary *summary;
	while ((summary = gm_sight_next_stack(sight, &stack))) {
		uint32_t place = place_of(summary, unit), i = 0;
		if (!place || !(summary->landmarks & GM_LANDMARK_BACKWARD))
			continue;
		while (i < count && seen[i] != summary->places[place - 1].lasti)
			i++;
		if (i == count && count < PLACES_MAX)
			seen[count++] = summary->places[place - 1].lasti;
	}
	return count && sight->thread->windows > count;
}

/* Is there a single place that calls a module from outside of any loop? */
static bool has_one_call(const struct step_sight *sight)
{
	const struct summary *summary;
	uint64_t call = 0;
	for (uint32_t stack = 0; (summary = gm_sight_next_stack(sight, &stack));) {
		if (call && summary->call && summary->call != call)
			return false;
		call = summary->call ? summary->call : call;
	}
	return call != 0;
}

/* Without work: the outermost loop of the outermost function that has one. */
static void choose_outermost(struct step_sight *sight, struct gm_step_plan *plan)
{
	uint32_t best = UINT32_MAX;
	for (uint32_t i = 0; i < sight->steps->known.count; i++) {
		const struct known_loop *a = &sight->steps->known.items[i], *b;
		const struct followed *followed = gm_steps_followed(sight->thread, i);
		if (!a->candidate || !followed || !followed->iterations)
			continue;
		b = best == UINT32_MAX ? NULL : &sight->steps->known.items[best];
		if (!b || a->depth < b->depth ||
		        (a->depth == b->depth && a->nesting < b->nesting) ||
		        (a->depth == b->depth && a->nesting == b->nesting &&
		                followed->events > gm_steps_followed(sight->thread, best)->events))
			best = i;
	}
	if (best == UINT32_MAX)
		return;
	sight->chosen[best] = 1;
	plan->rule = GM_STEPS_OUTERMOST;
	put_loops(sight, plan);
}

/* The way from a chosen loop to a backward pass, as a hash: where each function that is called
 * stands. Of a recursive one the first call counts. */
static uint64_t way_to(const struct summary *summary)
{
	uint32_t first = summary->count ? summary->standing[summary->count - 1].depth : 0;
	uint64_t way = 1;
	for (uint32_t i = first; i < summary->place_count; i++) {
		const struct place *place = &summary->places[i];
		uint32_t j = first;
		while (summary->places[j].code != place->code ||
		        summary->places[j].lasti != place->lasti)
			j++;
		if (j == i)
			way = gm_hash_mix(way ^ ((uint64_t)place->code << 32 | place->lasti));
	}
	return way;
}

/* The number of ways to a backward pass in the chosen loops: a function that two lines call to do
 * it has two. 0: some are repeated, by an inner loop or by an optimizer that calls a closure. */
static uint32_t count_backward(const struct step_sight *sight)
{
	enum { WAYS_MAX = 16 };
	const struct summary *summary;
	uint32_t count = 0;
	uint64_t seen[WAYS_MAX];
	for (uint32_t stack = 0; (summary = gm_sight_next_stack(sight, &stack));) {
		uint32_t i = 0;
		if (!(summary->landmarks & GM_LANDMARK_BACKWARD) || !summary->place_count)
			continue;
		bool within = summary->count &&
		              !sight->chosen[summary->standing[summary->count - 1].known];
		if (within || summary->closure)
			return 0;
		uint64_t way = way_to(summary);
		while (i < count && seen[i] != way)
			i++;
		if (i == count && count < WAYS_MAX)
			seen[count++] = way;
	}
	return count;
}

/* Do the chosen loops iterate as often as the weights are updated in one way? */
static bool go_round(const struct step_sight *sight)
{
	uint64_t iterations = 0, windows = sight->thread->windows;
	for (uint32_t i = 0; i < sight->steps->known.count; i++)
		iterations += sight->chosen[i] ? gm_sight_iterations(sight, i) : 0;
	uint32_t ways = count_backward(sight);
	return windows < 2 || (iterations > 1 && (!ways || 2 * windows <= 3 * iterations * ways));
}

static void plan_thread(struct step_sight *sight, struct gm_step_plan *plan)
{
	const unsigned trains = GM_LANDMARK_BACKWARD | GM_LANDMARK_OPTIMIZER;
	plan->thread = sight->thread->id;
	plan->outermost = sight->thread->outermost;
	plan->task = sight->thread->task;
	plan->work = choose_work(sight);
	if (plan->work & trains && !go_round(sight)) {
		memset(sight->chosen, 0, sight->steps->known.count);
		plan->work = 0;
	}
	if (plan->work) {
		if (plan->work & trains)
			choose_outside(sight);
		plan->rule = GM_STEPS_AROUND_WORK;
		for (uint32_t i = 0; i < sight->steps->known.count; i++)
			plan->accumulates |=
			        covers(sight, i, plan->work) && accumulates(sight, i, plan->work);
		put_loops(sight, plan);
	} else if (sight->work & trains && (plan->unit = find_unit(sight))) {
		plan->rule = GM_STEPS_UPDATES;
		plan->work = sight->work;
		plan->unit_called = is_called_again(sight, plan->unit);
	} else if (!(sight->work & trains) && has_one_call(sight)) {
		plan->rule = GM_STEPS_ONE_CALL;
		plan->work = sight->work;
	} else if (!sight->work) {
		choose_outermost(sight, plan);
	}
}

bool gm_step_plan_has(const struct gm_step_plan *plan, uint32_t code, uint32_t loop)
{
	for (uint32_t i = 0; i < plan->loop_count; i++)
		if (plan->loops[i].code == code && plan->loops[i].loop == loop)
			return true;
	return false;
}

static uint32_t count_steps(const struct step_sight *sight, const struct gm_step_plan *plan)
{
	uint32_t count = plan->rule == GM_STEPS_UPDATES ? sight->thread->windows : 0;
	for (uint32_t i = 0; i < sight->steps->known.count; i++)
		count += sight->chosen[i] ? gm_sight_iterations(sight, i) : 0;
	return count;
}

/* A thread that updates weights of whose gradients it computes none only helps another thread:
 * hooks that the autograd thread calls (register_post_accumulate_grad_hook). */
static bool helps(const struct gm_steps *steps, unsigned work)
{
	return steps->landmarks & ~work & GM_LANDMARK_BACKWARD;
}

static int weight(const struct gm_steps *steps, const struct gm_step_plan *plan)
{
	const unsigned trains = GM_LANDMARK_BACKWARD | GM_LANDMARK_OPTIMIZER;
	return plan->rule == GM_STEPS_NOT_FOUND                  ? 0
	       : plan->work & trains && helps(steps, plan->work) ? 2
	       : plan->work & GM_LANDMARK_OPTIMIZER              ? 4
	       : plan->work & GM_LANDMARK_BACKWARD               ? 3
	       : plan->work & GM_LANDMARK_MODULE                 ? 2
	                                                         : 1;
}

/* The plan of a thread or a task, and how many steps it has. */
static struct gm_step_plan plan_of(
        const struct gm_steps *steps, const struct step_thread *thread, uint32_t *ret_count)
{
	struct step_sight sight;
	struct gm_step_plan plan = {.modules = steps->modules};
	*ret_count = 0;
	if (gm_sight_init(&sight, steps, thread)) {
		plan_thread(&sight, &plan);
		*ret_count = count_steps(&sight, &plan);
	}
	gm_sight_deinit(&sight);
	return plan;
}

static bool is_better(const struct gm_steps *steps, const struct gm_step_plan *plan, uint32_t count,
        const struct gm_step_plan *best, uint32_t best_count)
{
	return weight(steps, plan) > weight(steps, best) ||
	       (weight(steps, plan) == weight(steps, best) && count > best_count);
}

/* Are several tasks of a thread in one loop at the same time? */
static bool are_tasks_apart(const struct step_thread *thread)
{
	for (size_t i = 0; i < thread->followed.count; i++)
		if (thread->followed.items[i].shared)
			return true;
	return false;
}

/* If a thread's tasks alternate in one loop, the steps are those of the task that does most. False:
 * they do not, or the loop has no steps. */
static bool plan_tasks(const struct gm_steps *steps, const struct step_thread *thread,
        struct gm_step_plan *plan, uint32_t *count)
{
	struct gm_step_plan best = {0};
	uint32_t best_count = 0, others = 0;
	if (thread->task || !are_tasks_apart(thread))
		return false;
	for (size_t i = 0; i < steps->threads.count; i++) {
		const struct step_thread *task = &steps->threads.items[i];
		uint32_t steps_of_task;
		if (!task->task || task->id != thread->id)
			continue;
		const struct gm_step_plan one = plan_of(steps, task, &steps_of_task);
		bool shared = false;
		for (uint32_t j = 0; one.loop_count && j < steps->known.count; j++)
			shared |= gm_step_plan_has(&one, steps->known.items[j].code,
			                  steps->known.items[j].loop) &&
			          j < thread->followed.count && thread->followed.items[j].shared;
		if (!shared)
			continue;
		others += weight(steps, &one) > 2;
		if (is_better(steps, &one, steps_of_task, &best, best_count)) {
			best = one;
			best_count = steps_of_task;
		}
	}
	if (!best.loop_count)
		return false;
	best.other_tasks = others - (weight(steps, &best) > 2);
	*plan = best;
	*count = best_count;
	return true;
}

void gm_steps_plan(struct gm_steps *steps, struct gm_step_plan *ret_plan)
{
	struct gm_step_plan best = {.modules = steps->modules};
	uint32_t best_count = 0, others = 0;
	for (size_t i = 0; i < steps->threads.count; i++) {
		const struct step_thread *thread = &steps->threads.items[i];
		uint32_t count = 0;
		if (thread->task)
			continue;
		struct gm_step_plan plan = plan_of(steps, thread, &count);
		/* without work, only the first thread's loops are taken for the program's */
		if (plan.rule == GM_STEPS_OUTERMOST && i)
			continue;
		plan_tasks(steps, thread, &plan, &count);
		others += weight(steps, &plan) > 2;
		if (is_better(steps, &plan, count, &best, best_count)) {
			best = plan;
			best_count = count;
		}
	}
	best.others = others - (weight(steps, &best) > 2);
	steps->changed = false;
	*ret_plan = best;
}
