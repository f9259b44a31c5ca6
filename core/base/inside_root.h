/*
 * Opens files of another root: of a process in a container, "/proc/PID/root/usr/lib/…". A symbolic
 * link there is of that root as well: "/etc/shadow" and "../../../etc/shadow" are the container's
 * own files and never the host's.
 */
#ifndef GM_BASE_INSIDE_ROOT_H
#define GM_BASE_INSIDE_ROOT_H

#include <stdbool.h>

/* Whether a path begins with a process's root; *ret_path: what is after it. */
bool gm_inside_root(const char *path, const char **ret_path);

/*
 * As openat(root, path, flags), where all links lead to files below `root`. -1 and errno; ELOOP:
 * too many links, or one of the kernel's own (/proc/self/fd/3), which leads anywhere.
 */
int gm_inside_root_open(int root, const char *path, int flags);
/* The same, as it is done where the kernel has no openat2() (before Linux 5.6, or in a filter). */
int gm_inside_root_walk(int root, const char *path, int flags);

#endif
