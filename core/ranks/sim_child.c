#include "ranks/sim_child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/regular_file.h"
#include "base/sibling_path.h"
#include "base/tail.h"
#include "ranks/sim_digest.h"
#include "ranks/sim_environment.h"

enum { WORDS_OF_RUN = 16, STOP_SECONDS = 5 };

/* --- starting --------------------------------------------------------------------------------- */

/* What an attempt before this one left, which was killed. Without its output, `output`, there was
 * none: such a recording is somebody else's. */
static struct gm_error *remove_old(const struct gm_sim_job *job, uint32_t rank, const char *output)
{
	struct gm_sim_paths paths;
	struct gm_error *error = NULL;
	bool ours = access(output, F_OK) == 0;
	gm_try(gm_sim_folder_recordings(job, rank, &paths));
	for (size_t i = 0; i < paths.items.count && ours; i++)
		unlink(paths.items.items[i]);
	if (paths.items.count && !ours)
		error = gm_error_create(GM_USAGE,
		        "%s: this command did not write it: move it, or name another folder "
		        "with -o",
		        paths.items.items[0]);
	gm_sim_paths_deinit(&paths);
	return error;
}

/* `failed`: where the number of the error is written if it cannot be started. */
static _Noreturn void become(const char *const *words, int out, int failed, pid_t parent)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* `gpumem run` passes it on */
	if (getppid() != parent || nothing < 0 || dup2(nothing, 0) < 0 || dup2(out, 1) < 0 ||
	        dup2(out, 2) < 0)
		_exit(126);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	gm_sim_environment_set();
	execvp(words[0], (char *const *)words);
	int code = errno;
	(void)!write(failed, &code, sizeof(code));
	_exit(127);
}

/* 0, or why the program could not be started. */
static int start_process(const char *const *words, int out, pid_t *ret_pid)
{
	int ends[2], code = 0;
	pid_t self = getpid();
	if (pipe2(ends, O_CLOEXEC) != 0)
		return errno;
	pid_t pid = fork();
	int failed = pid < 0 ? errno : 0;
	if (pid == 0)
		become(words, out, ends[1], self);
	close(ends[1]);
	ssize_t got = -1;
	while (pid > 0 && (got = read(ends[0], &code, sizeof(code))) < 0 && errno == EINTR)
		;
	close(ends[0]);
	if (got == (ssize_t)sizeof(code)) {
		failed = code;
		waitpid(pid, NULL, 0);
	}
	if (!failed)
		*ret_pid = pid;
	return failed;
}

struct words {
	GM_ARRAY(const char *) list;
	bool no_memory;
};

static void add(struct words *words, const char *word)
{
	words->no_memory |= !gm_array_push(&words->list, word);
}

static void add_option(struct words *words, const char *name, const char *value)
{
	if (!value)
		return;
	add(words, name);
	add(words, value);
}

struct gm_error *gm_sim_child_start(
        const struct gm_sim_job *job, uint32_t rank, struct gm_sim_child *ret_child)
{
	char rank_text[16], world_text[16];
	_cleanup_free_ char *gpumem = gm_installed_path("gpumem"), *sim = NULL;
	_cleanup_free_ char *recording = gm_sim_folder_path(job, rank, "gpumem");
	_cleanup_free_ char *output = gm_sim_folder_path(job, rank, "out");
	if (!recording || !output ||
	        asprintf(&sim, "--sim%s%s", job->profile ? "=" : "",
	                job->profile ? job->profile : "") < 0)
		return &gm_error_no_memory;
	gm_try(remove_old(job, rank, output));
	_cleanup_close_ int out = open(
	        output, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
	if (out < 0)
		return gm_error_os(GM_TARGET, errno, "%s: cannot be written", output);
	snprintf(rank_text, sizeof(rank_text), "%" PRIu32, rank);
	snprintf(world_text, sizeof(world_text), "%" PRIu32, job->world);
	struct words words = {0};
	add(&words, gpumem ? gpumem : "gpumem"); /* next to this program, else in PATH */
	add(&words, "run");
	add(&words, sim);
	add_option(&words, "--rank", rank_text);
	add_option(&words, "--world", world_text);
	add_option(&words, "--compute-below", job->compute_below);
	add_option(&words, "--overflow-at", job->overflow_at);
	add_option(&words, "-o", recording);
	add(&words, "--");
	for (char **word = job->program; *word; word++)
		add(&words, *word);
	add(&words, NULL);
	pid_t pid = 0;
	int failed = words.no_memory ? ENOMEM : start_process(words.list.items, out, &pid);
	gm_array_deinit(&words.list);
	if (failed)
		return gm_error_os(GM_INTERNAL, failed,
		        "rank %" PRIu32
		        ": gpumem, next to this program or in PATH, cannot be started",
		        rank);
	setpgid(pid, pid); /* both do, as either may be the first */
	*ret_child = (struct gm_sim_child){.pid = pid, .rank = rank, .started = gm_seconds()};
	return NULL;
}

/* --- the end ---------------------------------------------------------------------------------- */

static const char own_prefix[] = "gpumem"; /* of what `gpumem run` and the agent write */

static bool is_ours(const char *line)
{
	return strncmp(line, own_prefix, strlen(own_prefix)) == 0;
}

/* The last line that is the program's own, or "". */
static const char *program_line(struct gm_tail *tail)
{
	for (size_t size = tail->size; size; tail->size = size) {
		char *line = gm_tail_last_line(tail);
		if (*line && !is_ours(line))
			return line;
		size = (size_t)(line - tail->text);
		tail->text[size] = 0;
	}
	return "";
}

/* `gpumem run` says why nothing was started, and nothing else is there. */
static bool is_of_starting(const struct gm_sim_result *result, const char *last)
{
	static const char nothing[] = "gpumem: nothing to record", next[] = "gpumem: next:";
	if (result->status == 126 || result->status == 127)
		return true;
	return (result->status == GM_USAGE || result->status == GM_TARGET ||
	               result->status == GM_INTERNAL) &&
	       !result->events && !*result->line && is_ours(last) &&
	       strncmp(last, nothing, strlen(nothing)) != 0 &&
	       strncmp(last, next, strlen(next)) != 0;
}

static void read_last_line(
        const struct gm_sim_job *job, uint32_t rank, struct gm_sim_result *result)
{
	_cleanup_free_ char *path = gm_sim_folder_path(job, rank, "out");
	_cleanup_fclose_ FILE *file = path ? gm_regular_file_stream(path) : NULL;
	struct gm_tail tail = {0};
	char bytes[4096];
	size_t count;
	if (file && fseek(file, -GM_TAIL_MOST, SEEK_END) != 0)
		rewind(file);
	while (file && (count = fread(bytes, 1, sizeof(bytes), file)) > 0)
		gm_tail_put(&tail, bytes, count);
	struct gm_tail rest = tail;
	const char *last = gm_tail_last_line(&tail);
	snprintf(result->line, sizeof(result->line), "%s", program_line(&rest));
	if (result->outcome != GM_SIM_FAILED || !is_of_starting(result, last))
		return;
	result->outcome = GM_SIM_NOT_STARTED;
	if (!*result->line)
		snprintf(result->line, sizeof(result->line), "%s", last);
}

static bool is_from_outside(int signal_number)
{
	return signal_number == SIGKILL || signal_number == SIGTERM || signal_number == SIGINT ||
	       signal_number == SIGHUP;
}

static struct gm_error *read_recordings(
        const struct gm_sim_job *job, uint32_t rank, struct gm_sim_result *result)
{
	struct gm_sim_paths paths;
	gm_try(gm_sim_folder_recordings(job, rank, &paths));
	struct gm_error *error = NULL;
	for (size_t i = 0; i < paths.items.count && !error; i++)
		error = gm_sim_digest(paths.items.items[i], result);
	gm_sim_paths_deinit(&paths);
	return error;
}

void gm_sim_child_stop(struct gm_sim_child *child)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	double start = gm_seconds();
	if (!child->pid)
		return;
	kill(-child->pid, SIGTERM);
	while (waitpid(child->pid, NULL, WNOHANG) == 0 && gm_seconds() - start < STOP_SECONDS)
		nanosleep(&pause, NULL);
	kill(-child->pid, SIGKILL); /* the group may have others of it left */
	waitpid(child->pid, NULL, 0);
	child->pid = 0;
}

/* How far it came depends on the machine's speed: of its recording nothing counts. */
static void time_out(
        const struct gm_sim_job *job, struct gm_sim_child *child, struct gm_sim_result *ret_result)
{
	*ret_result = (struct gm_sim_result){.rank = child->rank,
	        .outcome = GM_SIM_TIMED_OUT,
	        .seconds = gm_seconds() - child->started};
	gm_sim_child_stop(child);
	read_last_line(job, ret_result->rank, ret_result);
}

struct gm_error *gm_sim_child_look(const struct gm_sim_job *job, struct gm_sim_child *child,
        bool *ret_ended, struct gm_sim_result *ret_result)
{
	int status;
	*ret_ended = false;
	if (job->timeout && gm_seconds() - child->started > job->timeout) {
		time_out(job, child, ret_result);
		*ret_ended = true;
		return NULL;
	}
	pid_t got = waitpid(child->pid, &status, WNOHANG);
	if (got == 0 || (got < 0 && errno == EINTR))
		return NULL;
	if (got < 0)
		return gm_error_os(
		        GM_INTERNAL, errno, "rank %" PRIu32 ": cannot be waited for", child->rank);
	*ret_ended = true;
	struct gm_sim_result result = {
	        .rank = child->rank, .seconds = gm_seconds() - child->started};
	uint32_t rank = child->rank;
	child->pid = 0;
	gm_try(read_recordings(job, rank, &result));
	if (WIFSIGNALED(status)) {
		result.status = (uint32_t)WTERMSIG(status);
		result.outcome = is_from_outside(WTERMSIG(status)) ? GM_SIM_KILLED : GM_SIM_CRASHED;
	} else {
		result.status = (uint32_t)WEXITSTATUS(status);
		result.outcome = result.status ? GM_SIM_FAILED : GM_SIM_RAN;
	}
	if (result.ooms && result.outcome != GM_SIM_KILLED)
		result.outcome = GM_SIM_OUT_OF_MEMORY;
	if (result.outcome != GM_SIM_RAN)
		read_last_line(job, rank, &result);
	*ret_result = result;
	return NULL;
}
