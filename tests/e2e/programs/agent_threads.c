/*
 * A CUDA program whose threads end, are cancelled or fork at moments at which the agent is at work.
 * The first argument says which; "right" at its end. A program that hangs is killed by SIGALRM.
 *
 * Some libc functions are this program's own: it can do something at the moment at which the agent
 * calls them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int cudaMalloc(void **pointer, size_t size);
int cudaFree(void *pointer);

enum { HANG_S = 60, MANY = 60000 /* events that need more than one extent */, EXTENT = 256 << 10 };

static void allocate(int count)
{
	for (int i = 0; i < count; i++) {
		void *pointer = NULL;
		if (cudaMalloc(&pointer, 4096) != 0)
			abort();
		cudaFree(pointer);
	}
}

static void in_thread(void *(*function)(void *), void *argument, void *expected)
{
	pthread_t thread;
	void *result;
	if (pthread_create(&thread, NULL, function, argument) != 0 ||
	        pthread_join(thread, &result) != 0 || result != expected)
		abort();
}

static void expect_end(pid_t child)
{
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	if (status != 0) {
		printf("the child ended with %#x\n", status);
		exit(1);
	}
}

/* --- a child in which a thread of the parent ends --------------------------------------------- */

static void *fork_and_end(void *unused)
{
	allocate(1);
	pid_t child = fork();
	if (child == 0)
		alarm(HANG_S);
	else
		expect_end(child);
	return NULL;
}

static void *fork_and_allocate(void *unused)
{
	pid_t child = fork();
	if (child == 0) {
		alarm(HANG_S);
		allocate(1);
		_exit(0);
	}
	expect_end(child);
	return NULL;
}

static sem_t has_allocated, may_end;

static void *allocate_once(void *unused)
{
	allocate(1);
	sem_post(&has_allocated);
	sem_wait(&may_end);
	return NULL;
}

/* Another thread than the one that forked begins the child's recording. */
__attribute__((noinline)) static void allocate_in_childs_thread(void)
{
	allocate(1);
	pid_t child = fork();
	if (child == 0) {
		alarm(HANG_S);
		pthread_t thread;
		sem_init(&has_allocated, 0, 0);
		sem_init(&may_end, 0, 0);
		pthread_create(&thread, NULL, allocate_once, NULL);
		sem_wait(&has_allocated);
		allocate(1);
		sem_post(&may_end);
		pthread_join(thread, NULL);
		_exit(0);
	}
	expect_end(child);
}

/* --- a thread that is cancelled at the agent's first cancellation point, if it has one -------- */

static void *cancelled(void *count)
{
	pthread_cancel(pthread_self());
	allocate(*(int *)count);
	*(int *)count = 0;
	pthread_testcancel();
	return NULL;
}

static void cancel(int before, int count)
{
	allocate(before);
	in_thread(cancelled, &count, PTHREAD_CANCELED);
	allocate(MANY);
	if (count != 0)
		puts("it was cancelled in the agent");
}

/* --- a fork while another thread opens the first file ----------------------------------------- */

static sem_t opens, forked;
static _Thread_local int waits_in_fcntl;

/* The agent moves its descriptor with it. */
int fcntl(int fd, int command, ...)
{
	va_list rest;
	va_start(rest, command);
	long argument = va_arg(rest, long);
	va_end(rest);
	if (waits_in_fcntl) {
		waits_in_fcntl = 0;
		sem_post(&opens);
		sem_wait(&forked);
	}
	return (int)syscall(SYS_fcntl, fd, command, argument);
}

static void *open_first(void *unused)
{
	waits_in_fcntl = 1;
	allocate(1);
	return NULL;
}

static void fork_while_opening(void)
{
	pthread_t thread;
	sem_init(&opens, 0, 0);
	sem_init(&forked, 0, 0);
	pthread_create(&thread, NULL, open_first, NULL);
	sem_wait(&opens);
	pid_t child = fork();
	if (child == 0) {
		alarm(HANG_S);
		allocate(1);
		_exit(0);
	}
	sem_post(&forked);
	pthread_join(thread, NULL);
	expect_end(child);
}

/* --- an allocation by a signal's handler while a thread ends ---------------------------------- */

static int allocates_in_munmap;

/* The agent unmaps a thread's extent with it. */
int munmap(void *address, size_t size)
{
	if (allocates_in_munmap && size == EXTENT) {
		allocates_in_munmap = 0;
		allocate(MANY);
	}
	return (int)syscall(SYS_munmap, address, size);
}

static void *interrupted_end(void *unused)
{
	allocate(MANY / 4); /* most of one extent, which no other thread continues */
	allocates_in_munmap = 1;
	return NULL;
}

/* --- other ends of a recording ---------------------------------------------------------------- */

static void fork_after_stop(bool starts_again)
{
	int (*stop)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "gpumem_agent_stop");
	int (*start)(const char *) =
	        (int (*)(const char *))dlsym(RTLD_DEFAULT, "gpumem_agent_start");
	allocate(1);
	if (!stop || stop() != 0)
		abort();
	pid_t child = fork();
	if (child == 0) {
		allocate(1);
		int result = starts_again ? start(getenv("GPUMEM_AGENT")) : 0;
		allocate(2);
		_exit(result);
	}
	expect_end(child);
}

static int no_addresses;

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	if (no_addresses && size == EXTENT) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

static void run_out_of_addresses(void)
{
	allocate(1);
	no_addresses = 1;
	allocate(MANY);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	alarm(HANG_S);
	if (!strcmp(what, "thread ends in child"))
		in_thread(fork_and_end, NULL, NULL);
	else if (!strcmp(what, "thread forks first"))
		in_thread(fork_and_allocate, NULL, NULL);
	else if (!strcmp(what, "thread of the child"))
		allocate_in_childs_thread();
	else if (!strcmp(what, "cancelled at the first event"))
		cancel(0, 1);
	else if (!strcmp(what, "cancelled later"))
		cancel(1, MANY);
	else if (!strcmp(what, "fork while opening"))
		fork_while_opening();
	else if (!strcmp(what, "interrupted at its end"))
		in_thread(interrupted_end, NULL, NULL);
	else if (!strcmp(what, "fork after stop"))
		fork_after_stop(false);
	else if (!strcmp(what, "start after stop"))
		fork_after_stop(true);
	else if (!strcmp(what, "no addresses"))
		run_out_of_addresses();
	else
		return 2;
	puts("right");
	return 0;
}
