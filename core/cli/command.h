/*
 * Commands of the shell and of gdb: `gpumem NAME`. A command parses its arguments, asks a question
 * and renders the answer; it contains no analysis.
 *
 * This room (cli) may include every other one; none includes it. One file per command, cmd_NAME.c,
 * which defines `const struct gm_command gm_command_NAME`; the table is in commands.c.
 */
#ifndef GM_CLI_COMMAND_H
#define GM_CLI_COMMAND_H

#include <stdbool.h>
#include <stdio.h>

#include "ask/context.h"

/* What a command does besides answering. An option's `group` is one of these too: what the command
 * does when the option is given. */
enum gm_command_effect {
	GM_EFFECT_NONE,
	GM_EFFECT_FILES,   /* writes a file that is named */
	GM_EFFECT_PROCESS, /* changes another process */
	GM_EFFECT_PROGRAM, /* starts a program */
};

struct gm_command {
	const char *program; /* NULL: gpumem */
	const char *name;
	const char *summary; /* one line, lower case, without a full stop */
	/* The usage after the name, the help text and an example: "[FILE] [--json]\nDescription.
	 * \n\n Example: gpumem info run.gpumem". The first line is the usage. */
	const char *usage;
	enum gm_command_effect effect;
	bool shell, gdb; /* where it can be typed */
	bool streams;    /* it prints while a program runs, so its output cannot be withdrawn after
	                    a failed allocation */
	/*
	 * argv[0] is the name. Answers go to `out`, notes to `err`; in a shell these are the real
	 * standard output and error, so that a command may stream, or exec another program after
	 * fflush(NULL). A returned error becomes a "gpumem: ..." line, and its status the exit
	 * status; otherwise the exit status is *ret_status, initially 0.
	 */
	struct gm_error *(*run)(struct gm_context *context, int argc, char **argv, FILE *out,
	        FILE *err, int *ret_status);
};

/* The table, in the order of `gpumem --help`; NULL at the end. */
extern const struct gm_command *const gm_commands[];

const struct gm_command *gm_command_find(const char *name); /* NULL: none */
/* The command with the most similar name; NULL: none is similar. */
const struct gm_command *gm_command_nearest(const char *name, bool shell);

void gm_command_help(const struct gm_command *command, FILE *out);
void gm_commands_help(bool shell, FILE *out);
/* The same as JSON, for programs that offer the commands (`gpumem mcp`). `options`: as argp's,
 * ending with {0}. */
struct argp_option;
struct gm_error *gm_command_help_json(
        const struct gm_command *command, const struct argp_option *options, FILE *out);
struct gm_error *gm_commands_help_json(bool shell, FILE *out);

#endif
