/* The session's inner side, for main.c: the same as gpumem_session_run() with real streams. */
#ifndef GM_CLI_SESSION_H
#define GM_CLI_SESSION_H

#include <stdio.h>

#include "ask/context.h"
#include "gpumem.h"

/* The session of a shell command: questions must name what they are about. */
void gm_session_set_shell(gpumem_session *session);
/* What the session looks at. */
struct gm_context *gm_session_context(gpumem_session *session);
int gm_session_run(
        gpumem_session *session, int argc, const char *const *argv, FILE *out, FILE *err);

#endif
