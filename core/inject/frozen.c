/*
 * Whether a process is frozen by its control group, as a paused container is: its threads run
 * nothing then, not even what a tracer asks of them.
 *
 *   version 2   cgroup.events has the line "frozen 1", also where a group above it was frozen
 *   version 1   freezer.state is FROZEN or FREEZING
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "inject/group.h"
#include "inject/internal.h"

static bool says(const struct gm_inject_group *group, const char *name, const char *first,
        const char *second)
{
	char text[256];
	_cleanup_fclose_ FILE *file = gm_inject_group_open(group, name);
	size_t got = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[got] = 0;
	return strstr(text, first) || strstr(text, second);
}

/* The state of the group of one controller; NULL: that of version 2. */
static struct gm_error *check_group(pid_t pid, const char *controller)
{
	_cleanup_(gm_inject_group_deinit) struct gm_inject_group group = {0};
	if (!gm_inject_group(pid, controller, &group))
		return NULL;
	if (controller ? says(&group, "freezer.state", "FROZEN", "FREEZING")
	               : says(&group, "cgroup.events", "frozen 1", "frozen 1"))
		return gm_error_create(GM_TARGET,
		        "process %d: its control group %s is frozen (a paused container), and "
		        "nothing runs in it: thaw it first",
		        pid, group.name);
	return NULL;
}

struct gm_error *gm_inject_frozen_check(pid_t pid)
{
	gm_try(check_group(pid, NULL));
	return check_group(pid, "freezer");
}
