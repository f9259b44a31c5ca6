/* By which way `attach` and `detach` come into a process: by its own Python (PEP 768), or by one of
 * its threads. */
#ifndef GM_CLI_ATTACH_WAY_H
#define GM_CLI_ATTACH_WAY_H

#include "ask/context.h"
#include "inject/inject.h"

struct gm_attach_way {
	enum gm_inject_way wanted;
	const char *refused; /* a word that says why it cannot be Python's; NULL: it can, or was not
	                        looked at */
	struct gm_inject_python python;
};

/* The value of --way. */
struct gm_error *gm_attach_way_parse(const char *text, enum gm_inject_way *ret_way);
/*
 * Finds where the process's Python takes a script. An error only where that way alone is wanted and
 * is not there. Fills in `options`, which refer to `way` from then on.
 */
struct gm_error *gm_attach_way_prepare(
        struct gm_attach_way *way, struct gm_context *context, struct gm_inject_options *options);
/* "python" or "thread". */
const char *gm_attach_way_name(const struct gm_injected *injected);
/* Why it was not Python's, in a word; NULL: it was, or it was not asked for. */
const char *gm_attach_way_refused(
        const struct gm_attach_way *way, const struct gm_injected *injected);

#endif
