/*
 * The answer on a terminal. Lines that are too long go on in the next line, between two words. An
 * answer that does not fit on the screen goes through a pager, as git's: $GPUMEM_PAGER, else
 * $PAGER, else less with LESS=FRX. Only the shell command does so, and only on a terminal; gdb has
 * a pagination of its own.
 */
#ifndef GM_CLI_PAGER_H
#define GM_CLI_PAGER_H

#include <stdbool.h>
#include <stdio.h>

struct gm_pager;

/* A stream for the answer, on a terminal of this size; `pages`: with a pager. NULL: the terminal
 * has no size, or no memory. The first megabyte is held back. */
struct gm_pager *gm_pager_open(int rows, int columns, bool pages, FILE **ret_stream);
/* Writes the rest, and waits until the user has read it. False: it could not be written. */
bool gm_pager_close(struct gm_pager *pager, FILE *stream);

#endif
