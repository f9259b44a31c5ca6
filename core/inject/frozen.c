/*
 * Whether a process is frozen by its control group, as a paused container is: its threads run
 * nothing then, not even what a tracer asks of them.
 *
 *   version 2   MOUNT/GROUP/cgroup.events has the line "frozen 1", also where a
 *               group above it was frozen
 *   version 1   MOUNT/GROUP/freezer.state is FROZEN or FREEZING
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "inject/internal.h"

/* Does the list "a,b,c" have this word? */
static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);
	for (const char *at = list; at; at = strchr(at, ','), at += at != NULL)
		if (strncmp(at, word, length) == 0 && (!at[length] || at[length] == ','))
			return true;
	return false;
}

/* Where the hierarchy is mounted: version 2, or that of the freezer. NULL: nowhere, or only a part
 * of it. */
static char *mount_of(bool second)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	while (file && getline(&line, &size, file) > 0) {
		char *root = NULL, *place = NULL, type[16] = "";
		char *rest = strstr(line, " - ");
		line[strcspn(line, "\n")] = 0;
		bool known = sscanf(line, "%*s %*s %*s %ms %ms", &root, &place) == 2 &&
		             strcmp(root, "/") == 0 && rest && sscanf(rest, " - %15s", type) == 1;
		free(root);
		const char *options = rest ? strrchr(rest, ' ') : NULL;
		if (known && (second ? strcmp(type, "cgroup2") == 0
		                     : strcmp(type, "cgroup") == 0 && options &&
		                                     has_word(options + 1, "freezer")))
			return place;
		free(place);
	}
	return NULL;
}

static bool says(const char *mount, const char *group, const char *name, const char *first,
        const char *second)
{
	_cleanup_free_ char *path = NULL;
	char text[256] = "";
	if (!mount || asprintf(&path, "%s%s/%s", mount, group, name) < 0) {
		path = NULL;
		return false;
	}
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	size_t got = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[got] = 0;
	return strstr(text, first) || strstr(text, second);
}

/* A line of /proc/PID/cgroup: "NUMBER:CONTROLLERS:GROUP". */
static bool is_frozen(const char *controllers, const char *group)
{
	bool second = !*controllers;
	if (!second && !has_word(controllers, "freezer"))
		return false;
	_cleanup_free_ char *mount = mount_of(second);
	return second ? says(mount, group, "cgroup.events", "frozen 1", "frozen 1")
	              : says(mount, group, "freezer.state", "FROZEN", "FREEZING");
}

struct gm_error *gm_inject_frozen_check(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	while (file && getline(&line, &size, file) > 0) {
		line[strcspn(line, "\n")] = 0;
		char *controllers = strchr(line, ':'),
		     *group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!group)
			continue;
		*controllers++ = *group++ = 0;
		if (is_frozen(controllers, group))
			return gm_error_create(GM_TARGET,
			        "process %d: its control group %s is frozen (a paused container), "
			        "and nothing runs in it: thaw it first",
			        pid, group);
	}
	return NULL;
}
