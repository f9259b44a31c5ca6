/*
 * The pager of a long answer on a terminal, as git has it: $GPUMEM_PAGER, else $PAGER, else less
 * with LESS=FRX. An answer that fits on the screen is written directly. Only the shell command
 * pages, and only to a terminal; gdb has a pagination of its own.
 */
#ifndef GM_CLI_PAGER_H
#define GM_CLI_PAGER_H

#include <stdbool.h>
#include <stdio.h>

struct gm_pager;

/* A stream for the answer, on a terminal of this size. NULL: there is nothing to page with, or no
 * memory. Its first megabyte is held back. */
struct gm_pager *gm_pager_open(int rows, int columns, FILE **ret_stream);
/* Writes the rest, and waits until the user has read it. False: it could not be written. */
bool gm_pager_close(struct gm_pager *pager, FILE *stream);

#endif
