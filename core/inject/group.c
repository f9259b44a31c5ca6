/* The control groups of a process. /proc/PID/cgroup has one line "NUMBER:CONTROLLERS:GROUP" for
 * each: one for version 2 ("0::GROUP"), and one for each hierarchy of version 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "inject/group.h"

/* Does the list "a,b,c" contain this word? */
static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);
	for (const char *at = list; at; at = strchr(at, ','), at += at != NULL)
		if (strncmp(at, word, length) == 0 && (!at[length] || at[length] == ','))
			return true;
	return false;
}

/* The mount point of the hierarchy. NULL: not mounted, or only a part of it. */
static char *mount_of(const char *controller)
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
		if (known && (!controller ? strcmp(type, "cgroup2") == 0
		                          : strcmp(type, "cgroup") == 0 && options &&
		                                     has_word(options + 1, controller)))
			return place;
		free(place);
	}
	return NULL;
}

bool gm_inject_group(pid_t pid, const char *controller, struct gm_inject_group *ret_group)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	while (file && getline(&line, &size, file) > 0) {
		line[strcspn(line, "\n")] = 0;
		char *controllers = strchr(line, ':'),
		     *name = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!name)
			continue;
		*controllers++ = *name++ = 0;
		if (controller ? !has_word(controllers, controller) : *controllers != 0)
			continue;
		struct gm_inject_group group = {.mount = mount_of(controller)};
		if (group.mount)
			group.name = strdup(name);
		if (group.name) {
			*ret_group = group;
			return true;
		}
		free(group.mount);
		return false;
	}
	return false;
}

void gm_inject_group_deinit(struct gm_inject_group *group)
{
	free(group->mount);
	free(group->name);
}

FILE *gm_inject_group_open(const struct gm_inject_group *group, const char *file)
{
	_cleanup_free_ char *path = NULL;
	if (asprintf(&path, "%s%s/%s", group->mount, group->name, file) < 0) {
		path = NULL;
		return NULL;
	}
	return fopen(path, "re");
}
