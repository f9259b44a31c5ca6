#include "base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/inside_root.h"

static int open_anything(const char *path)
{
	const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	const char *inside;
	if (!gm_inside_root(path, &inside))
		return open(path, flags);
	_cleanup_free_ char *root_path = strndup(path, (size_t)(inside - path));
	_cleanup_close_ int root =
	        root_path ? open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	return root < 0 ? -1 : gm_inside_root_open(root, inside, flags);
}

int gm_regular_file_open(const char *path)
{
	int fd = open_anything(path);
	struct stat about;
	if (fd < 0 || (fstat(fd, &about) == 0 && S_ISREG(about.st_mode)))
		return fd;
	close(fd);
	errno = EINVAL;
	return -1;
}

FILE *gm_regular_file_stream(const char *path)
{
	int fd = gm_regular_file_open(path);
	FILE *stream = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (fd >= 0 && !stream)
		close(fd);
	return stream;
}

const char *gm_regular_file_why(int os_error)
{
	return os_error == EINVAL ? "it is not a regular file" : strerror(os_error);
}
