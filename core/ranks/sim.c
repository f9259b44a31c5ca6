#include "ranks/sim.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/put.h"
#include "cli/arguments.h"
#include "ranks/render/sim.h"
#include "ranks/sim_answer.h"
#include "ranks/sim_child.h"
#include "sim/profile.h"

enum { WORLD_MOST = 1 << 20, CHECK_LEAST = 4, CHECK_MOST = 64, RANKS_OF_A_CHECK = 256 };
enum {
	KEY_WORLD = 0x1101,
	KEY_SIM,
	KEY_ALL,
	KEY_SAMPLE,
	KEY_CHECK,
	KEY_TIMEOUT,
	KEY_AGAIN,
	KEY_BELOW,
	KEY_OVERFLOW
};
enum { PAUSE_MS = 5 };

static const struct argp_option option_table[] = {
        {"world", KEY_WORLD, "W", 0, "the ranks of the job", 0},
        {"sim", KEY_SIM, "PROFILE", OPTION_ARG_OPTIONAL,
                "the simulated device (see `gpumem sim list`)", 0},
        {"output", 'o', "DIR", 0,
                "keeps the ranks' results and recordings here (default: gpumem-ranks-sim)", 0},
        {"all", KEY_ALL, NULL, 0, "runs every rank, and infers none", 0},
        {"sample", KEY_SAMPLE, "N", 0, "runs at most N ranks", 0},
        {"check", KEY_CHECK, "N", 0,
                "runs N of the inferred ranks, chosen at random (default: 1 of 256, at least 4)",
                0},
        {"timeout", KEY_TIMEOUT, "SECONDS", 0, "ends a rank that takes longer", 0},
        {"again", KEY_AGAIN, NULL, 0, "runs ranks again that failed or ran out of memory", 0},
        {"compute-below", KEY_BELOW, "BYTES", 0, "as in `gpumem run`", 0},
        {"overflow-at", KEY_OVERFLOW, "STEPS", 0, "as in `gpumem run`", 0},
        {0},
};

struct input {
	struct gm_sim_job job;
	struct gm_rank_plan_options plan;
	bool has_check;
};

static struct gm_error *handle(void *data, int key, const char *argument)
{
	struct input *input = data;
	uint64_t number = 0;
	switch (key) {
	case KEY_WORLD:
		gm_try(gm_parse_number(argument, 2, WORLD_MOST, &number));
		input->plan.world = input->job.world = (uint32_t)number;
		break;
	case KEY_SIM:
		input->job.profile = argument;
		break;
	case 'o':
		input->job.folder = argument;
		break;
	case KEY_ALL:
		input->plan.all = true;
		break;
	case KEY_SAMPLE:
		gm_try(gm_parse_number(argument, 1, WORLD_MOST, &number));
		input->plan.most = (uint32_t)number;
		break;
	case KEY_CHECK:
		gm_try(gm_parse_number(argument, 0, WORLD_MOST, &number));
		input->plan.check = (uint32_t)number;
		input->has_check = true;
		break;
	case KEY_TIMEOUT:
		gm_try(gm_parse_number(argument, 1, UINT32_MAX, &number));
		input->job.timeout = (uint32_t)number;
		break;
	case KEY_AGAIN:
		input->job.again = true;
		break;
	case KEY_BELOW:
		input->job.compute_below = argument;
		break;
	case KEY_OVERFLOW:
		input->job.overflow_at = argument;
		break;
	}
	return NULL;
}

/* --- signals ---------------------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
	stopped = signal_number;
}

static void take_signals(void)
{
	static const int ours[] = {SIGINT, SIGTERM, SIGHUP};
	const struct sigaction action = {.sa_handler = stop};
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		sigaction(ours[i], &action, NULL);
}

static void pause_shortly(void)
{
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
}

/* --- the processes that do the work ----------------------------------------------------------- */

/* Runs the ranks that process 0 sends, until it sends none. */
static struct gm_error *work(
        struct gm_world *world, const struct gm_sim_job *job, struct gm_sim_child *child)
{
	for (;;) {
		bool ended = false;
		struct gm_sim_result result;
		if (stopped)
			return NULL;
		if (child->pid)
			gm_try(gm_sim_child_look(job, child, &ended, &result));
		if (ended) {
			_cleanup_free_ char *text = NULL;
			snprintf(result.host, sizeof(result.host), "%s", world->host);
			gm_try(gm_sim_result_text(&result, &text));
			gm_try(gm_world_send(world, 0, text, strlen(text)));
		} else if (!child->pid && gm_world_arrived(world)) {
			_cleanup_free_ uint8_t *bytes = NULL;
			unsigned from;
			size_t size;
			uint32_t rank;
			gm_try(gm_world_receive(world, 0, &from, &bytes, &size));
			if (size != sizeof(rank))
				return NULL;
			memcpy(&rank, bytes, sizeof(rank));
			gm_try(gm_sim_child_start(job, rank, child));
		} else {
			pause_shortly();
		}
	}
}

/* --- process 0 -------------------------------------------------------------------------------- */

struct giving {
	struct gm_world *world;
	const struct gm_sim_job *job;
	struct gm_rank_plan *plan;
	struct gm_sim_results results;
	struct gm_map classes; /* of a result's class: its number, from 1 */
	bool *busy;            /* by process */
	struct gm_sim_child *child;
	double seconds;
	struct gm_sim_results earlier; /* of earlier runs of the command, by rank */
	size_t earlier_used;
	bool *used; /* of `earlier` */
};

static struct gm_error *take(struct giving *giving, const struct gm_sim_result *result)
{
	bool is_new;
	uint64_t *class = gm_map_put(&giving->classes, gm_sim_result_class(result) | 1, &is_new);
	if (!class || !gm_array_push(&giving->results.items, *result))
		return &gm_error_no_memory;
	if (is_new)
		*class = giving->classes.count;
	gm_rank_plan_put(giving->plan, result->rank, (uint32_t) * class);
	return NULL;
}

static struct gm_error *take_new(struct giving *giving, const struct gm_sim_result *result)
{
	if (result->rank >= giving->job->world)
		return gm_error_create(GM_INTERNAL, "a result of rank %" PRIu32, result->rank);
	if (result->outcome == GM_SIM_KILLED)
		return gm_error_create(GM_TARGET,
		        "rank %" PRIu32 " was killed by signal %" PRIu32 " on %s, perhaps for want "
		        "of the machine's memory: %zu ranks are finished in %s: the same command "
		        "goes on, with fewer processes on a machine if that was the reason",
		        result->rank, result->status, result->host, giving->results.items.count,
		        giving->job->folder);
	if (result->outcome == GM_SIM_NOT_STARTED)
		return gm_error_create(GM_TARGET,
		        "rank %" PRIu32 " could not be started on %s: exit status %" PRIu32
		        ": %s: nothing of this is kept in %s",
		        result->rank, result->host, result->status, result->line,
		        giving->job->folder);
	giving->seconds += result->seconds;
	gm_try(gm_sim_folder_write(giving->job, result));
	return take(giving, result);
}

static struct gm_error *give(struct giving *giving, unsigned process, uint32_t rank)
{
	giving->busy[process] = true;
	if (process == 0)
		return gm_sim_child_start(giving->job, rank, giving->child);
	return gm_world_send(giving->world, process, &rank, sizeof(rank));
}

static int compare_ranks(const void *a, const void *b)
{
	const struct gm_sim_result *one = a, *other = b;
	return one->rank < other->rank ? -1 : one->rank > other->rank;
}

static struct gm_error *take_earlier(struct giving *giving, size_t place)
{
	giving->used[place] = true;
	giving->earlier_used++;
	return take(giving, &giving->earlier.items.items[place]);
}

/* The next rank that no earlier run of the command has finished. When nothing is left to be run,
 * results that were not asked for are used too: they may show that what was inferred is wrong. */
static struct gm_error *next_rank(
        struct giving *giving, bool *ret_has, uint32_t *ret_rank, bool *ret_done)
{
	const struct gm_sim_result *all = giving->earlier.items.items;
	size_t count = giving->earlier.items.count;
	for (;;) {
		gm_try(gm_rank_plan_next(giving->plan, ret_has, ret_rank, ret_done));
		if (*ret_has) {
			const struct gm_sim_result key = {.rank = *ret_rank};
			const struct gm_sim_result *found =
			        count ? bsearch(&key, all, count, sizeof(*all), compare_ranks)
			              : NULL;
			if (!found)
				return NULL;
			gm_try(take_earlier(giving, (size_t)(found - all)));
		} else if (*ret_done && giving->earlier_used < count) {
			for (size_t i = 0; i < count; i++)
				if (!giving->used[i])
					gm_try(take_earlier(giving, i));
		} else {
			return NULL;
		}
	}
}

static struct gm_error *give_all(struct giving *giving, bool *ret_done)
{
	bool has = true;
	*ret_done = false;
	for (unsigned i = 0; i < giving->world->size && has; i++) {
		uint32_t rank;
		if (giving->busy[i])
			continue;
		gm_try(next_rank(giving, &has, &rank, ret_done));
		if (has)
			gm_try(give(giving, i, rank));
	}
	return NULL;
}

/* What has ended by now. *ret_some: something has. */
static struct gm_error *look(struct giving *giving, bool *ret_some)
{
	struct gm_sim_result result;
	*ret_some = false;
	if (giving->child->pid)
		gm_try(gm_sim_child_look(giving->job, giving->child, ret_some, &result));
	if (*ret_some) {
		giving->busy[0] = false;
		snprintf(result.host, sizeof(result.host), "%s", giving->world->host);
		gm_try(take_new(giving, &result));
	}
	while (gm_world_arrived(giving->world)) {
		_cleanup_free_ uint8_t *bytes = NULL;
		unsigned from;
		size_t size;
		gm_try(gm_world_receive(giving->world, GM_WORLD_ANY, &from, &bytes, &size));
		gm_try(gm_sim_result_read("a process", (const char *)bytes, size, &result));
		giving->busy[from] = false;
		gm_try(take_new(giving, &result));
		*ret_some = true;
	}
	return NULL;
}

static struct gm_error *give_out(struct giving *giving)
{
	bool done = false, some;
	while (!stopped) {
		gm_try(give_all(giving, &done));
		if (done)
			break;
		gm_try(look(giving, &some));
		if (!some)
			pause_shortly();
	}
	for (unsigned i = 1; i < giving->world->size && !stopped; i++)
		gm_try(gm_world_send(giving->world, i, "", 0));
	return NULL;
}

static struct gm_error *begin(struct giving *giving)
{
	gm_try(gm_sim_folder_begin(giving->job));
	gm_try(gm_sim_folder_read(giving->job, &giving->earlier));
	giving->used = calloc(giving->earlier.items.count + 1, sizeof(*giving->used));
	if (!giving->used)
		return &gm_error_no_memory;
	if (giving->earlier.items.count)
		qsort(giving->earlier.items.items, giving->earlier.items.count,
		        sizeof(*giving->earlier.items.items), compare_ranks);
	return NULL;
}

static struct gm_error *answer(
        struct giving *giving, double started, bool json, FILE *out, int *ret_status)
{
	struct gm_sim_answer found;
	gm_try(gm_sim_answer(giving->job, giving->plan, &giving->results, &found));
	found.earlier = (uint32_t)giving->earlier_used;
	found.seconds = giving->seconds;
	found.elapsed = gm_seconds() - started;
	found.processes = giving->world->size;
	found.machines = giving->world->node_count;
	/* a launcher takes another status than 0 for a failure, and writes a page about it */
	bool alone = giving->world->size == 1;
	*ret_status = found.fit == GM_SIM_FITS || !alone ? GM_OK : GM_NEGATIVE;
	struct gm_error *error =
	        json ? gm_render_sim_json(&found, out) : gm_render_sim_text(&found, out);
	gm_sim_answer_deinit(&found);
	return error;
}

static struct gm_error *lead(struct gm_world *world, const struct input *input, bool json,
        FILE *out, FILE *err, struct gm_sim_child *child, int *ret_status)
{
	double started = gm_seconds();
	struct giving giving = {.world = world, .job = &input->job, .child = child};
	_cleanup_close_ int lock = -1;
	bool locked;
	gm_try(gm_sim_folder_lock(&input->job, &lock, &locked));
	if (!locked)
		gm_put(err,
		        "gpumem-ranks: sim: -o %s: this file system has no locks: see that no "
		        "other `gpumem-ranks sim` works there\n",
		        input->job.folder);
	giving.busy = calloc(world->size, sizeof(*giving.busy));
	struct gm_error *error =
	        giving.busy ? gm_rank_plan_create(&input->plan, &giving.plan) : &gm_error_no_memory;
	if (!error)
		error = begin(&giving);
	if (!error)
		error = give_out(&giving);
	if (!error && stopped)
		gm_put(err,
		        "gpumem-ranks: stopped: %zu ranks are finished in %s: the same command "
		        "goes on\n",
		        giving.results.items.count, input->job.folder);
	else if (!error)
		error = answer(&giving, started, json, out, ret_status);
	free(giving.busy);
	free(giving.used);
	gm_array_deinit(&giving.earlier.items);
	gm_rank_plan_destroy(giving.plan);
	gm_array_deinit(&giving.results.items);
	gm_map_deinit(&giving.classes);
	return error;
}

/* --- the command ------------------------------------------------------------------------------ */

static struct gm_error *parse(const struct gm_ranks_command *command, int argc, char **argv,
        FILE *out, struct input *input, struct gm_arguments *arguments)
{
	*input = (struct input){.job.folder = "gpumem-ranks-sim"};
	gm_try(gm_arguments_parse(&command->command, argc, argv, option_table, handle, input, 1,
	        true, out, arguments));
	if (arguments->help)
		return NULL;
	if (arguments->positional_count || !arguments->rest || arguments->rest >= argc)
		return gm_error_create(GM_USAGE,
		        "sim: the program comes after `--`: gpumem-ranks sim --world 64 -- python "
		        "train.py");
	if (!input->plan.world)
		return gm_error_create(
		        GM_USAGE, "sim: --world W is missing: how many ranks does the job have?");
	if (input->plan.all && input->plan.most)
		return gm_error_create(
		        GM_USAGE, "sim: --all and --sample exclude each other: choose one");
	struct gm_sim_choice choice;
	gm_try(gm_error_prefix(gm_sim_profile_parse(input->job.profile, &choice), "sim"));
	input->job.program = &argv[arguments->rest];
	uint32_t check = input->plan.world / RANKS_OF_A_CHECK;
	if (!input->has_check)
		input->plan.check = check < CHECK_LEAST  ? CHECK_LEAST
		                    : check > CHECK_MOST ? CHECK_MOST
		                                         : check;
	return NULL;
}

static struct gm_error *run(const struct gm_ranks_command *command, struct gm_world *world,
        int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct input input;
	struct gm_sim_child child = {0};
	gm_try(parse(command, argc, argv, out, &input, &arguments));
	if (arguments.help)
		return NULL;
	take_signals();
	_cleanup_error_ struct gm_error *error = gm_sim_folder_make(&input.job);
	if (!error)
		error = world->rank == 0
		                ? lead(world, &input, arguments.json, out, err, &child, ret_status)
		                : work(world, &input.job, &child);
	gm_sim_child_stop(&child);
	if (stopped)
		gm_world_abort(world, 128 + stopped);
	if (error) { /* the others would wait for this process */
		gm_put(err, "gpumem-ranks: sim: %s\n", error->message);
		fflush(err);
		gm_world_abort(world, (int)error->status);
	}
	return NULL;
}

const struct gm_ranks_command gm_ranks_sim = {
        .command = {.program = "gpumem-ranks",
                .name = "sim",
                .summary = "runs a job's ranks on the simulated device: the highest peak, and "
                           "whether it fits",
                .usage = "--world W [--sim=PROFILE] [-o DIR] [--all | --sample N] [--check N] "
                         "[--timeout SECONDS] [--again] [--json] -- PROG ARGS\n"
                         "Runs the program as `gpumem run --sim --rank R --world W` does, for the "
                         "ranks R of a job; each of the\n"
                         "processes that mpirun or srun started runs one rank at a time. Ranks "
                         "between equal ones are inferred\n"
                         "to be equal and not run, except for a check; the answer says how many "
                         "were run. Finished ranks are\n"
                         "kept in DIR, and the same command goes on there.\n"
                         "Exit status 1, of one process: it does not fit, a rank failed or is not "
                         "known, or none used a device.\n"
                         "Several processes end with 0 once they have answered: see the answer, or "
                         "`fit` of --json.\n\n"
                         " Example: mpirun -n 32 gpumem-ranks sim --world 4096 --sim=h100-80gb -- "
                         "python train.py"},
        .run = run,
};
