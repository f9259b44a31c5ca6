/*
 * A program on the simulated device that tells its answer in lines: it is started, given a file as
 * its standard input, listened to until it ends.
 *
 * What it writes elsewhere than in the lines that are searched for is kept only as far as an error
 * needs it. It ends with us.
 */
#ifndef GM_SIM_LISTEN_H
#define GM_SIM_LISTEN_H

#include <stdbool.h>

#include "base/error.h"
#include "base/tail.h"
#include "sim/launch.h"

struct gm_sim_program {
	const char *const *argv; /* NULL at the end; argv[0] is searched for in PATH */
	struct gm_sim_launch launch;
	int input; /* its standard input */
	/* A line of its standard output, without its end; of a long one the beginning. */
	void (*line)(void *data, const char *line);
	void *data;
};

enum { GM_SIM_LINE = 1024 };

struct gm_sim_listened {
	bool stopped;          /* by a signal to us: it was ended */
	int status;            /* as of waitpid() */
	struct gm_tail errors; /* the end of its standard error */
	char line[GM_SIM_LINE];
	size_t length;
};

struct gm_error *gm_sim_listen(
        const struct gm_sim_program *program, struct gm_sim_listened *ret_listened);

#endif
