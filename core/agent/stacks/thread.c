/*
 * Each thread's cache of its last stacks, and the tables that all threads share.
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "agent/stacks/inside.h"
#include "agent/state.h"
#include "agent/stacks/memory.h"

struct gm_stacks_options gm_stacks_options;
struct gm_trie gm_python_trie, gm_native_trie;
struct gm_arena gm_stacks_arena;
uint32_t gm_stacks_generation;
__thread struct gm_stacks_thread *gm_stacks_current;
struct gm_stacks_thread *_Atomic gm_stacks_threads[GM_STACKS_THREADS_MAX];

static pthread_key_t end_key;
static bool has_end_key;

static void forget_thread(struct gm_stacks_thread *thread)
{
	thread->stack_end = thread->stack_start = thread->task_place = 0;
	thread->is_named = thread->is_autograd = thread->is_pythons = thread->had_none = false;
	thread->python_count = thread->native_count = 0;
	thread->forward = thread->task_frame = 0;
	memset(thread->borrowed_from, 0, sizeof(thread->borrowed_from));
	thread->epoch++;
}

static void end_thread(void *value)
{
	struct gm_stacks_thread *thread = value;

	gm_stacks_current = NULL;
	atomic_store(&thread->state, 0);
	/* in a forked child, those that the parent's other threads left */
	while (atomic_load(&thread->visitors) && gm_agent_has_begun())
		sched_yield();
	forget_thread(thread);
	atomic_store(&thread->alive, false); /* another thread may take it from here on */
}

static struct gm_stacks_thread *make_thread(void)
{
	struct gm_stacks_thread *thread = NULL;
	bool ended = false;

	for (uint32_t i = 0; i < GM_STACKS_THREADS_MAX; i++) {
		thread = atomic_load(&gm_stacks_threads[i]);
		if (!thread) {
			struct gm_stacks_thread *made = gm_stacks_map(sizeof(*made));
			if (!made)
				return NULL;
			made->number = i;
			atomic_store(&made->alive, true);
			if (atomic_compare_exchange_strong(&gm_stacks_threads[i], &thread, made)) {
				thread = made;
				break;
			}
			gm_stacks_unmap(made, sizeof(*made));
		}
		ended = false;
		if (atomic_compare_exchange_strong(&thread->alive, &ended, true))
			break;
		thread = NULL;
	}
	if (!thread)
		return NULL;
	gm_stacks_current = thread;
	thread->kernel_id = gm_agent_thread();
	if (has_end_key)
		pthread_setspecific(end_key, thread);
	return thread;
}

struct gm_stacks_thread *gm_stacks_thread(void)
{
	struct gm_stacks_thread *thread = gm_stacks_current;

	if (GM_UNLIKELY(!thread) && !(thread = make_thread()))
		return NULL;
	if (GM_UNLIKELY(thread->generation != gm_stacks_generation)) {
		thread->generation = gm_stacks_generation;
		memset(thread->codes_seen, 0, sizeof(thread->codes_seen));
		memset(thread->children_seen, 0, sizeof(thread->children_seen));
		thread->python_count = thread->native_count = 0;
		thread->forward = thread->task_frame = 0;
		memset(thread->borrowed_from, 0, sizeof(thread->borrowed_from));
	}
	return thread;
}

/* The cache of the thread that forked, which another thread of the child must not take. */
static struct gm_stacks_thread *forked_from;

void gm_stacks_in_child(void)
{
	forked_from = gm_stacks_current;
	gm_agent_thread_changed();
	if (forked_from)
		forked_from->kernel_id = gm_agent_thread();
}

/* A forked child has only the thread that forked: the other threads' caches are free. */
static void drop_other_threads(void)
{
	static pid_t pid;
	bool forked = pid && pid != getpid();

	pid = getpid();
	for (uint32_t i = 0; forked && i < GM_STACKS_THREADS_MAX; i++) {
		struct gm_stacks_thread *thread = atomic_load(&gm_stacks_threads[i]);
		if (!thread)
			break;
		atomic_store(&thread->visitors, 0);
		if (thread == gm_stacks_current || thread == forked_from)
			continue;
		atomic_store(&thread->state, 0);
		forget_thread(thread);
		atomic_store(&thread->alive, false);
	}
}

void gm_stacks_threads_begin(void)
{
	drop_other_threads();
	if (!has_end_key)
		has_end_key = pthread_key_create(&end_key, end_thread) == 0;
}
