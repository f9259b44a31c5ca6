/* Where the control groups of a process lie. */
#ifndef GM_INJECT_GROUP_H
#define GM_INJECT_GROUP_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* A control group: its files lie in the folder of these two together. */
struct gm_inject_group {
	char *mount, *name; /* owned */
};

/* That of a process in version 1's hierarchy of this controller, or (NULL) in version 2's. False:
 * there is none that is seen from here. */
bool gm_inject_group(pid_t pid, const char *controller, struct gm_inject_group *ret_group);
void gm_inject_group_deinit(struct gm_inject_group *group);
FILE *gm_inject_group_open(const struct gm_inject_group *group, const char *file); /* or NULL */

#endif
