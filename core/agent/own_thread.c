/*
 * Starts and stops recording in a thread of the agent, for a caller that must not wait: a script
 * that the program's Python runs (core/inject/script.c). The thread holds no lock of the program,
 * so it may wait for any.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"

/*
 * The result, for the process that waits outside: the caller's ticket in the upper half; in the
 * lower half 0 while the thread works, then 1 plus the function's result. One word, so that it can
 * be read atomically.
 */
GM_AGENT_EXPORT extern uint64_t gpumem_agent_thread_result;
uint64_t gpumem_agent_thread_result;

struct task {
	uint32_t ticket;
	bool start;
	char settings[];
};

static void *run(void *argument)
{
	struct task *task = argument;
	uint64_t word = (uint64_t)task->ticket << 32;
	__atomic_store_n(&gpumem_agent_thread_result, word, __ATOMIC_RELEASE);
	int result = task->start ? gpumem_agent_start(task->settings) : gpumem_agent_stop();
	__atomic_store_n(
	        &gpumem_agent_thread_result, word | (uint32_t)(result + 1), __ATOMIC_RELEASE);
	free(task);
	return NULL;
}

/* All signals are blocked in the thread: the program's own threads handle them. */
static int make_thread(struct task *task)
{
	sigset_t all, before;
	pthread_attr_t detached;
	pthread_t thread;
	int error = pthread_attr_init(&detached);
	if (error)
		return error;
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &detached, run, task);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&detached);
	return error;
}

static int begin(bool start, const char *settings, uint32_t ticket)
{
	size_t size = strlen(settings) + 1;
	struct task *task = malloc(sizeof(*task) + size);
	if (!task)
		return ENOMEM;
	task->ticket = ticket;
	task->start = start;
	memcpy(task->settings, settings, size);
	int error = make_thread(task);
	if (error)
		free(task);
	return error;
}

int gpumem_agent_start_in_thread(const char *settings, uint32_t ticket)
{
	return begin(true, settings, ticket);
}

int gpumem_agent_stop_in_thread(uint32_t ticket)
{
	return begin(false, "", ticket);
}
