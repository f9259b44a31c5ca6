/* The folder of learned rows: see learned.h. A file's name is the build-id of libtorch_python.so, which differs from Python to
 * Python as well; all four build-ids are compared before a row is used. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "torch/learned.h"

enum { MAX_KEPT = 64 * 1024, NAME = GM_BUILD_ID_TEXT + 32, PYTHON_LIBRARY = 3 };

/* "~/.cache/gpumem/layouts"; NULL: there is no home. */
static char *folder_path(void)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char *path = NULL;
	if (cache && cache[0] == '/') {
		if (asprintf(&path, "%s/gpumem/layouts", cache) < 0)
			return NULL;
	} else if (!home || home[0] != '/' ||
	           asprintf(&path, "%s/.cache/gpumem/layouts", home) < 0) {
		return NULL;
	}
	return path;
}

/* -1 and errno: it is not there, or not this user's own. */
static int open_folder(const char *path)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
	        !(status.st_mode & (S_IWGRP | S_IWOTH)))
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

static void make_parents(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		(void)mkdir(path, 0700);
		*slash = '/';
	}
	(void)mkdir(path, 0700);
}

struct gm_error *gm_torch_kept_folder(int *ret_folder, char **ret_path)
{
	_cleanup_free_ char *path = folder_path();
	if (!path)
		return gm_error_create(GM_TARGET,
		        "layouts: there is no folder to keep them in: set HOME or XDG_CACHE_HOME");
	make_parents(path);
	int fd = open_folder(path);
	if (fd < 0)
		return gm_error_os(GM_TARGET, errno, "%s: layouts cannot be kept there", path);
	*ret_folder = fd;
	*ret_path = gm_take(path);
	return NULL;
}

static void file_name(const struct gm_torch_builds *builds, char name[NAME])
{
	char id[GM_BUILD_ID_TEXT];
	snprintf(
	        name, NAME, "torch-%s.layouts", gm_build_id_text(&builds->ids[PYTHON_LIBRARY], id));
}

struct gm_error *gm_torch_kept_find(
        const struct gm_torch_builds *builds, struct gm_torch_learned *ret_learned, bool *ret_found)
{
	char name[NAME];
	struct stat status;
	struct gm_torch_learned learned;
	_cleanup_free_ char *path = folder_path(), *text = NULL, *whole = NULL;
	*ret_found = false;
	if (!path || builds->ids[PYTHON_LIBRARY].size == 0)
		return NULL;
	_cleanup_close_ int folder = open_folder(path);
	file_name(builds, name);
	_cleanup_close_ int fd =
	        folder < 0 ? -1
	                   : openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	        status.st_uid != geteuid() || status.st_size > MAX_KEPT)
		return NULL;
	text = malloc(MAX_KEPT);
	if (!text || asprintf(&whole, "%s/%s", path, name) < 0)
		return &gm_error_no_memory;
	ssize_t size = pread(fd, text, MAX_KEPT, 0);
	if (size < 0)
		return NULL;
	gm_try(gm_torch_learned_parse(whole, text, (size_t)size, &learned));
	const char *other = gm_torch_builds_differ(&learned.builds, builds);
	if (other)
		return gm_error_create(GM_CORRUPT,
		        "%s: it is of another build of %s: remove it and learn again with `gpumem "
		        "learn`",
		        whole, other);
	*ret_learned = learned;
	*ret_found = true;
	return NULL;
}

/* Written beside and renamed: who reads it finds the old file or the new one, whole. */
static bool write_file(int folder, const char *name, const char *text, size_t size)
{
	char beside[NAME + 32];
	snprintf(beside, sizeof(beside), ".%s.%d", name, (int)getpid());
	(void)unlinkat(folder, beside, 0);
	int fd = openat(folder, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	bool wrote = write(fd, text, size) == (ssize_t)size && fsync(fd) == 0;
	int code = errno;
	close(fd);
	if (wrote && renameat(folder, beside, folder, name) == 0)
		return true;
	code = wrote ? errno : code;
	(void)unlinkat(folder, beside, 0);
	errno = code;
	return false;
}

struct gm_error *gm_torch_kept_save(const struct gm_torch_learned *learned, char **ret_path)
{
	char name[NAME];
	_cleanup_free_ char *path = NULL, *text = NULL;
	_cleanup_close_ int folder = -1;
	size_t size;
	char *whole;
	gm_try(gm_torch_kept_folder(&folder, &path));
	gm_try(gm_torch_learned_text(learned, &text, &size));
	file_name(&learned->builds, name);
	if (!write_file(folder, name, text, size))
		return gm_error_os(GM_TARGET, errno, "%s/%s: cannot be written", path, name);
	if (asprintf(&whole, "%s/%s", path, name) < 0)
		return &gm_error_no_memory;
	*ret_path = whole;
	return NULL;
}

int gm_torch_kept_lock(void)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int folder = -1;
	_cleanup_error_ struct gm_error *error = gm_torch_kept_folder(&folder, &path);
	if (error)
		return -1;
	int fd = openat(folder, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	/* whoever has it ends within its own time */
	if (fd >= 0 && flock(fd, LOCK_EX) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}
