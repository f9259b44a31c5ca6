#include "base/whole_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define SUFFIX ".gpumem-part"

enum {
	NAME_KEPT = 200, /* bytes of the name that a temporary one contains: NAME_MAX is 255 */
	RANDOM_DIGITS = 16,
	TRIES = 16,
};

static struct gm_error *error_write(const char *path, int os_error)
{
	return gm_error_os(GM_TARGET, os_error, "%s: cannot be written", path);
}

/* --- the existing file ------------------------------------------------------------------------ */

static struct gm_error *error_kind(const char *path)
{
	return gm_error_create(GM_TARGET,
	        "%s: it is not a regular file: nothing is written: name another file", path);
}

/* Not a file that another user has put there for us. */
static bool is_trusted(const struct stat *about)
{
	return about->st_uid == 0 || about->st_uid == geteuid();
}

/* It stays unchanged. Examined through O_PATH first, because opening a device has effects. */
static struct gm_error *open_in_place(const char *path, bool link, struct gm_whole_file *file)
{
	char seen[64];
	struct stat about;
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC | (link ? 0 : O_NOFOLLOW));
	if (fd < 0 || fstat(fd, &about) != 0)
		return error_write(path, errno);
	if (!(S_ISFIFO(about.st_mode) || S_ISCHR(about.st_mode)) || !is_trusted(&about))
		return error_kind(path);
	snprintf(seen, sizeof(seen), "/proc/self/fd/%d", fd);
	file->fd = open(seen, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	return file->fd < 0 ? error_write(path, errno) : NULL;
}

/* The folder of `path` and the name in it. */
static struct gm_error *open_folder(const char *path, struct gm_whole_file *file)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	_cleanup_free_ char *folder =
	        slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	file->name = strdup(name);
	if (!folder || !file->name)
		return &gm_error_no_memory;
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return error_write(path, EISDIR);
	file->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return file->folder < 0 ? error_write(path, errno) : NULL;
}

/* ---- the temporary name ---------------------------------------------------------------------- */

/* ".NAME." : the beginning of all temporary names for this one. */
static void put_prefix(const struct gm_whole_file *file, char *ret_text, size_t size)
{
	snprintf(ret_text, size, ".%.*s.", NAME_KEPT, file->name);
}

static char *new_name(const struct gm_whole_file *file)
{
	char prefix[NAME_KEPT + 3], *name;
	unsigned long long random;
	put_prefix(file, prefix, sizeof(prefix));
	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		random = (unsigned long long)getpid();
	return asprintf(&name, "%s%0*llx" SUFFIX, prefix, RANDOM_DIGITS, random) < 0 ? NULL : name;
}

/* One that nobody writes any more: a writer holds its lock. */
static void remove_one(int folder, const char *name)
{
	struct stat about;
	_cleanup_close_ int fd =
	        openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
	        about.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0)
		unlinkat(folder, name, 0);
}

static void remove_left_over(const struct gm_whole_file *file)
{
	char prefix[NAME_KEPT + 3];
	put_prefix(file, prefix, sizeof(prefix));
	size_t length = strlen(prefix);
	int fd = openat(file->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
	if (fd >= 0 && !listing)
		close(fd);
	for (struct dirent *entry; listing && (entry = readdir(listing));)
		if (strncmp(entry->d_name, prefix, length) == 0 &&
		        strlen(entry->d_name) == length + RANDOM_DIGITS + strlen(SUFFIX) &&
		        strcmp(entry->d_name + length + RANDOM_DIGITS, SUFFIX) == 0)
			remove_one(file->folder, entry->d_name);
	if (listing)
		closedir(listing);
}

/* Created and locked; another process of ours may have removed it as a leftover in between. */
static bool create_named(struct gm_whole_file *file, mode_t mode)
{
	for (int i = 0; i < TRIES; i++) {
		struct stat about;
		free(file->temporary);
		file->temporary = new_name(file);
		if (!file->temporary) {
			errno = ENOMEM;
			return false;
		}
		file->fd = openat(file->folder, file->temporary,
		        O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		if (file->fd < 0 && errno == EEXIST)
			continue;
		if (file->fd < 0)
			break;
		if (flock(file->fd, LOCK_EX | LOCK_NB) == 0 && fstat(file->fd, &about) == 0 &&
		        about.st_nlink == 1)
			return true;
		close(file->fd);
		file->fd = -1;
		errno = EEXIST;
	}
	int os_error = errno;
	free(gm_take(file->temporary));
	errno = os_error;
	return false;
}

/* --- both ------------------------------------------------------------------------------------- */

static struct gm_error *open_new(
        const char *path, mode_t mode, enum gm_whole_file_how how, struct gm_whole_file *file)
{
	struct stat about;
	gm_try(open_folder(path, file));
	if (fstatat(file->folder, file->name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
	        !S_ISREG(about.st_mode))
		return error_kind(path);
	if (how != GM_WHOLE_FILE_OF_MANY)
		remove_left_over(file);
	if (how != GM_WHOLE_FILE_NAMED)
		file->fd = openat(file->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	if (file->fd < 0 && !create_named(file, mode))
		return error_write(path, errno);
	return NULL;
}

static struct gm_error *open_file(
        const char *path, mode_t mode, enum gm_whole_file_how how, struct gm_whole_file *file)
{
	struct stat about, behind;
	if (lstat(path, &about) != 0 || S_ISREG(about.st_mode))
		return open_new(path, mode, how, file);
	if (!S_ISLNK(about.st_mode))
		return open_in_place(path, false, file);
	if (!is_trusted(&about))
		return gm_error_create(GM_TARGET,
		        "%s: it is another user's symbolic link: nothing is written: name another "
		        "file",
		        path);
	if (stat(path, &behind) != 0)
		return error_write(path, errno);
	if (!S_ISREG(behind.st_mode))
		return open_in_place(path, true, file);
	_cleanup_free_ char *real = realpath(path, NULL);
	return real ? open_new(real, mode, how, file) : error_write(path, errno);
}

struct gm_error *gm_whole_file_open(
        const char *path, mode_t mode, enum gm_whole_file_how how, struct gm_whole_file *ret_file)
{
	struct gm_whole_file file = {.fd = -1, .folder = -1, .path = strdup(path)};
	struct gm_error *error =
	        file.path ? open_file(path, mode, how, &file) : &gm_error_no_memory;
	if (error) {
		gm_whole_file_close(&file);
		return error;
	}
	*ret_file = file;
	return NULL;
}

char *gm_whole_file_temporary(const struct gm_whole_file *file)
{
	char *path;
	int length = file->temporary
	                     ? asprintf(&path, "/proc/self/fd/%d/%s", file->folder, file->temporary)
	                     : asprintf(&path, "/proc/self/fd/%d", file->fd);
	return length < 0 ? NULL : path;
}

/* A nameless file gets its name or, if that exists, a temporary one that then replaces it. */
static int give_name(struct gm_whole_file *file)
{
	char self[64];
	struct stat about;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
	if (!file->temporary &&
	        linkat(AT_FDCWD, self, file->folder, file->name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	if (!file->temporary && errno != EEXIST)
		return errno;
	if (fstatat(file->folder, file->name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
	        !S_ISREG(about.st_mode))
		return EEXIST;
	for (int i = 0; i < TRIES && !file->temporary; i++) {
		char *name = new_name(file);
		if (!name)
			return ENOMEM;
		if (linkat(AT_FDCWD, self, file->folder, name, AT_SYMLINK_FOLLOW) == 0) {
			file->temporary = name;
			break;
		}
		free(name);
		if (errno != EEXIST)
			return errno;
	}
	if (!file->temporary)
		return EEXIST;
	if (renameat(file->folder, file->temporary, file->folder, file->name) != 0)
		return errno;
	free(gm_take(file->temporary));
	return 0;
}

struct gm_error *gm_whole_file_finish(struct gm_whole_file *file)
{
	int os_error = file->name ? give_name(file) : 0;
	if (file->fd >= 0 && close(file->fd) != 0 && !os_error && !file->name)
		os_error = errno;
	file->fd = -1;
	struct gm_error *error = os_error ? error_write(file->path, os_error) : NULL;
	gm_whole_file_close(file);
	return error;
}

/* link() never replaces a file; not every file system has it. */
static int give_new_name(struct gm_whole_file *file, const char *name)
{
	char self[64];
	snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
	if (!file->temporary)
		return linkat(AT_FDCWD, self, file->folder, name, AT_SYMLINK_FOLLOW) == 0 ? 0
		                                                                          : errno;
	if (linkat(file->folder, file->temporary, file->folder, name, 0) == 0)
		return 0;
	if (errno == EEXIST)
		return EEXIST;
	if (renameat2(file->folder, file->temporary, file->folder, name, RENAME_NOREPLACE) != 0)
		return errno;
	free(gm_take(file->temporary));
	return 0;
}

struct gm_error *gm_whole_file_finish_new(struct gm_whole_file *file, const char *name)
{
	int os_error = file->name ? give_new_name(file, name) : EEXIST;
	if (os_error)
		return error_write(file->path, os_error);
	gm_whole_file_close(file);
	return NULL;
}

bool gm_write_all(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;
	while (size > 0) {
		ssize_t written = write(fd, at, size);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return false;
		at += written;
		size -= (size_t)written;
	}
	return true;
}

void gm_whole_file_close(struct gm_whole_file *file)
{
	if (file->temporary && file->folder >= 0)
		unlinkat(file->folder, file->temporary, 0);
	if (file->fd >= 0)
		close(file->fd);
	if (file->folder >= 0)
		close(file->folder);
	free(file->temporary);
	free(file->name);
	free(file->path);
	*file = (struct gm_whole_file){.fd = -1, .folder = -1};
}
