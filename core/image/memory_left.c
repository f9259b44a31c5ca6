#include "image/memory_left.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Documentation/filesystems/proc.rst, meminfo: "MemAvailable:   12345 kB". */
static uint64_t machine_left(void)
{
	char line[256];
	unsigned long long kilobytes;
	_cleanup_fclose_ FILE *file = fopen("/proc/meminfo", "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1)
			return kilobytes << 10;
	return 0;
}

static bool read_number(const char *folder, const char *name, uint64_t *ret_number)
{
	char path[PATH_MAX + 64];
	unsigned long long number;
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", folder, name);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (!file || fscanf(file, "%llu", &number) != 1) /* no limit reads "max" */
		return false;
	*ret_number = number;
	return true;
}

/* Documentation/admin-guide/cgroup-v2.rst: /proc/self/cgroup has "0::/path"; each folder above
 * counts too. */
static uint64_t groups_left(uint64_t left)
{
	char line[PATH_MAX];
	_cleanup_fclose_ FILE *file = fopen("/proc/self/cgroup", "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "0::/", 4) != 0)
			continue;
		char *folder = line + 3;
		folder[strcspn(folder, "\n")] = 0;
		for (;;) {
			uint64_t most, used;
			if (read_number(folder, "memory.max", &most) &&
			        read_number(folder, "memory.current", &used)) {
				uint64_t here = most > used ? most - used : 0;
				left = here < left ? here : left;
			}
			char *slash = strrchr(folder, '/');
			if (!slash || !*folder)
				break;
			*slash = 0;
		}
	}
	return left;
}

uint64_t gm_memory_left(void)
{
	return groups_left(machine_left());
}
