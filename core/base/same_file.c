#include "base/same_file.h"

#include <sys/stat.h>

bool gm_same_file(const char *path, const char *other)
{
	struct stat a, b;
	return path && other && stat(path, &a) == 0 && stat(other, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}
