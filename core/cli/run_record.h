/*
 * `gpumem run`: starts a program with the agent preloaded, waits for it, and puts what was recorded
 * into its final form.
 */
#ifndef GM_CLI_RUN_RECORD_H
#define GM_CLI_RUN_RECORD_H

#include <stdio.h>

#include "base/error.h"
#include "cli/run_settings.h"

/*
 * Runs argv to its end; streams and signals are the program's own. ret_status is its exit status;
 * where a signal ended it, this process ends by the same. `variables`: NULL-ended "NAME=VALUE"
 * that are added to the program's environment.
 */
struct gm_error *gm_run_record(const struct gm_run_record *record, char **argv, char **variables,
        FILE *err, int *ret_status);

#endif
