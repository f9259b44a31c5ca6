/*
 * The commands of gpumem-ranks: `gpumem-ranks NAME`. One that asks a question is a line in
 * questions.c; another one has a file of its own and a line in commands.c.
 */
#ifndef GM_RANKS_COMMAND_H
#define GM_RANKS_COMMAND_H

#include <stdio.h>

#include "cli/command.h"
#include "ranks/world.h"

struct gm_ranks_command {
	struct gm_command command; /* its name and help: `run` is NULL */
	/*
	 * Runs in every process, with the same arguments. Only process 0 may write to `out`. An
	 * error that only some processes have must end them all (gm_world_abort()): others may wait
	 * for this one.
	 */
	struct gm_error *(*run)(const struct gm_ranks_command *command, struct gm_world *world,
	        int argc, char **argv, FILE *out, FILE *err, int *ret_status);
};

/* Ends with NULL, in the order of --help. */
extern const struct gm_ranks_command *const gm_ranks_commands[];

/* argv[0] is the command's name. Writes help, an answer or an error; returns the exit status. */
int gm_ranks_run(struct gm_world *world, int argc, char **argv, FILE *out, FILE *err);
/* Is only help or the version asked for, for which one process is enough? */
bool gm_ranks_only_help(int argc, char **argv);

#endif
