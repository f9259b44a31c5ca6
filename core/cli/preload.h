/* Can a program load what is preloaded into it? */
#ifndef GM_CLI_PRELOAD_H
#define GM_CLI_PRELOAD_H

#include <stdbool.h>

/*
 * Is the program, found as execvp() finds it, one of musl? Its loader takes LD_PRELOAD, finds that
 * the agent wants glibc, and ends the program: so nothing may be preloaded. Of a script its
 * interpreter counts. What cannot be read is none.
 */
bool gm_program_is_of_musl(const char *name);

#endif
