/*
 * The options of the simulated device, which `gpumem run` and `gpumem gdb` share. Both take another
 * program's options as well, so that argp does not read theirs.
 */
#ifndef GM_CLI_SIM_OPTIONS_H
#define GM_CLI_SIM_OPTIONS_H

#include "base/error.h"
#include "sim/launch.h"

/* An option with a value. */
struct gm_value_option {
	const char *name; /* "--rank" */
	const char **value;
};

/*
 * Where argv[*index] is one of `options`, as `--NAME VALUE` or `--NAME=VALUE`, *value points to its
 * value and *index to the last word that it takes. *ret_is tells whether it is one. `command` is
 * for the message where the value is missing. `options` end with {0}.
 */
struct gm_error *gm_value_option(const char *command, const struct gm_value_option *options,
        int argc, char **argv, int *index, bool *ret_is);

/* The same for --compute-below, --overflow-at, --rank and --world. */
struct gm_error *gm_sim_option(const char *command, struct gm_sim_launch *launch, int argc,
        char **argv, int *index, bool *ret_is);

/* Refuses these options where there is no simulated device. */
struct gm_error *gm_sim_options_check(
        const char *command, const struct gm_sim_launch *launch, bool simulated);

#endif
