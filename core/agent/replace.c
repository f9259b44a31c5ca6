#include "agent/replace.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/state.h"

/* Held only by us, for the duration of a rename. */
enum { LOCK_TRIES = 200 };

static bool is_named(const struct stat *status)
{
	char text[48], *end;
	gm_agent_setting("old", text, sizeof(text));
	if (!*text)
		return false;
	unsigned long long device = strtoull(text, &end, 10);
	return *end == ':' && device == status->st_dev &&
	       strtoull(end + 1, NULL, 10) == status->st_ino;
}

bool gm_agent_is_old(const char *path)
{
	struct stat status;
	return stat(path, &status) == 0 && is_named(&status);
}

static bool lock(int fd)
{
	for (int try = 0; try < LOCK_TRIES; try++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return false;
}

bool gm_agent_replace(const char *made, const char *path)
{
	/* The old file itself is the lock: any other process that would replace it uses the same
	 * one. */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat status;
	bool done = fd >= 0 && fstat(fd, &status) == 0 && is_named(&status) && lock(fd) &&
	            gm_agent_is_old(path) && rename(made, path) == 0;
	if (fd >= 0)
		close(fd);
	return done;
}
