/*
 * Recording begun or ended by a thread of the agent's own, for a caller that must not wait: a
 * script that the program's Python runs (core/inject/script.c). The thread holds nothing of the
 * program's, so it may wait for any lock.
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
 * What became of it, for whoever waits outside: the caller's ticket in the upper half; in the lower
 * one 0 while it is under way, then 1 and the function's result. One word, so that it is read
 * whole.
 */
GM_AGENT_EXPORT extern uint64_t gpumem_agent_beside;
uint64_t gpumem_agent_beside;

struct task {
	uint32_t ticket;
	bool start;
	char settings[];
};

static void *run(void *argument)
{
	struct task *task = argument;
	uint64_t word = (uint64_t)task->ticket << 32;
	__atomic_store_n(&gpumem_agent_beside, word, __ATOMIC_RELEASE);
	int result = task->start ? gpumem_agent_start(task->settings) : gpumem_agent_stop();
	__atomic_store_n(&gpumem_agent_beside, word | (uint32_t)(result + 1), __ATOMIC_RELEASE);
	free(task);
	return NULL;
}

/* The program's signals are its own threads'. */
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

int gpumem_agent_start_beside(const char *settings, uint32_t ticket)
{
	return begin(true, settings, ticket);
}

int gpumem_agent_stop_beside(uint32_t ticket)
{
	return begin(false, "", ticket);
}
