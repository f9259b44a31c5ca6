/*
 * Tasks: coroutines that alternate in one thread, as with asyncio. The recorder says which one a
 * thread runs.
 *
 * While the steps are learned, a thread is followed as a whole, and each of its tasks as well, in
 * the loops of its own coroutine. Usually tasks run one after another, or none has a loop around
 * the work (a server creates one for each request): then the thread as a whole is right. If a task
 * returns to a loop in which another one was meanwhile, they are in it at the same time, and the
 * iterations of the thread as a whole have no meaning: then step_plan.c considers each task
 * separately.
 */
#include "model/steps_internal.h"

enum { TASKS_MAX = 128 };

const struct running *gm_steps_running(const struct gm_steps *steps, uint64_t thread)
{
	for (size_t i = 0; i < steps->running.count; i++)
		if (steps->running.items[i].thread == thread)
			return steps->running.items[i].task ? &steps->running.items[i] : NULL;
	return NULL;
}

struct step_thread *gm_steps_task_of(
        struct gm_steps *steps, uint64_t thread, const struct running *running, uint32_t outermost)
{
	const struct step_thread fresh = {.id = thread,
	        .outermost = outermost,
	        .task = running->task,
	        .depth = running->depth};
	size_t count = 0;
	for (size_t i = 0; i < steps->threads.count; i++) {
		struct step_thread *one = &steps->threads.items[i];
		count += one->task != 0;
		if (one->task != running->task)
			continue;
		one->depth = running->depth;
		return one;
	}
	if (count == TASKS_MAX || !gm_array_push(&steps->threads, fresh))
		return NULL;
	return &steps->threads.items[steps->threads.count - 1];
}

void gm_steps_share_loops(
        struct step_thread *thread, const struct step_thread *task, const struct summary *summary)
{
	for (uint32_t i = gm_steps_first_loop(task, summary); i < summary->count; i++) {
		uint32_t known = summary->standing[i].known;
		const struct followed *own = gm_steps_followed(task, known);
		if (known >= thread->followed.count)
			continue; /* it is new, to all */
		struct followed *loop = &thread->followed.items[known];
		bool came_back = own && own->events && loop->latest_task != task->task;
		loop->shared |= came_back && loop->latest_task;
		loop->latest_task = task->task;
	}
}
