/* `attach --export` and `--textfile`: figures of a recorded process for a monitoring system, until
 * it ends. */
#ifndef GM_CLI_ATTACH_EXPORT_H
#define GM_CLI_ATTACH_EXPORT_H

#include <stdio.h>

#include "ask/context.h"

struct gm_attach_export {
	const char *address;  /* as of gm_http_server_create(); NULL: no server */
	const char *textfile; /* NULL: none */
	uint64_t interval;    /* seconds, between two writes of it */

	struct gm_http_server *server;
	char *recording; /* path; NULL: it has none so far */
	/* The last answer, and until when (monotonic seconds) it is good enough: a page that is
	 * asked for in a loop must not cost more than a quarter of a processor. */
	struct {
		char *text;
		size_t size;
		double until;
	} pages[2];
	struct gm_context *context;
};

/* Before the process is attached to: what is wrong with the address or the name of the file. */
struct gm_error *gm_attach_export_prepare(
        struct gm_attach_export *export, struct gm_context *context);
/* Serves until the process ends or a signal comes. Takes the path, which is NULL where a recorded
 * process has used no device so far. */
struct gm_error *gm_attach_export_run(struct gm_attach_export *export, char *path, FILE *out);
void gm_attach_export_deinit(struct gm_attach_export *export);

#endif
