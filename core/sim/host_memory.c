#include "sim/host_memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MOST = 16 << 10 };

/* The text of a small file, with a NUL; false if it cannot be read. No allocation, because this is
 * called when memory is short. */
static bool text_of(const char *path, char *text)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = 0, n = file < 0 ? -1 : 1;
	while (n > 0 && size < FILE_MOST - 1) {
		n = read(file, text + size, (size_t)(FILE_MOST - 1 - size));
		size += n > 0 ? n : 0;
	}
	if (file >= 0)
		close(file);
	text[size] = 0;
	return n >= 0;
}

/* The number after `name` at the beginning of a line; false if there is none. */
static bool field(const char *text, const char *name, uint64_t *ret)
{
	size_t length = strlen(name);
	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, name, length) != 0)
			continue;
		char *end;
		*ret = strtoull(at + length, &end, 10);
		return end != at + length;
	}
	return false;
}

static void least(struct gm_sim_host_memory *ret, uint64_t left, uint64_t whole)
{
	if (left < ret->left)
		*ret = (struct gm_sim_host_memory){left, whole};
}

/* The folder of one group. "max" and version 1's huge number mean no limit. */
static void group(const char *folder, bool second, char *text, struct gm_sim_host_memory *ret)
{
	char path[PATH_MAX + 64];
	uint64_t limit, used, file = 0;
	snprintf(path, sizeof(path), "%s/%s", folder,
	        second ? "memory.max" : "memory.limit_in_bytes");
	if (!text_of(path, text) || !field(text, "", &limit) || limit > UINT64_C(1) << 60)
		return;
	snprintf(path, sizeof(path), "%s/%s", folder,
	        second ? "memory.current" : "memory.usage_in_bytes");
	if (!text_of(path, text) || !field(text, "", &used))
		return;
	snprintf(path, sizeof(path), "%s/memory.stat", folder);
	if (text_of(path, text))
		field(text, second ? "inactive_file " : "total_inactive_file ", &file);
	used -= file < used ? file : used;
	least(ret, limit > used ? limit - used : 0, limit);
}

/* The group of a line of /proc/self/cgroup and all groups above it; a container may see its own as
 * the root. */
static void groups(
        const char *mount, const char *own, bool second, char *text, struct gm_sim_host_memory *ret)
{
	char folder[PATH_MAX];
	int top = snprintf(folder, sizeof(folder), "%s", mount);
	if (top <= 0 || snprintf(folder + top, sizeof(folder) - (size_t)top, "%s", own) >=
	                        (int)sizeof(folder) - top)
		return;
	for (;;) {
		size_t length = strlen(folder);
		while (length > (size_t)top && folder[length - 1] == '/')
			folder[--length] = 0;
		group(folder, second, text, ret);
		char *slash = strrchr(folder + top, '/');
		if (!slash)
			return;
		*slash = 0;
	}
}

void gm_sim_host_memory(const char *root, struct gm_sim_host_memory *ret)
{
	char text[FILE_MOST], list[FILE_MOST];
	char path[PATH_MAX], mount[PATH_MAX];
	uint64_t total = 0, available;
	*ret = (struct gm_sim_host_memory){UINT64_MAX, UINT64_MAX};
	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	if (text_of(path, text) && field(text, "MemTotal:", &total) &&
	        field(text, "MemAvailable:", &available) && available <= UINT64_MAX >> 10)
		least(ret, available << 10, total << 10);
	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	if (!text_of(path, list))
		return;
	for (char *line = list, *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		/* "0::/path" in version 2; "4:memory:/path" in version 1. */
		char *names = strchr(line, ':'), *own = names ? strchr(names + 1, ':') : NULL;
		if (!own || own[1] != '/')
			continue;
		*own++ = 0;
		if (!names[1]) {
			snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup", root);
			groups(mount, own, true, text, ret);
		} else if (strcmp(names + 1, "memory") == 0) {
			snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/memory", root);
			groups(mount, own, false, text, ret);
		}
	}
}
