/*
 * Sessions: what public functions and the shell command hold on to between questions, and how a
 * command is run in one.
 *
 * A command is run under one lock of the process, as some of its state is the process's: whether an
 * allocation failed (base/allocation.h), and which signals are held back while a program is stopped
 * (ask/target/pause.h).
 */
#ifndef GM_CLI_SESSION_H
#define GM_CLI_SESSION_H

#include <stdbool.h>
#include <stdio.h>

#include "ask/context.h"
#include "cli/progress.h"
#include "gpumem.h"
#include "image/image.h"

struct gm_remote_process;

/* What a session of gpumem_session_open() is about: what a user would type. */
struct gm_session_source {
	char *recording, *core, *sysroot, *layouts, *loop; /* owned; NULL: none */
	int process, thread;                               /* 0: none */
	bool no_pause, no_learn;
};

struct gpumem_session {
	struct gm_context context;
	struct gm_progress_line line;
	struct gm_progress progress; /* writes to that line, or calls the library's user */
	char *core;                  /* the debugger's, NULL: none; owned */
	char *log; /* the debugger's recording; a FILE argument stands for it in one command; owned
	            */
	struct gm_remote_process *remote;           /* owned; NULL: none */
	gpumem_progress_callback progress_callback; /* the library's user's; NULL: none */
	void *progress_context;
	bool quiet;   /* gm_session_set_quiet() */
	bool library; /* of gpumem_session_open(): asks as a shell does, and runs questions only */
	struct gm_session_source source;
	char *notes; /* of the last question, NULL: none; owned */
};

/* The session of a shell command: questions must name what they are about. */
void gm_session_set_shell(gpumem_session *session);
/* Notes of commands, such as where a recording lies, are dropped. Errors are not, nor that an
 * answer is of a part of a file. */
void gm_session_set_quiet(gpumem_session *session, bool quiet);
/* What the session looks at. */
struct gm_context *gm_session_context(gpumem_session *session);
/* One command at a time: held while it runs. */
void gm_session_lock(void);
void gm_session_unlock(void);
/* Runs a command. The caller writes the error, if it wants to. */
struct gm_error *gm_session_ask(gpumem_session *session, int argc, const char *const *argv,
        FILE *out, FILE *err, int *ret_status);
/* The same as gpumem_session_run() with real streams. */
int gm_session_run(
        gpumem_session *session, int argc, const char *const *argv, FILE *out, FILE *err);

#endif
