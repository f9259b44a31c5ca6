/* One run of a program on a simulated device for `gpumem fit`: started, waited for, judged. */
#ifndef GM_CLI_FIT_RUN_H
#define GM_CLI_FIT_RUN_H

#include <limits.h>
#include <stdio.h>

#include "ask/fit.h"

enum { GM_FIT_TAIL = 2000 };

struct gm_fit_running {
	const struct gm_fit_table *table;
	char **program;
	const struct gm_fit_cell *cell; /* which device, values and measures */
	char folder[PATH_MAX];          /* the run's files; owned */
	/* Of the last run. */
	bool failed;            /* for another reason than memory */
	char tail[GM_FIT_TAIL]; /* the end of what it printed, where it failed */
	unsigned applied;       /* measures of the cell's way that changed something, as bits */
};

/* Makes the folder. */
struct gm_error *gm_fit_running_init(struct gm_fit_running *running);
void gm_fit_running_deinit(const struct gm_fit_running *running);
/* A gm_fit_try; `data`: a gm_fit_running. */
struct gm_error *gm_fit_run_once(void *data, int64_t value, struct gm_fit_run *ret_run);

/* Ctrl-C reaches the program too: the run ends, and we go on to tidy up. */
void gm_fit_take_signals(void);
/* The signal that came; 0: none. The handlers are those of before again. */
int gm_fit_release_signals(void);

#endif
