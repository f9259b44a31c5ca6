/*
 * Whether the control groups of a process have the memory that the agent's start needs. At a
 * group's limit the kernel kills one of its processes instead of failing the request.
 *
 *   version 2   memory.max, memory.current, memory.stat
 *   version 1   memory.limit_in_bytes, memory.usage_in_bytes, memory.stat
 *
 * A group's usage includes the groups below it. File cache that no process needs is released first,
 * and the kernel may swap: the machine's swap counts as free.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "inject/group.h"
#include "inject/memory.h"

/* Half of it was the most that a start took, with PyTorch and twenty thousand blocks. */
static const uint64_t NEEDED = UINT64_C(2) << 20;

/* UINT64_MAX: no file, or no number ("max"). */
static uint64_t number_in(const struct gm_inject_group *group, const char *name)
{
	uint64_t number;
	_cleanup_fclose_ FILE *file = gm_inject_group_open(group, name);
	return file && fscanf(file, "%" SCNu64, &number) == 1 ? number : UINT64_MAX;
}

/* The sum of the lines "NAME NUMBER" of a file with one of these names; NULL ends the list. */
static uint64_t sum_of(FILE *file, const char *const *names)
{
	char line[256], name[64];
	uint64_t number, sum = 0;
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%63s %" SCNu64, name, &number) != 2)
			continue;
		for (size_t i = 0; names[i]; i++)
			sum += strcmp(name, names[i]) == 0 ? number : 0;
	}
	return sum;
}

/* UINT64_MAX: it has no known limit. */
static uint64_t free_in(const struct gm_inject_group *group, bool second)
{
	uint64_t limit = number_in(group, second ? "memory.max" : "memory.limit_in_bytes"),
	         used = number_in(group, second ? "memory.current" : "memory.usage_in_bytes");
	if (limit == UINT64_MAX || used == UINT64_MAX)
		return UINT64_MAX;
	static const char *const names[2][4] = {{"total_active_file", "total_inactive_file"},
	        {"active_file", "inactive_file", "slab_reclaimable"}};
	_cleanup_fclose_ FILE *file = gm_inject_group_open(group, "memory.stat");
	uint64_t given_up = sum_of(file, names[second]);
	used -= given_up < used ? given_up : used;
	return used < limit ? limit - used : 0;
}

static bool may_swap(void)
{
	static const char *const names[] = {"SwapFree:", NULL};
	_cleanup_fclose_ FILE *file = fopen("/proc/meminfo", "re");
	return sum_of(file, names) * 1024 >= NEEDED;
}

struct gm_error *gm_inject_memory_check(pid_t pid)
{
	_cleanup_(gm_inject_group_deinit) struct gm_inject_group group = {0};
	bool second = !gm_inject_group(pid, "memory", &group);
	if ((second && !gm_inject_group(pid, NULL, &group)) || may_swap())
		return NULL;
	for (;;) {
		uint64_t free = free_in(&group, second);
		char left[GM_SIZE_TEXT], needed[GM_SIZE_TEXT];
		if (free < NEEDED)
			return gm_error_create(GM_TARGET,
			        "process %d: its control group %s has %s of memory left, and the "
			        "kernel would end a process of it before the agent has %s: raise "
			        "the "
			        "group's limit",
			        pid, *group.name ? group.name : "/", gm_text_size(free, left),
			        gm_text_size(NEEDED, needed));
		char *slash = strrchr(group.name, '/');
		if (!slash || !*group.name)
			return NULL;
		*slash = 0;
	}
}
