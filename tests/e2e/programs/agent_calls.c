/*
 * agent_calls AGENT SETTINGS...: prints the numbers of all system calls of a program from before
 * the agent's start in a new thread, as `attach` has it, to after its stop; once for each of the
 * settings. The program allocates from CUDA meanwhile. It is a child that is traced here.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/existing.h"

enum { CALLS = 512, BEGIN = 1001, END = 1002, ALLOCATIONS = 3000, STOP = SIGTRAP | 0x80 };

int cudaMalloc(void **pointer, size_t size);
int cudaFree(void *pointer);

/* ---- the program ----------------------------------------------------------------------------- */

struct call {
	const char *agent, *function, *settings;
	int result;
};

static void *call(void *argument)
{
	struct call *call = argument;
	void *agent = dlopen(call->agent, RTLD_NOW);
	int (*function)(const char *) =
	        agent ? (int (*)(const char *))dlsym(agent, call->function) : NULL;
	call->result = function ? function(call->settings) : -1;
	return NULL;
}

static void *allocate(void *unused)
{
	for (int i = 0; i < ALLOCATIONS; i++) {
		void *pointer;
		if (cudaMalloc(&pointer, 1000) || cudaFree(pointer))
			_exit(1);
	}
	return unused;
}

/* What `attach` does as soon as it is asked: there is nothing. */
static void *answer(void *agent)
{
	void *library = dlopen(agent, RTLD_NOW | RTLD_NOLOAD);
	while (!library) {
		usleep(1000);
		library = dlopen(agent, RTLD_NOW | RTLD_NOLOAD);
	}
	struct gm_agent_existing *existing = dlsym(library, "gpumem_agent_existing");
	while (__atomic_load_n(&existing->state, __ATOMIC_ACQUIRE) != GM_AGENT_EXISTING_ASKED)
		;
	for (volatile int i = 0; i < 10000000; i++) /* so that the agent has to wait */
		;
	__atomic_store_n(&existing->state, GM_AGENT_EXISTING_GIVEN, __ATOMIC_RELEASE);
	return NULL;
}

static int record(const char *agent, const char *settings)
{
	struct call start = {agent, "gpumem_agent_start", settings, -1},
	            stop = {agent, "gpumem_agent_stop", settings, -1};
	pthread_t starts, answers, works, stops;
	int asks = strstr(settings, "existing=1") != NULL;
	if (asks)
		pthread_create(&answers, NULL, answer, (void *)agent);
	syscall(SYS_getpgid, BEGIN);
	pthread_create(&starts, NULL, call, &start);
	pthread_join(starts, NULL);
	allocate(NULL);
	if (asks)
		pthread_join(answers, NULL);
	pthread_create(&works, NULL, allocate, NULL);
	pthread_join(works, NULL);
	pthread_create(&stops, NULL, call, &stop);
	pthread_join(stops, NULL);
	syscall(SYS_getpgid, END);
	return start.result || stop.result;
}

/* ---- who traces it --------------------------------------------------------------------------- */

static int trace(pid_t child, unsigned char made[CALLS])
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
	int counts = 0, status;
	waitpid(child, &status, 0);
	ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)options);
	ptrace(PTRACE_SYSCALL, child, NULL, NULL);
	for (pid_t id; (id = waitpid(-1, &status, __WALL)) > 0;) {
		long signal = 0;
		if (id == child && !WIFSTOPPED(status))
			return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
		if (!WIFSTOPPED(status))
			continue;
		struct user_regs_struct registers;
		if (WSTOPSIG(status) != STOP) {
			/* a new thread begins with a SIGSTOP */
			signal = status >> 16 || WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);
		} else if (ptrace(PTRACE_GETREGS, id, NULL, &registers) == 0) {
			if (registers.orig_rax == SYS_getpgid)
				counts = registers.rdi == BEGIN;
			else if (counts && registers.orig_rax < CALLS)
				made[registers.orig_rax] = 1;
		}
		ptrace(PTRACE_SYSCALL, id, NULL, (void *)signal);
	}
	return 1;
}

int main(int argc, char **argv)
{
	static unsigned char made[CALLS];
	pid_t child = fork();
	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		allocate(NULL); /* the device begins */
		for (int i = 2; i < argc; i++)
			if (record(argv[1], argv[i]))
				_exit(2);
		_exit(0);
	}
	int status = trace(child, made);
	for (int i = 0; i < CALLS; i++)
		if (made[i])
			printf("%d\n", i);
	return status;
}
