/* The probe's process: started, listened to, ended. Internal to core/learn. */
#ifndef GM_LEARN_PROBE_H
#define GM_LEARN_PROBE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "learn/options.h"

struct gm_probe {
	pid_t pid;    /* the group's leader; 0: none */
	pid_t python; /* the process that answered: a script may have started it */
	int hold;     /* its standard input: it ends when this is closed */
	char *text;   /* what it passed, NUL after it; owned */
	size_t size;
};

/* Starts it and waits until it has passed everything and is stopped. GM_TARGET: it took too
 * long, ended before, or said no more sense: then it is gone, and so is its whole group. */
struct gm_error *gm_probe_start(const struct gm_learn_options *options, struct gm_probe *ret_probe);
/* Ends its whole group. */
void gm_probe_end(struct gm_probe *probe);

#endif
