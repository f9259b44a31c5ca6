#include "ranks/questions.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "cli/arguments.h"
#include "ranks/answer.h"
#include "ranks/files.h"
#include "ranks/job.h"
#include "ranks/numbers.h"
#include "ranks/render/compare.h"

enum { KEY_LOCAL = 0x1101 };

static const struct argp_option option_table[] = {
        {"local", KEY_LOCAL, NULL, 0,
                "FILES are on each machine's own disk: each machine's processes read what is there",
                0},
        {0},
};

struct input {
	bool local;
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	((struct input *)input)->local = true;
	return NULL;
}

/* What a process cannot do alone, the others would wait for. */
static _Noreturn void give_up(struct gm_world *world, const struct gm_error *error, FILE *err)
{
	gm_put(err, "gpumem-ranks: process %u on %s: %s\n", world->rank, world->host,
	        error->message);
	fflush(err);
	gm_world_abort(world, (int)error->status);
}

static struct gm_error *collect(struct gm_world *world, const struct gm_arguments *arguments,
        const struct input *input, struct gm_job *ret_job)
{
	struct gm_rank_paths paths;
	gm_try(gm_rank_files(world, arguments->positional, (size_t)arguments->positional_count,
	        input->local, &paths));
	struct gm_error *error = gm_job_read(world, &paths, ret_job);
	gm_rank_paths_deinit(&paths);
	return error;
}

static struct gm_style style_of(FILE *out)
{
	struct winsize size;
	struct gm_style style = {0};
	if (fileno(out) >= 0 && isatty(fileno(out)))
		style.columns = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 80;
	return style;
}

static struct gm_error *answer(const struct gm_ranks_command *command, struct gm_job *job,
        const struct gm_arguments *arguments, FILE *out)
{
	if (!job->files.count)
		return gm_error_create(GM_USAGE,
		        "%s: no file of that name: name the recordings, with a pattern in quotes",
		        arguments->positional[0]);
	gm_try(gm_job_number(job));
	struct gm_ranks_answer found;
	gm_try(gm_ranks_answer(job, &found));
	const struct gm_style style = style_of(out);
	struct gm_error *error;
	if (arguments->json)
		error = gm_render_ranks_json(job, &found, out);
	else if (command == &gm_ranks_info)
		error = gm_render_ranks_info(job, &found, &style, out);
	else
		error = gm_render_ranks_peak(job, &found, &style, out);
	gm_ranks_answer_deinit(&found);
	return error;
}

static struct gm_error *run(const struct gm_ranks_command *command, struct gm_world *world,
        int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct input input = {0};
	struct gm_job job = {0};
	gm_try(gm_arguments_parse(&command->command, argc, argv, option_table, handle, &input,
	        GM_ARGUMENTS_MAX, false, out, &arguments));
	if (arguments.help)
		return NULL;
	if (!arguments.positional_count)
		return gm_error_create(GM_USAGE,
		        "%s: no FILES given: name the recordings of the job, as in `gpumem-ranks "
		        "%s 'run.*.gpumem'`",
		        command->command.name, command->command.name);
	_cleanup_error_ struct gm_error *error = collect(world, &arguments, &input, &job);
	if (error)
		give_up(world, error, err);
	if (world->rank == 0)
		error = answer(command, &job, &arguments, out);
	gm_job_deinit(&job);
	return gm_take(error);
}

#define OPTIONS_TEXT                                                                              \
	"FILES are recordings or snapshots of the ranks; a pattern in quotes is expanded by the " \
	"program.\n"                                                                              \
	"Each of the processes that mpirun or srun started reads its share of them.\n\n"

const struct gm_ranks_command gm_ranks_info = {
        .command = {.program = "gpumem-ranks",
                .name = "info",
                .summary = "how many recordings there are, how complete, and their sums",
                .usage = "FILES... [--local] [--json]\n" OPTIONS_TEXT
                         " Example: srun -n 64 gpumem-ranks info '/scratch/job/run.*.gpumem'\n"
                         " Example: mpirun -n 2 gpumem-ranks info 'snapshot_rank*.pickle'"},
        .run = run,
};

const struct gm_ranks_command gm_ranks_peak = {
        .command = {.program = "gpumem-ranks",
                .name = "peak",
                .summary = "what makes up the peaks of the ranks, by category and by line",
                .usage = "FILES... [--local] [--json]\n" OPTIONS_TEXT
                         " Example: srun -n 64 gpumem-ranks peak '/scratch/job/run.*.gpumem'\n"
                         " Example: srun -n 64 gpumem-ranks peak --local '/tmp/job/*.gpumem'"},
        .run = run,
};
