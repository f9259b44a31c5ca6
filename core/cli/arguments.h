/*
 * Arguments of a command: GNU argp over a table of options, with --json and --help on every
 * question. Errors come back as struct gm_error (GM_USAGE), nothing is printed but help, to `out`.
 */
#ifndef GM_CLI_ARGUMENTS_H
#define GM_CLI_ARGUMENTS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/size.h"
#include "cli/command.h"

enum { GM_ARGUMENTS_MAX = 4096 }; /* a file for each rank of a large job */

struct gm_arguments {
	bool json;
	bool help; /* help was written: the command has nothing more to do */
	int positional_count;
	const char *positional[GM_ARGUMENTS_MAX]; /* into argv */
	int rest; /* index in argv of the first argument behind `--`, 0: there was none */
};

/*
 * Called for each option of the command's own; `argument` as in argp. Return an error to refuse the
 * value: its message gets the option's name in front.
 */
typedef struct gm_error *(*gm_option_handler)(void *input, int key, const char *argument);

/*
 * Parses argv of a command. options: the command's own, ending with {0}, or NULL (--json and --help
 * are added; keys must be above 0x1000 or a letter). At most positional_max positional arguments
 * are taken. With `stop_at_positional` the first positional argument ends the options (for PROG
 * ARGS).
 */
struct gm_error *gm_arguments_parse(const struct gm_command *command, int argc, char **argv,
        const struct argp_option *options, gm_option_handler handler, void *input,
        int positional_max, bool stop_at_positional, FILE *out, struct gm_arguments *ret_arguments);

/* What a command says of a wrong argument: "NAME: MESSAGE: see `gpumem NAME --help`". */
struct gm_error *gm_arguments_wrong(const char *command, struct gm_error *error);

/* The error for an unknown option; `known`: the options, as "--sim", ending with NULL. */
struct gm_error *gm_arguments_unknown(const char *word, const char *const *known);

/* A whole number, decimal or 0x hexadecimal, in [least, most]. */
struct gm_error *gm_parse_number(
        const char *text, uint64_t least, uint64_t most, uint64_t *ret_number);
/* The N of --device. */
struct gm_error *gm_parse_device(const char *text, int *ret_device);

/*
 * FILE, the first positional argument of a question about a log: in a shell it must be there, in
 * gdb it may (the session's own log is asked otherwise), which is told by the number of positional
 * arguments: `others` is how many follow FILE. Sets the context's log and shifts FILE out of the
 * arguments.
 */
struct gm_error *gm_arguments_take_file(
        struct gm_arguments *arguments, struct gm_context *context, int others);

#endif
