#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/nearest_word.h"
#include "base/put.h"
#include "ranks/command.h"
#include "ranks/questions.h"
#include "ranks/sim.h"

const struct gm_ranks_command *const gm_ranks_commands[] = {
        &gm_ranks_info,
        &gm_ranks_peak,
        &gm_ranks_diff,
        &gm_ranks_steps,
        &gm_ranks_phases,
        &gm_ranks_leaks,
        &gm_ranks_oom,
        &gm_ranks_timeline,
        &gm_ranks_zero,
        &gm_ranks_sim,
        NULL,
};

static void put_help(FILE *out)
{
	int width = 0;
	gm_put(out,
	        "gpumem-ranks %s: answers questions about the recordings of a job's ranks, on MPI."
	        "\n\nUsage: [mpirun -n N | srun -n N] gpumem-ranks COMMAND [ARGUMENTS]\n\n"
	        "Commands:\n",
	        GPUMEM_VERSION);
	for (size_t i = 0; gm_ranks_commands[i]; i++) {
		int length = (int)strlen(gm_ranks_commands[i]->command.name);
		width = length > width ? length : width;
	}
	for (size_t i = 0; gm_ranks_commands[i]; i++)
		gm_put(out, "  %-*s  %s\n", width, gm_ranks_commands[i]->command.name,
		        gm_ranks_commands[i]->command.summary);
	fputs("\n`gpumem-ranks COMMAND --help` describes a command, with an example.\n"
	      "Exit status: 0 answered, 1 a negative answer (only if one process runs), 2 wrong "
	      "usage, "
	      "3 corrupt input,\n"
	      "4 the target cannot be read, 5 internal error.\n",
	        out);
}

static const struct gm_ranks_command *find(const char *name)
{
	for (size_t i = 0; gm_ranks_commands[i]; i++)
		if (strcmp(gm_ranks_commands[i]->command.name, name) == 0)
			return gm_ranks_commands[i];
	return NULL;
}

static struct gm_error *unknown(const char *name)
{
	const char *best = NULL;
	size_t best_distance = SIZE_MAX;
	for (size_t i = 0; gm_ranks_commands[i]; i++) {
		size_t distance = gm_word_distance(name, gm_ranks_commands[i]->command.name);
		if (distance < best_distance) {
			best_distance = distance;
			best = gm_ranks_commands[i]->command.name;
		}
	}
	if (best)
		return gm_error_create(GM_USAGE,
		        "unknown command '%s': did you mean `gpumem-ranks %s`?", name, best);
	return gm_error_create(GM_USAGE, "unknown command '%s': see `gpumem-ranks --help`", name);
}

bool gm_ranks_only_help(int argc, char **argv)
{
	if (argc < 1)
		return true;
	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	return strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "-V") == 0 ||
	       strcmp(argv[0], "help") == 0;
}

static struct gm_error *dispatch(
        struct gm_world *world, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	if (argc < 1 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0 ||
	        (argc == 1 && strcmp(argv[0], "help") == 0)) {
		put_help(out);
		return NULL;
	}
	if (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "-V") == 0) {
		const char *engine = gm_world_engine();
		gm_put(out, "gpumem-ranks %s, %s\n", GPUMEM_VERSION,
		        engine[0] ? engine : "without MPI");
		return NULL;
	}
	static char help[] = "--help";
	char *asked[] = {argc > 1 ? argv[1] : NULL, help, NULL};
	if (strcmp(argv[0], "help") == 0) {
		argv = asked;
		argc = 2;
	}
	const struct gm_ranks_command *command = find(argv[0]);
	if (!command)
		return unknown(argv[0]);
	return command->run(command, world, argc, argv, out, err, ret_status);
}

int gm_ranks_run(struct gm_world *world, int argc, char **argv, FILE *out, FILE *err)
{
	int status = GM_OK;
	_cleanup_error_ struct gm_error *error = dispatch(world, argc, argv, out, err, &status);
	if (!error)
		return status;
	if (world->rank == 0)
		gm_put(err, "gpumem-ranks: %s\n", error->message);
	return error->status;
}
