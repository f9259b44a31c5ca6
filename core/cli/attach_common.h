/* For `attach` and `detach`: the process that is named, and what both say of it. */
#ifndef GM_CLI_ATTACH_COMMON_H
#define GM_CLI_ATTACH_COMMON_H

#include "ask/context.h"
#include "cli/arguments.h"
#include "cli/attach_way.h"
#include "inject/inject.h"

/* Sets the context's pid to the first argument. name: the command's, for errors. */
struct gm_error *gm_attach_take_pid(
        struct gm_context *context, const char *name, const struct gm_arguments *arguments);
/* The context's process, held (what it gives is deinitialised by the caller), and the readers of
 * its memory and symbols, which the context owns. */
struct gm_error *gm_attach_open(struct gm_context *context, struct gm_inject_identity *identity,
        struct gm_image **ret_image, struct gm_symbols **ret_symbols);
/* The error of an agent that cannot yet do what it was asked to do. what: "start" */
struct gm_error *gm_attach_still_waiting(int pid, const char *what);
/* A line that says what takes time, on `err`; an options->waits. */
struct gm_attach_waiting {
	FILE *err;
	int pid;
	uint64_t seconds;
};
void gm_attach_put_wait(void *waiting, enum gm_inject_wait what);
/* stopped: seconds for which threads of the process were stopped. */
struct gm_error *gm_attach_put_json(FILE *out, int pid, double stopped,
        const struct gm_attach_way *way, const struct gm_injected *injected);

#endif
