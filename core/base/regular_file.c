#include "base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int gm_regular_file_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
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
	return os_error == EINVAL ? "it is no regular file" : strerror(os_error);
}
