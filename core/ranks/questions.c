#include "ranks/questions.h"

#include <errno.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/allocation.h"
#include "base/cleanup.h"
#include "base/put.h"
#include "cli/arguments.h"
#include "ranks/answer.h"
#include "ranks/files.h"
#include "ranks/job_read.h"
#include "ranks/numbers.h"
#include "ranks/render/compare.h"
#include "ranks/render/rows.h"
#include "ranks/sections/oom.h"
#include "ranks/siblings.h"

enum { KEY_LOCAL = 0x1101, KEY_NO_KEEP };

static const struct argp_option option_table[] = {
        {"local", KEY_LOCAL, NULL, 0,
                "FILES are on each machine's own disk: the processes of each machine read what is "
                "there",
                0},
        {"no-keep", KEY_NO_KEEP, NULL, 0,
                "neither writes summaries next to the recordings, nor uses those that are there",
                GM_EFFECT_NONE},
        {0},
};

struct input {
	bool local, no_keep;
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct input *options = input;
	options->local |= key == KEY_LOCAL;
	options->no_keep |= key == KEY_NO_KEEP;
	return NULL;
}

/* A question: what it is made of, and how it is shown. */
struct question {
	const struct gm_ranks_command *command;
	enum gm_section section;
	enum gm_ranks_view view; /* of GM_SECTION_PEAK */
};

static const struct question questions[] = {
        {&gm_ranks_info, GM_SECTION_PEAK, GM_RANKS_SUMS},
        {&gm_ranks_peak, GM_SECTION_PEAK, GM_RANKS_ALL},
        {&gm_ranks_diff, GM_SECTION_PEAK, GM_RANKS_DIFFERENT},
        {&gm_ranks_steps, GM_SECTION_STEPS, 0},
        {&gm_ranks_phases, GM_SECTION_PHASES, 0},
        {&gm_ranks_leaks, GM_SECTION_LEAKS, 0},
        {&gm_ranks_oom, GM_SECTION_OOM, 0},
        {&gm_ranks_timeline, GM_SECTION_TIMELINE, 0},
        {&gm_ranks_zero, GM_SECTION_COLLECTIVES, 0},
};

static const struct question *question_of(const struct gm_ranks_command *command)
{
	size_t i = 0;
	while (questions[i].command != command)
		i++;
	return &questions[i];
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
        const struct input *input, enum gm_section section, struct gm_job *ret_job)
{
	const struct gm_job_options options = {
	        .sections = 1U << GM_SECTION_PEAK | 1U << section, .keep = !input->no_keep};
	struct gm_rank_paths paths;
	gm_try(gm_rank_files(world, arguments->positional, (size_t)arguments->positional_count,
	        input->local, &paths));
	struct gm_error *error = gm_job_read(world, &paths, &options, ret_job);
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

static bool some_ran_out(const struct gm_job *job, const struct gm_ranks_answer *answer)
{
	bool has = false;
	for (size_t i = 0; i < answer->count && !has; i++) {
		struct gm_oom_section oom;
		bool no_memory;
		if (!gm_summary_section(
		            &job->files.items[answer->files[i]], GM_SECTION_OOM, &oom, &no_memory))
			continue;
		has = oom.has;
		gm_section_oom.deinit(&oom);
	}
	return has;
}

static bool some_grow(const struct gm_ranks_answer *answer)
{
	for (size_t i = 0; i < answer->rows.rows.count; i++)
		if (answer->rows.rows.items[i].more == GM_FIGURE_BYTES)
			return true;
	return false;
}

/* diff: they differ; leaks: some line grows; oom: no rank ran out of memory. What was not found may
 * be in a file without an answer. Launchers take any other status than 0 for a failure: they print
 * a message after the answer and mark the step of the job as failed. */
static int status_of(const struct question *question, const struct gm_job *job,
        const struct gm_ranks_answer *answer)
{
	const int nothing_found =
	        answer->count - answer->without < job->files.count ? GM_CORRUPT : GM_OK;
	if (job->processes > 1)
		return GM_OK;
	if (question->view == GM_RANKS_DIFFERENT)
		return answer->compare.equal ? nothing_found : GM_NEGATIVE;
	switch (question->section) {
	case GM_SECTION_LEAKS:
		return some_grow(answer) ? GM_NEGATIVE : nothing_found;
	case GM_SECTION_OOM:
		if (some_ran_out(job, answer))
			return GM_OK;
		return nothing_found == GM_OK ? GM_NEGATIVE : nothing_found;
	default:
		return GM_OK;
	}
}

static struct gm_error *render(const struct question *question, const struct gm_job *job,
        const struct gm_ranks_answer *answer, bool json, FILE *out)
{
	const struct gm_style style = style_of(out);
	if (question->section != GM_SECTION_PEAK)
		return json ? gm_render_ranks_rows_json(job, answer, out)
		            : gm_render_ranks_rows(job, answer, &style, out);
	return json ? gm_render_ranks_compare_json(job, answer, out)
	            : gm_render_ranks_compare(job, answer, question->view, &style, out);
}

/* May its folder not be listed? */
static bool is_closed(const char *pattern)
{
	_cleanup_free_ char *folder = strdup(pattern);
	if (!folder)
		return false;
	folder[strcspn(folder, "*?[")] = '\0';
	char *slash = strrchr(folder, '/');
	if (slash)
		slash[1] = '\0';
	return access(slash ? folder : ".", R_OK) != 0 && errno == EACCES;
}

static struct gm_error *answer_it(const struct question *question, struct gm_job *job,
        const struct gm_arguments *arguments, FILE *out, int *ret_status)
{
	if (!job->files.count && !job->foreign.count && is_closed(arguments->positional[0]))
		return gm_error_create(GM_TARGET,
		        "%s: permission denied: you may not list its folder: name each file",
		        arguments->positional[0]);
	if (!job->files.count && !job->foreign.count)
		return gm_error_create(GM_USAGE,
		        "%s: there is no such file: name the recordings of the job, a pattern in "
		        "quotes",
		        arguments->positional[0]);
	/* A file for which there was no memory is told as one that was not read; from here on there
	 * is an answer, or none. */
	gm_allocation_forget();
	gm_try(gm_job_find_siblings(job));
	gm_try(gm_job_number(job));
	struct gm_ranks_answer answer;
	gm_try(gm_ranks_answer(job, question->section, &answer));
	struct gm_error *error = render(question, job, &answer, arguments->json, out);
	*ret_status = status_of(question, job, &answer);
	/* Nothing could be read: this is no answer. */
	if (!error && !answer.count)
		*ret_status = GM_CORRUPT;
	gm_ranks_answer_deinit(&answer);
	if (gm_allocation_failed()) {
		gm_error_destroy(error);
		error = &gm_error_no_memory;
	}
	/* Half an answer is none: of one that is longer than the buffer the first part is out. */
	if (error)
		__fpurge(out);
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
	const struct question *question = question_of(command);
	_cleanup_error_ struct gm_error *error =
	        collect(world, &arguments, &input, question->section, &job);
	if (error)
		give_up(world, error, err);
	if (world->rank == 0)
		error = answer_it(question, &job, &arguments, out, ret_status);
	gm_job_deinit(&job);
	return gm_take(error);
}

#define USAGE "FILES... [--local] [--no-keep] [--json]\n"
#define FILES_TEXT                                                                                \
	"FILES are recordings or snapshots of the ranks of a job; a pattern in quotes is "        \
	"expanded "                                                                               \
	"by the program.\n"                                                                       \
	"Each of the processes that mpirun or srun started reads its share of them, and process " \
	"0 "                                                                                      \
	"answers. A\n"                                                                            \
	"summary of each recording is kept next to it as FILE.summary, for the next question.\n"

#define QUESTION(NAME, SUMMARY, TEXT)                                                              \
	const struct gm_ranks_command gm_ranks_##NAME = {                                          \
	        .command = {.program = "gpumem-ranks",                                             \
	                .name = #NAME,                                                             \
	                .summary = SUMMARY,                                                        \
	                .usage =                                                                   \
	                        USAGE TEXT FILES_TEXT "\n Example: srun -n 64 gpumem-ranks " #NAME \
	                                              " '/scratch/job/run.*.gpumem'"},             \
	        .run = run,                                                                        \
	}

QUESTION(info, "how many recordings there are, how complete they are, and their sums",
        "Shows which ranks have no file or an incomplete one, which ranks are alike, and which "
        "stand out.\n");
QUESTION(peak, "what makes up the peaks of the ranks, by category and by line",
        "Shows the least, the median and the most of each line, and in which rank they are.\n");
QUESTION(diff, "what differs between the ranks",
        "Shows the lines whose bytes at the peak are not the same in all ranks. With one process\n"
        "the exit status is 1 if they differ, and 3 if no difference was found but some files have "
        "no answer;\n"
        "several exit 0 in both cases, because mpirun and srun take another status for a "
        "failure.\n");
QUESTION(steps, "the peaks of each step over all ranks",
        "Shows the least, the median and the most of each step, and the ranks that grow.\n");
QUESTION(phases, "the peaks and the bytes of each phase over all ranks",
        "Shows the least, the median and the most of each phase, and in which rank they are.\n");
QUESTION(leaks, "lines whose memory grows, and in how many ranks",
        "Shows what each line has left, as the least, the median and the most of the ranks in "
        "which it grows.\nWith one process the exit status is 1 if a line grows, and 3 if none was "
        "found but some files have\n"
        "no answer; several exit 0 in both cases, because mpirun and srun take another status for "
        "a\n"
        "failure.\n");
QUESTION(oom, "the ranks that ran out of memory, and why",
        "Shows the last out-of-memory error of each rank. With one process the exit status\n"
        "is 1 if there is none, and 3 if none was found but some files have no answer; several "
        "exit 0 in\n"
        "both cases, because mpirun and srun take another status for a failure.\n");
QUESTION(timeline, "a plot of allocated memory over all ranks, and the shapes in it",
        "Shows the least, the median and the most at each part of the recordings, and of each "
        "shape in the plot.\n");
QUESTION(zero, "the collective calls of the ranks, and the bytes that these move",
        "Shows the least, the median and the most calls and bytes of each kind, and in which rank "
        "they are.\n");
