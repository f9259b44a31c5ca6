/*
 * Copies the recording of a debugger's session to a place that the user names. The session's file
 * may be in a folder that was given to the user of the recorded process, whose program writes it;
 * then its name may belong to another file, or to a link.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/regular_file.h"
#include "base/whole_file.h"
#include "gpumem.h"

static struct gm_error *error_read(const char *path, const char *why)
{
	return gm_error_create(GM_TARGET, "%s: %s: nothing is saved", path, why);
}

/* The user whose files, besides our own, may be in that folder: its owner, unless all may write to
 * it. */
static struct gm_error *find_owner(const char *path, uid_t *ret_owner)
{
	struct stat about;
	_cleanup_free_ char *folder = strdup(path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	if (!folder)
		return &gm_error_no_memory;
	if (slash)
		slash[slash == folder] = 0;
	if (stat(slash ? folder : ".", &about) != 0)
		return error_read(path, strerror(errno));
	*ret_owner = about.st_mode & S_IWOTH ? geteuid() : about.st_uid;
	return NULL;
}

static struct gm_error *open_recording(const char *path, int *ret_fd, struct stat *ret_about)
{
	uid_t owner;
	struct stat link;
	gm_try(find_owner(path, &owner));
	if (lstat(path, &link) != 0)
		return error_read(path, strerror(errno));
	_cleanup_close_ int fd = S_ISREG(link.st_mode) ? gm_regular_file_open(path) : -1;
	if (!S_ISREG(link.st_mode))
		return error_read(path, "it is no longer a regular file");
	if (fd < 0 || fstat(fd, ret_about) != 0)
		return error_read(path, gm_regular_file_why(errno));
	if (ret_about->st_dev != link.st_dev || ret_about->st_ino != link.st_ino ||
	        ret_about->st_nlink != 1 ||
	        (ret_about->st_uid != owner && ret_about->st_uid != geteuid()))
		return error_read(path, "another file or another user's has taken its place");
	*ret_fd = fd;
	fd = -1;
	return NULL;
}

static struct gm_error *copy(int from, const char *to)
{
	char bytes[1 << 16];
	ssize_t got;
	struct gm_whole_file file;
	gm_try(gm_whole_file_open(to, 0600, GM_WHOLE_FILE_ANY, &file));
	while ((got = read(from, bytes, sizeof(bytes))) > 0) {
		errno = ENOSPC; /* if not everything was written */
		if (write(file.fd, bytes, (size_t)got) != got)
			break;
	}
	if (got == 0)
		return gm_whole_file_finish(&file);
	struct gm_error *error = gm_error_os(GM_TARGET, errno, "%s: cannot be written", to);
	gm_whole_file_close(&file);
	return error;
}

static struct gm_error *save(const char *from, const char *to)
{
	struct stat about, there;
	_cleanup_close_ int fd = -1;
	gm_try(open_recording(from, &fd, &about));
	if (stat(to, &there) == 0 && there.st_dev == about.st_dev && there.st_ino == about.st_ino)
		return NULL; /* recording continues there */
	return copy(fd, to);
}

int gpumem_save_recording(const char *from, const char *to, char **ret_err)
{
	*ret_err = NULL;
	_cleanup_error_ struct gm_error *error = save(from, to);
	if (!error)
		return GM_OK;
	*ret_err = strdup(error->message);
	return error->status;
}
