/*
 * The agent's file, in a form that the process can open: by its path, or, if it has other files
 * than ours (a container), as a memfd that we fill.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "base/same_file.h"
#include "inject/internal.h"

enum { FILES = 3 }; /* in struct gm_inject_identity.uids: the user for new files */

bool gm_inject_files_differ(pid_t pid)
{
	char root[64], mounts[64];
	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	snprintf(mounts, sizeof(mounts), "/proc/%d/ns/mnt", pid);
	return !gm_same_file(root, "/") || !gm_same_file(mounts, "/proc/self/ns/mnt");
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
	*ret_path =
	        strlen(real) < GM_INJECT_PATH && gm_same_file(inside, real) ? gm_take(real) : NULL;
	return NULL;
}

static struct gm_error *error_not_given(const struct gm_inject_identity *identity, int os_error)
{
	return gm_error_os(GM_TARGET, os_error,
	        "process %d: the agent's file cannot be passed to it", identity->pid);
}

/* An empty file of the process's own user, without a name or a folder. */
static bool is_own_memfd(const struct gm_inject_identity *identity, int file)
{
	static const char expected[] = "/memfd:" GM_INJECT_MEMFD;
	char path[64], name[sizeof(expected) + 32];
	struct stat about;
	struct statfs system;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	ssize_t length = readlink(path, name, sizeof(name));
	return fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink == 0 &&
	       about.st_size == 0 && about.st_uid == identity->uids[FILES] &&
	       fstatfs(file, &system) == 0 && system.f_type == TMPFS_MAGIC &&
	       length >= (ssize_t)(sizeof(expected) - 1) &&
	       memcmp(name, expected, sizeof(expected) - 1) == 0;
}

/*
 * The number comes from the process, and a seccomp filter can make it any number. So it is examined
 * through O_PATH, which has no effect on any kind of file, and then the same file is opened for
 * writing.
 */
static struct gm_error *open_memfd(
        const struct gm_inject_identity *identity, int64_t descriptor, int *ret_file)
{
	char path[64];
	snprintf(path, sizeof(path), "fd/%lld", (long long)descriptor);
	_cleanup_close_ int seen = openat(identity->folder, path, O_PATH | O_CLOEXEC);
	if (seen < 0)
		return error_not_given(identity, errno);
	int file = -1;
	if (is_own_memfd(identity, seen)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", seen);
		file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (file < 0)
			return error_not_given(identity, errno);
	}
	int seals = file >= 0 ? fcntl(file, F_GET_SEALS) : -1;
	if (seals < 0 || (seals & (F_SEAL_WRITE | F_SEAL_GROW))) {
		if (file >= 0)
			close(file);
		return gm_error_create(GM_TARGET,
		        "process %d: its memfd_create() did not return a memfd: a seccomp filter "
		        "answers in the kernel's place, and nothing was written",
		        identity->pid);
	}
	*ret_file = file;
	return NULL;
}

struct gm_error *gm_inject_copy(
        const struct gm_inject_identity *identity, int64_t descriptor, const char *agent)
{
	_cleanup_close_ int from = open(agent, O_RDONLY | O_CLOEXEC);
	struct stat about;
	if (from < 0 || fstat(from, &about) != 0)
		return error_not_given(identity, errno);
	_cleanup_close_ int to = -1;
	gm_try(open_memfd(identity, descriptor, &to));
	for (off_t done = 0; done < about.st_size;) {
		ssize_t got = sendfile(to, from, &done, (size_t)(about.st_size - done));
		if (got <= 0)
			return gm_error_os(GM_TARGET, got < 0 ? errno : EIO,
			        "process %d: the agent cannot be copied to it", identity->pid);
	}
	return NULL;
}
