/*
 * View: a recording as one HTML page that needs no network. The page has its program (page/), and
 * the recording as compressed columns, which docs/view-format.md describes. The columns contain the
 * results of the model and the questions; the page only computes sums of them.
 *
 * The page's markup contains no names of the program: all data of a recording is in the columns,
 * which are base64.
 *
 * This room may include render, ask, model and base. It parses no arguments (cli) and
 * answers no question of its own.
 */
#ifndef GM_VIEW_VIEW_H
#define GM_VIEW_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ask/context.h"

struct gm_view_options {
	const char *other; /* the path of another recording that it is compared with, which is
	                      read on its own; NULL: none */
	bool sources;      /* with the lines of source files of this machine */
};

struct gm_view_account {
	uint64_t events, blocks;
	uint64_t devices; /* those with events */
};

/* Writes the page of the context's recording. Whether `out` took it all is the caller's to see.
 * It needs about 1/40 of the model's memory, and some for each distinct stack.
 */
struct gm_error *gm_view_write(struct gm_context *context, const struct gm_view_options *options,
        FILE *out, struct gm_view_account *ret_account);

#endif
