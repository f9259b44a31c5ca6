/*
 * Our own entries in LD_PRELOAD: which they are, and an environment without them. As program.h, it
 * runs between vfork and exec.
 */
#ifndef GM_PRELOAD_ENVIRONMENT_H
#define GM_PRELOAD_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* Has LD_PRELOAD an entry of ours? NULL is an empty environment. */
bool gm_preload_has_ours(char *const *environment);

/* Can this thread's user open each entry of ours that is a path, as the dynamic linker will? */
bool gm_preload_reaches_ours(char *const *environment);

/*
 * An environment without our entries: others' stay in their order, and LD_PRELOAD goes where none
 * are left. It refers to `environment`, which stays as it is.
 */
enum { GM_PRELOAD_CAPACITY = 4096 };
struct gm_preload_environment {
	void *mapped; /* NULL: `inline_list` suffices, as it does for some 400 variables */
	size_t mapped_size;
	char *inline_list[GM_PRELOAD_CAPACITY / sizeof(char *)];
};
/* No memory: `environment` itself. The result is within `made`. */
char *const *gm_preload_without_ours(struct gm_preload_environment *made, char *const *environment);
void gm_preload_environment_deinit(struct gm_preload_environment *made); /* errno stays */

#endif
