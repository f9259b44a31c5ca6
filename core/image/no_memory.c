#include "image/no_memory.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/stop.h"

/* A thread of the process that still runs; 0 if there is none. */
static pid_t running_thread(pid_t pid)
{
	char path[32];
	pid_t found = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *threads = opendir(path);
	for (struct dirent *entry; threads && !found && (entry = readdir(threads));) {
		pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
		char state = thread > 0 ? gm_stop_thread_state(pid, thread) : 0;
		if (state && state != 'Z' && state != 'X')
			found = thread;
	}
	if (threads)
		closedir(threads);
	return found;
}

/* PF_KTHREAD of the kernel's include/linux/sched.h, in the flags of /proc/PID/stat (proc(5)). */
static bool is_kernel_thread(pid_t pid)
{
	const unsigned long kernel_thread = 0x200000;
	char path[32], line[1024] = "";
	unsigned long flags = 0;
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	const char *name_end = file && fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	return name_end && sscanf(name_end, ") %*c %*d %*d %*d %*d %*d %lu", &flags) == 1 &&
	       flags & kernel_thread;
}

struct gm_error *gm_no_memory_error(pid_t pid)
{
	char state = gm_stop_thread_state(pid, pid);
	pid_t other = running_thread(pid);
	if ((state == 'Z' || state == 'X') && other)
		return gm_error_create(GM_TARGET,
		        "process %d: its first thread has ended and others run on (pthread_exit() "
		        "in main(), or the process is ending), and the kernel shows memory only by "
		        "the number of a running thread: give one of those, for example %d",
		        pid, other);
	if (state == 'Z' || state == 'X' || !state)
		return gm_error_create(GM_TARGET,
		        "process %d: it has ended and waits for its parent (a zombie): give the id "
		        "of a running program",
		        pid);
	if (!is_kernel_thread(pid))
		return gm_error_create(GM_TARGET,
		        "process %d: it is ending, and has no memory any more: give the id of a "
		        "running program",
		        pid);
	return gm_error_create(GM_TARGET,
	        "process %d: it has no memory: it is a kernel thread: give the id of a running "
	        "program",
	        pid);
}
