#include "base/trusted_path.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static bool is_ours(const char *path)
{
	struct stat status;
	if (lstat(path, &status) != 0 || (status.st_uid != geteuid() && status.st_uid != 0))
		return false;
	/* The mode of a link says nothing: its folder's does. */
	if (S_ISLNK(status.st_mode) || (S_ISDIR(status.st_mode) && status.st_mode & S_ISVTX))
		return true;
	bool group = status.st_mode & S_IWGRP && status.st_gid != getegid() && status.st_gid != 0;
	return !group && !(status.st_mode & S_IWOTH);
}

/* Of an absolute path, whose text is changed meanwhile. */
static bool are_ours(char *path)
{
	if (!is_ours("/"))
		return false;
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		bool ours = is_ours(path);
		*slash = '/';
		if (!ours)
			return false;
	}
	return is_ours(path);
}

bool gm_path_is_trusted(const char *path)
{
	char here[PATH_MAX];
	char *whole = NULL;
	if (*path == '/')
		whole = strdup(path);
	else if (!getcwd(here, sizeof(here)) || asprintf(&whole, "%s/%s", here, path) < 0)
		whole = NULL;
	_cleanup_free_ char *named = whole, *real = realpath(path, NULL);
	return named && real && are_ours(named) && are_ours(real);
}
