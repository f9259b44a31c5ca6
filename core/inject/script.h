/* What script.c, script_folder.c and inject.c share: a request to the program's own Python. */
#ifndef GM_INJECT_SCRIPT_H
#define GM_INJECT_SCRIPT_H

#include "inject/inject.h"

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

/* ---- script.c ---- */

struct gm_script_call {
	struct gm_image *image;
	struct gm_symbols *symbols;
	const struct gm_inject_options *options;
	bool start;
	bool loaded; /* the agent is in the process */
	double until;
	/* filled in by gm_inject_by_script() */
	uint32_t ticket;   /* 0: nothing was asked yet */
	uint64_t function; /* as in gm_script_text */
	uint64_t beside;   /* the agent's variable, 0: not found yet */
};

/*
 * Starts or stops the agent by a script that the program's Python runs, and fills in what came of
 * it. An error says why it cannot be done so, as ret_injected->refusal does; then nothing was done,
 * and nothing will be.
 */
struct gm_error *gm_inject_by_script(struct gm_script_call *call, struct gm_injected *ret_injected);
/* Whether the agent was begun by the script after all: it may have come by just as that was
 * withdrawn. */
bool gm_inject_script_came(struct gm_script_call *call, int *ret_result);

#endif
