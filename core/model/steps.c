#include "model/steps.h"

#include <stdlib.h>
#include <string.h>

#include "model/steps_internal.h"

enum { RUNNING_MAX = 1024 }; /* most threads with tasks */

enum { THREADS_MAX = 256 };

struct gm_steps *gm_steps_create(gm_step_frames frames, void *context)
{
	struct gm_steps *steps = calloc(1, sizeof(*steps));
	if (!steps)
		return NULL;
	steps->frames = frames;
	steps->context = context;
	return steps;
}

void gm_steps_destroy(struct gm_steps *steps)
{
	if (!steps)
		return;
	for (size_t i = 0; i < steps->threads.count; i++) {
		struct step_thread *thread = &steps->threads.items[i];
		for (size_t j = 0; j < thread->followed.count; j++)
			gm_array_deinit(&thread->followed.items[j].seen);
		gm_array_deinit(&thread->followed);
		gm_array_deinit(&thread->seen);
	}
	gm_array_deinit(&steps->threads);
	gm_array_deinit(&steps->running);
	gm_array_deinit(&steps->iterations);
	gm_steps_free_summaries(steps);
	free(steps);
}

void gm_steps_fix(struct gm_steps *steps, const struct gm_step_plan *plan)
{
	steps->fixed = true;
	steps->plan = *plan;
}

static bool is_of(const struct step_thread *thread, uint64_t id, uint32_t outermost)
{
	return thread->task == 0 && thread->id == id && (id || thread->outermost == outermost);
}

/* The thread with such an outermost frame, which waits in backward(); NULL: there is none, or
 * several. */
static struct step_thread *waiting_thread(
        struct gm_steps *steps, uint32_t outermost, uint32_t *ret_count)
{
	struct step_thread *found = NULL;
	*ret_count = 0;
	for (size_t i = 0; i < steps->threads.count; i++) {
		if (steps->threads.items[i].outermost != outermost || steps->threads.items[i].task)
			continue;
		found = &steps->threads.items[i];
		++*ret_count;
	}
	return *ret_count == 1 ? found : NULL;
}

/* NULL: there are too many, or no memory. */
static struct step_thread *thread_of(
        struct gm_steps *steps, const struct gm_step_event *event, uint32_t outermost)
{
	if (steps->near < steps->threads.count &&
	        is_of(&steps->threads.items[steps->near], event->thread, outermost))
		return &steps->threads.items[steps->near];
	for (size_t i = 0; i < steps->threads.count; i++) {
		if (!is_of(&steps->threads.items[i], event->thread, outermost))
			continue;
		steps->near = i;
		return &steps->threads.items[i];
	}
	const struct step_thread fresh = {.id = event->thread, .outermost = outermost};
	if (steps->threads.count == THREADS_MAX || !gm_array_push(&steps->threads, fresh))
		return NULL;
	steps->near = steps->threads.count - 1;
	return &steps->threads.items[steps->near];
}

static bool belongs_to_plan(const struct gm_steps *steps, const struct step_thread *thread)
{
	return steps->plan.task ? thread->task == steps->plan.task
	                        : is_of(thread, steps->plan.thread, steps->plan.outermost);
}

/* The thread is the plan's, and runs another of its tasks. */
static bool runs_another_task(const struct gm_steps *steps, const struct step_thread *thread)
{
	return steps->plan.task && thread->id == steps->plan.thread;
}

static bool is_in_plan(const struct gm_steps *steps, const struct summary *summary)
{
	for (uint32_t i = 0; i < summary->count; i++) {
		const struct known_loop *known = &steps->known.items[summary->standing[i].known];
		if (gm_step_plan_has(&steps->plan, known->code, known->loop))
			return true;
	}
	return false;
}

/* Only one task trains, and the plan's thread runs another, which does no work. */
static bool runs_idle_task(
        struct gm_steps *steps, const struct step_thread *thread, const struct summary *summary)
{
	const struct running *running =
	        steps->running.count ? gm_steps_running(steps, thread->id) : NULL;
	if (!running || !steps->plan.loop_count)
		return false;
	if (is_in_plan(steps, summary))
		steps->loop_task = running->task;
	return steps->loop_task && running->task != steps->loop_task && !summary->landmarks &&
	       !summary->generation;
}

/* Counts how often gradients were created and later used. */
static void count_windows(struct step_thread *thread, unsigned work)
{
	thread->opens = work & GM_LANDMARK_BACKWARD && !thread->works;
	if (work & GM_LANDMARK_BACKWARD)
		thread->works = true;
	/* a closure of the optimizer is within it */
	if (work & GM_STEP_CONSUMES && !(work & GM_LANDMARK_BACKWARD) && thread->works) {
		thread->works = false;
		thread->windows++;
	}
}

static void count_repeated(struct gm_steps *steps)
{
	if (!steps->repeated)
		return;
	struct step_thread *thread = &steps->threads.items[steps->near];
	for (size_t i = 0; i < thread->followed.count; i++)
		if (thread->followed.items[i].fed == thread->fed)
			thread->followed.items[i].events += steps->repeated;
	steps->repeated = 0;
}

/* Marks between two events of a thread belong to the loops that both are in. */
static bool place_marks(struct gm_steps *steps, struct step_thread *thread, struct summary *now)
{
	const struct summary *before =
	        thread->latest_stack ? &steps->summaries.items[thread->latest_stack] : NULL;
	uint32_t common = 0;
	while (before && common < before->count && common < now->count &&
	        before->standing[common].known == now->standing[common].known)
		common++;
	if (!now->marked && !(now->marked = calloc(now->count + 1u, 1)))
		return false;
	steps->changed |= (now->marked[common] | thread->pending) != now->marked[common];
	now->marked[common] |= (uint8_t)thread->pending;
	thread->pending = 0;
	return true;
}

/* A new stack of a thread may change which loops belong to it. */
static bool see(struct gm_steps *steps, struct step_thread *thread, uint32_t stack)
{
	while (thread->seen.count <= stack / 8)
		if (!gm_array_push(&thread->seen, (uint8_t)0))
			return false;
	uint8_t bit = (uint8_t)(1u << (stack & 7));
	steps->changed |= !(thread->seen.items[stack / 8] & bit);
	thread->seen.items[stack / 8] |= bit;
	return true;
}

bool gm_steps_heeds_allocations(const struct gm_steps *steps)
{
	if (!steps->fixed)
		return true;
	for (uint32_t i = 0; i < steps->plan.loop_count; i++)
		if (steps->plan.loops[i].thin)
			return true;
	return false;
}

/* Several threads are in such frames, and it was not recorded which of them waits: then its
 * backward belongs to all of their loops, and shows no iteration. */
static void see_in_all(struct gm_steps *steps, const struct summary *summary, uint32_t stack)
{
	for (size_t i = 0; i < steps->threads.count; i++) {
		struct step_thread *thread = &steps->threads.items[i];
		if (thread->outermost == summary->outermost && see(steps, thread, stack))
			thread->landmarks |= summary->landmarks;
	}
}

/* The task of the event, if its thread runs one: it has loops of its own. False: out of memory. */
static bool feed_task(struct gm_steps *steps, const struct gm_step_event *event,
        struct summary *summary, bool made, struct step_thread **thread)
{
	const struct running *running = gm_steps_running(steps, event->thread);
	bool wanted = !steps->fixed || (running && running->task == steps->plan.task);
	struct step_thread *task = running && wanted ? gm_steps_task_of(steps, (*thread)->id,
	                                                       running, summary->outermost)
	                                             : NULL;
	/* the array of threads may have grown */
	*thread = &steps->threads.items[steps->near];
	if (!task)
		return true;
	if (!see(steps, task, event->python_stack) ||
	        (task->pending && !place_marks(steps, task, summary)))
		return false;
	task->landmarks |= summary->landmarks;
	count_windows(task, summary->landmarks);
	gm_steps_share_loops(*thread, task, summary);
	if (!gm_steps_feed_loops(steps, task, summary, event, made, false))
		return false;
	task->latest_stack = event->python_stack;
	if (steps->fixed)
		*thread = task;
	return true;
}

/* Two events with the same stack mean the same as one, except allocations, which may be iterations
 * of a thin loop. Returns the thread whose latest event may be repeated; NULL: none can. */
static const struct step_thread *repeatable(const struct gm_steps *steps)
{
	const struct step_thread *near =
	        steps->near < steps->threads.count ? &steps->threads.items[steps->near] : NULL;
	bool may = near && near->latest_stack && near->latest == steps->fed && !near->pending &&
	           !steps->turn_count;
	return may ? near : NULL;
}

static bool heeds(const struct gm_steps *steps)
{
	return !steps->repeatable && gm_steps_heeds_allocations(steps);
}

/* An event whose stack may be relevant: its summary, and its thread (NULL: one that is not
 * followed). NULL: not relevant. */
static const struct summary *feed(
        struct gm_steps *steps, const struct gm_step_event *event, struct step_thread **ret_thread)
{
	bool made = event->allocates && !event->borrowed && event->native_stack;
	uint32_t stack = event->python_stack;
	const struct step_thread *near = repeatable(steps);
	*ret_thread = NULL;
	if (near && stack == near->latest_stack && (near->id == event->thread || event->borrowed) &&
	        (!made || !heeds(steps))) {
		steps->repeated++;
		return NULL;
	}
	struct summary *summary = stack ? gm_steps_summary(steps, stack) : NULL;
	if (!summary)
		return NULL;
	count_repeated(steps);
	uint32_t waiting = 0;
	struct step_thread *thread =
	        event->borrowed ? waiting_thread(steps, summary->outermost, &waiting) : NULL;
	if (waiting > 1) {
		see_in_all(steps, summary, stack);
		return summary;
	}
	if (!thread)
		thread = thread_of(steps, event, summary->outermost);
	if (thread && !see(steps, thread, stack))
		return NULL;
	if (thread && thread->pending && !place_marks(steps, thread, summary))
		return NULL;
	*ret_thread = thread;
	if (!thread)
		return summary;
	steps->near = (size_t)(thread - steps->threads.items);
	steps->modules |= summary->phase == GM_PHASE_FORWARD;
	steps->landmarks |= summary->landmarks;
	if (steps->running.count && !feed_task(steps, event, summary, made, ret_thread))
		return NULL;
	thread = &steps->threads.items[steps->near];
	thread->landmarks |= summary->landmarks;
	count_windows(thread, summary->landmarks);
	if (!gm_steps_feed_loops(steps, thread, summary, event, made, true))
		return NULL;
	thread->latest = ++steps->fed;
	thread->latest_stack = stack;
	return summary;
}

void gm_steps_learn(struct gm_steps *steps, const struct gm_step_event *event)
{
	struct step_thread *thread;
	feed(steps, event, &thread);
}

size_t gm_steps_learn_repeated(struct gm_steps *steps, const struct gm_event *events, size_t count)
{
	const struct step_thread *near = repeatable(steps);
	bool heeded = near && heeds(steps);
	size_t i = 0;
	for (; near && i < count; i++) {
		const struct gm_event *event = &events[i];
		bool borrowed = event->flags & GM_EVENT_BORROWED;
		if (event->python_stack != near->latest_stack ||
		        event->flags & GM_EVENT_PREEXISTING ||
		        (event->thread != near->id && !borrowed))
			break;
		if (heeded && event->action == GM_ALLOC && !borrowed && event->native_stack)
			break;
	}
	steps->repeated += i;
	return i;
}

/* Without a second reading: if other loops turn out to have the steps, theirs are counted from the
 * beginning. */
static void plan_again(struct gm_steps *steps)
{
	struct gm_step_plan plan;
	gm_steps_plan(steps, &plan);
	if (gm_step_plans_are_equal(&plan, &steps->plan))
		return;
	steps->plan = plan;
	steps->iterations.count = 0;
	for (size_t i = 0; i < steps->threads.count; i++)
		for (size_t j = 0; j < steps->threads.items[i].followed.count; j++)
			steps->threads.items[i].followed.items[j].counted = 0;
}

uint32_t gm_steps_feed(struct gm_steps *steps, const struct gm_step_event *event)
{
	struct step_thread *thread;
	const struct summary *summary = feed(steps, event, &thread);
	if (summary || !event->python_stack)
		steps->aside = false;
	if (!summary)
		return steps->step;
	if (!steps->fixed && steps->changed)
		plan_again(steps);
	steps->foreign = event->foreign;
	bool another_task = thread && runs_another_task(steps, thread);
	if (thread && (belongs_to_plan(steps, thread) || !steps->plan.rule)) {
		if (runs_idle_task(steps, thread, summary)) {
			gm_steps_set_aside_phase(steps, thread, summary);
			return steps->step;
		}
		gm_steps_count(steps, thread, summary);
		gm_steps_set_phase(steps, summary);
	} else if (steps->entered && (summary->threading || (another_task && !summary->generation &&
	                                                            !steps->plan.other_tasks))) {
		gm_steps_set_aside_phase(steps, thread, summary);
	} else if (steps->entered && !another_task) {
		gm_steps_set_thread_phase(steps, summary);
	} else {
		gm_steps_set_phase(steps, summary);
	}
	return steps->step;
}

void gm_steps_mark(struct gm_steps *steps, uint64_t id, unsigned work)
{
	const struct running *running = gm_steps_running(steps, id);
	for (size_t i = 0; i < steps->threads.count; i++) {
		struct step_thread *thread = &steps->threads.items[i];
		if (thread->id != id ||
		        (thread->task && !(running && running->task == thread->task)))
			continue;
		thread->pending |= work;
		thread->landmarks |= work;
		count_windows(thread, work);
		if (belongs_to_plan(steps, thread))
			gm_steps_count_mark(steps, work);
		if (id && !steps->running.count)
			return;
	}
}

void gm_steps_turn(struct gm_steps *steps, uint32_t code, uint32_t loop, uint64_t position)
{
	size_t i = 0;
	while (i < steps->turn_count &&
	        (steps->turns[i].code != code || steps->turns[i].loop != loop))
		i++;
	if (i == GM_STEP_TURNS_MAX)
		i = 0;
	else if (i == steps->turn_count)
		steps->turn_count++;
	steps->turns[i] = (struct turn){code, loop, position};
}

void gm_steps_task(struct gm_steps *steps, uint64_t thread, uint32_t task, uint32_t depth)
{
	const struct running now = {thread, task, depth};
	/* the previous event's stack may come again, and is relevant */
	if (steps->near < steps->threads.count)
		steps->threads.items[steps->near].latest = 0;
	for (size_t i = 0; i < steps->running.count; i++) {
		if (steps->running.items[i].thread != thread)
			continue;
		steps->running.items[i] = now;
		return;
	}
	/* without memory the thread is followed as a whole */
	if (task && steps->running.count < RUNNING_MAX)
		(void)gm_array_push(&steps->running, now);
}

enum gm_phase gm_steps_phase(const struct gm_steps *steps)
{
	return steps->aside ? steps->aside_phase : steps->phase;
}
