/* A script for the program's own Python, and the folder in which it lies. Internal to core/inject.
 */
#ifndef GM_INJECT_SCRIPT_FOLDER_H
#define GM_INJECT_SCRIPT_FOLDER_H

#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>

enum { GM_SCRIPT_PATH = 512 };

/*
 * A folder that only our user can enter, with the script and what the script tells in it. It is
 * locked (flock) as long as we are there. Files: attach.py, the script; go, without which the
 * script does nothing; loaded, the agent is in the process; failed, the script's error.
 */
struct gm_script_folder {
	int descriptor;
	char path[GM_SCRIPT_PATH];
};

struct gm_script_text {
	uint64_t function;    /* of the agent, 0: it is to be loaded */
	const char *agent;    /* its file */
	const char *name;     /* of the function */
	const char *settings; /* NULL: the function takes none */
	int pid;              /* in no other process: a child may be forked with the request */
	uint32_t ticket;
};

/* Makes the folder for process `pid`. The caller removes it. */
struct gm_error *gm_script_folder_make(pid_t pid, struct gm_script_folder *ret_folder);
void gm_script_folder_remove(struct gm_script_folder *folder);
/* Writes the script. *ret_path: its path; the caller frees it. */
struct gm_error *gm_script_write(
        const struct gm_script_folder *folder, const struct gm_script_text *text, char **ret_path);
/* The script does nothing from now on, where it has not begun. */
void gm_script_forbid(const struct gm_script_folder *folder);
bool gm_script_has_loaded(const struct gm_script_folder *folder);
/* The script's error, printable; false: it has told none. */
bool gm_script_has_failed(const struct gm_script_folder *folder, char *ret_text, size_t size);

/*
 * Removes folders that an earlier gpumem left when it was killed: those of processes that are gone,
 * and that of `pid`. Before the latter, `withdraw` is called with the folder's path: the process
 * may still have the request.
 */
void gm_script_remove_left_over(
        pid_t pid, void (*withdraw)(void *context, const char *folder), void *context);

#endif
