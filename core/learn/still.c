/*
 * Waits until a probe waits. A probe that has written its answer is not waiting yet: on a busy
 * machine the reader of the answer may run before it does. Until it waits it releases objects, and
 * lists that change meanwhile are inconsistent.
 */
#include "learn/still.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { LOOKS = 3 }; /* consecutive looks: a thread may wait a moment for another one */

/* proc(5): the state follows the name, which may contain anything. */
static bool thread_waits(int tasks, const char *thread)
{
	char path[300], text[512];
	snprintf(path, sizeof(path), "%s/stat", thread);
	_cleanup_close_ int fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (size <= 0)
		return true; /* it has ended meanwhile */
	text[size] = 0;
	const char *name_end = strrchr(text, ')');
	return name_end && name_end[1] == ' ' && strchr("STtZX", name_end[2]);
}

static bool all_wait(pid_t pid)
{
	char path[64];
	bool waits = true;
	size_t count = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *tasks = opendir(path);
	for (struct dirent *entry; tasks && waits && (entry = readdir(tasks));) {
		if (entry->d_name[0] == '.')
			continue;
		waits = thread_waits(dirfd(tasks), entry->d_name);
		count++;
	}
	if (tasks)
		closedir(tasks);
	return waits && count;
}

bool gm_wait_still(pid_t pid, int most_ms)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	for (int looks = 0; most_ms > 0; most_ms--) {
		looks = all_wait(pid) ? looks + 1 : 0;
		if (looks == LOOKS)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}
