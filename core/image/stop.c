#include "image/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "image/refusal.h"

enum {
	ROUNDS_MAX = 100,  /* rounds in which new threads are searched for */
	WAIT_SECONDS = 10, /* for a thread within a driver's call */
};

/* The number after "NAME:" in /proc/PID/task/TID/status, or 0; the letter for State. */
static long status_field(pid_t pid, pid_t thread, const char *name)
{
	char path[64], line[256];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, thread);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		size_t length = strlen(name);
		if (strncmp(line, name, length) != 0 || line[length] != ':')
			continue;
		const char *value = line + length + 1 + strspn(line + length + 1, "\t ");
		return strcmp(name, "State") == 0 ? value[0] : strtol(value, NULL, 10);
	}
	return 0;
}

char gm_stop_thread_state(pid_t pid, pid_t thread)
{
	return (char)status_field(pid, thread, "State");
}

static struct gm_error *error_traced(pid_t pid, long tracer)
{
	return gm_error_create(GM_TARGET,
	        "process %d: it cannot be stopped: process %ld traces it, probably a debugger: ask "
	        "in that debugger, or end it",
	        pid, tracer);
}

static struct gm_error *error_refused(pid_t pid, int os_error)
{
	char why[GM_REFUSAL_TEXT];
	return gm_error_os(GM_TARGET, os_error, "process %d: it may not be stopped: %s", pid,
	        gm_refusal_of(pid, why));
}

/* Waits until the thread has stopped; false: it has ended. */
static struct gm_error *wait_for(struct gm_stop *stop, struct gm_stopped *stopped, bool *ret_there)
{
	for (int waited = 0;; waited++) {
		int status;
		pid_t got = waitpid(stopped->thread, &status, __WALL | WNOHANG);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 || (got > 0 && !WIFSTOPPED(status))) {
			*ret_there = false;
			return NULL;
		}
		if (got > 0) {
			/* Stopped by a signal that was pending: the signal is saved and delivered
			 * later. */
			stopped->signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
			*ret_there = true;
			return NULL;
		}
		if (waited >= stop->seconds * 1000)
			return gm_error_create(GM_TARGET,
			        "process %d: thread %d does not stop (state %c), it is inside the "
			        "kernel or a driver: try again",
			        stop->pid, stopped->thread,
			        gm_stop_thread_state(stop->pid, stopped->thread));
		const struct timespec pause = {.tv_nsec = waited < 10 ? 50000 : 1000000};
		nanosleep(&pause, NULL);
	}
}

static struct gm_error *seize(struct gm_stop *stop, pid_t thread)
{
	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) {
		int os_error = errno;
		if (os_error == ESRCH)
			return NULL; /* ended just now */
		char state = gm_stop_thread_state(stop->pid, thread);
		if (state == 'Z' || state == 'X' || state == 0)
			return NULL;
		long tracer = status_field(stop->pid, thread, "TracerPid");
		return tracer > 0 ? error_traced(stop->pid, tracer)
		                  : error_refused(stop->pid, os_error);
	}
	struct gm_stopped stopped = {.thread = thread};
	bool there = false;
	struct gm_error *error = NULL;
	if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0)
		error = wait_for(stop, &stopped, &there);
	if (error || (there && !gm_array_push(&stop->threads, stopped))) {
		ptrace(PTRACE_DETACH, thread, NULL, NULL);
		return error ? error : &gm_error_no_memory;
	}
	return NULL;
}

static bool is_stopped(const struct gm_stop *stop, pid_t thread)
{
	for (size_t i = 0; i < stop->threads.count; i++) {
		if (stop->threads.items[i].thread == thread)
			return true;
	}
	return false;
}

/* Repeats until the list of threads shows none that still runs. */
static struct gm_error *stop_all(struct gm_stop *stop, struct gm_image *image)
{
	for (int round = 0; round < ROUNDS_MAX; round++) {
		_cleanup_free_ pid_t *threads = NULL;
		size_t count, before = stop->threads.count;
		gm_try(gm_image_threads(image, &threads, &count));
		for (size_t i = 0; i < count; i++) {
			if (!is_stopped(stop, threads[i]))
				gm_try(seize(stop, threads[i]));
		}
		if (stop->threads.count == before)
			break;
	}
	if (stop->threads.count == 0)
		return gm_error_create(GM_TARGET,
		        "process %d: it has ended: start it again, or ask a recording or a core "
		        "dump of it",
		        stop->pid);
	return NULL;
}

struct gm_error *gm_stop_begin(struct gm_image *image, struct gm_stop *ret_stop)
{
	return gm_stop_begin_within(image, WAIT_SECONDS, ret_stop);
}

struct gm_error *gm_stop_begin_within(
        struct gm_image *image, double seconds, struct gm_stop *ret_stop)
{
	struct gm_stop stop = {.pid = gm_image_pid(image), .seconds = seconds};
	long tracer = status_field(stop.pid, stop.pid, "TracerPid");
	if (tracer == syscall(SYS_gettid)) {
		stop.traced_before = true;
		*ret_stop = stop;
		return NULL;
	}
	if (tracer > 0)
		return error_traced(stop.pid, tracer);
	struct gm_error *error = stop_all(&stop, image);
	if (error) {
		gm_stop_end(&stop);
		return error;
	}
	*ret_stop = stop;
	return NULL;
}

void gm_stop_end(struct gm_stop *stop)
{
	for (size_t i = 0; i < stop->threads.count; i++)
		ptrace(PTRACE_DETACH, stop->threads.items[i].thread, NULL,
		        (void *)(intptr_t)stop->threads.items[i].signal);
	gm_array_deinit(&stop->threads);
	*stop = (struct gm_stop){0};
}
