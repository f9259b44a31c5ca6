/*
 * The agent's file, as the process can open it: by its path, or, where its files are others than ours (a container), as
 * a memfd that we fill.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "inject/internal.h"

static bool same_file(const char *left, const char *right)
{
	struct stat a, b;
	return stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

bool gm_inject_files_differ(pid_t pid)
{
	char root[64], mounts[64];
	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	snprintf(mounts, sizeof(mounts), "/proc/%d/ns/mnt", pid);
	return !same_file(root, "/") || !same_file(mounts, "/proc/self/ns/mnt");
}

struct gm_error *gm_inject_path_inside(pid_t pid, const char *agent, char **ret_path)
{
	_cleanup_free_ char *real = realpath(agent, NULL);
	if (!real)
		return gm_error_os(GM_TARGET, errno, "the agent %s: cannot be opened", agent);
	_cleanup_free_ char *inside = NULL;
	if (asprintf(&inside, "/proc/%d/root%s", pid, real) < 0) {
		inside = NULL;
		return &gm_error_no_memory;
	}
	*ret_path = strlen(real) < GM_INJECT_PATH && same_file(inside, real) ? gm_take(real) : NULL;
	return NULL;
}

struct gm_error *gm_inject_copy(pid_t pid, int descriptor, const char *agent)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, descriptor);
	_cleanup_close_ int from = open(agent, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int to = open(path, O_RDWR | O_CLOEXEC);
	struct stat about;
	if (from < 0 || to < 0 || fstat(from, &about) != 0)
		return gm_error_os(
		        GM_TARGET, errno, "process %d: the agent cannot be given to it", pid);
	for (off_t done = 0; done < about.st_size;) {
		ssize_t got = sendfile(to, from, &done, (size_t)(about.st_size - done));
		if (got <= 0)
			return gm_error_os(GM_TARGET, got < 0 ? errno : EIO,
			        "process %d: the agent cannot be copied to it", pid);
	}
	return NULL;
}
