#include "image/no_memory.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

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
	return gm_error_create(GM_TARGET,
	        "process %d: it has no memory: it is a kernel thread: give the id of a running "
	        "program",
	        pid);
}
