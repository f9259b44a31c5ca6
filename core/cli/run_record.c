#include "cli/run_record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/put.h"
#include "base/size.h"
#include "cli/packing.h"
#include "cli/run_names.h"
#include "cli/run_settings.h"
#include "cli/spooled.h"

enum { LIST_BYTES = 16 << 10 }; /* bytes: one line for each process */

/* ---- the program ----------------------------------------------------------------------------- */

enum { LOOK_MS = 500 };

static pid_t program;
static volatile sig_atomic_t ends_soon; /* somebody wants it to end, and may kill it soon */

static void hand_on(int signal_number)
{
	ends_soon |= signal_number == SIGTERM;
	if (program > 0)
		kill(program, signal_number);
}

/* The program gets a terminal's signals itself; signals that others send to us are passed on. */
static void set_signals(void)
{
	static const int handed_on[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM};
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction hand = {.sa_handler = hand_on, .sa_flags = SA_RESTART};
	sigaction(SIGINT, &ignore, NULL);
	sigaction(SIGQUIT, &ignore, NULL);
	for (size_t i = 0; i < sizeof(handed_on) / sizeof(handed_on[0]); i++)
		sigaction(handed_on[i], &hand, NULL);
}

/* Signals are unblocked only when there is a program to pass them to. */
static struct gm_error *start(const struct gm_run_record *record, const char *out, const char *list,
        char **argv, char **variables)
{
	int failed[2];
	sigset_t all, before;
	if (pipe2(failed, O_CLOEXEC) != 0)
		return gm_error_os(GM_TARGET, errno, "run: cannot create a pipe");
	fflush(NULL);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	program = fork();
	if (program == 0) {
		struct gm_error *error = gm_run_settings_set(record, out, list, variables);
		sigprocmask(SIG_SETMASK, &before, NULL);
		if (!error) {
			execvp(argv[0], argv);
			error = gm_run_not_started(argv[0], errno);
		}
		unsigned char status = (unsigned char)error->status;
		ssize_t ignored = write(failed[1], &status, 1);
		ignored = write(failed[1], error->message, strlen(error->message));
		(void)ignored;
		_exit(127);
	}
	int code = errno;
	set_signals();
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(failed[1]);
	_cleanup_close_ int in = failed[0];
	if (program < 0)
		return gm_error_os(GM_TARGET, code, "run: cannot create a process");
	char text[4096];
	size_t count = 0;
	ssize_t got;
	while (count < sizeof(text) - 1 &&
	        (got = read(in, text + count, sizeof(text) - 1 - count)) != 0)
		if (got > 0)
			count += (size_t)got;
		else if (errno != EINTR)
			break;
	if (count == 0)
		return NULL;
	text[count] = 0;
	waitpid(program, NULL, 0);
	return gm_error_create((enum gm_status)text[0], "%s", text + 1);
}

/* --- the recordings --------------------------------------------------------------------------- */

struct recorded {
	pid_t pid;
	char *path;
	struct gm_spool_summary summary;
	struct gm_error *error;
	bool runs;
	bool empty; /* it recorded nothing, and its file is removed */
};

struct outcome {
	GM_ARRAY(struct recorded) processes;
	bool loaded; /* some process had the agent */
};

/* Recordings that are made in another folder, while their program runs. */
struct spooling {
	const char *list;
	char old[GM_RUN_OLD_MAX];
	GM_ARRAY(struct gm_spooled *) recordings;
	bool saved_before_end;
};

static void add_recorded(void *context, pid_t pid, const char *path)
{
	struct outcome *outcome = context;
	outcome->loaded = true;
	if (!*path)
		return;
	struct recorded one = {.pid = pid, .path = strdup(path)};
	if (!one.path || !gm_array_push(&outcome->processes, one))
		free(one.path);
}

static struct gm_spooled *find_spooled(const struct spooling *spooling, const char *path)
{
	for (size_t i = 0; i < spooling->recordings.count; i++)
		if (strcmp(spooling->recordings.items[i]->path, path) == 0)
			return spooling->recordings.items[i];
	return NULL;
}

static void add_spooled(void *context, pid_t pid, const char *path)
{
	struct spooling *spooling = context;
	(void)pid;
	if (!*path || find_spooled(spooling, path))
		return;
	struct gm_spooled *one = malloc(sizeof(*one));
	if (!one || !gm_spooled_init(one, path)) {
		free(one);
		return;
	}
	if (!gm_array_push(&spooling->recordings, one)) {
		gm_spooled_deinit(one);
		free(one);
	}
}

static void end_spooling(struct spooling *spooling)
{
	for (size_t i = 0; i < spooling->recordings.count; i++) {
		struct gm_spooled *one = spooling->recordings.items[i];
		gm_spooled_deinit(one);
		free(one);
	}
	gm_array_deinit(&spooling->recordings);
}

/*
 * A recording is saved before its program ends where that may be the last chance: a device ran out
 * of memory, and the other ranks, which wait for this one, will be killed with it; or the job is to
 * end, and whoever said so kills it soon.
 */
static void save_early(struct spooling *spooling)
{
	bool all = ends_soon && !spooling->saved_before_end;
	gm_packing_read_list(spooling->list, add_spooled, spooling);
	for (size_t i = 0; i < spooling->recordings.count; i++) {
		const struct gm_spool_options options = {.packed = true};
		struct gm_spool_summary summary;
		struct gm_spooled *one = spooling->recordings.items[i];
		/* what cannot be saved now is reported at the end */
		if (gm_spooled_has_oom(one) || all)
			gm_error_destroy(gm_spooled_save(one, spooling->old, &options, &summary));
	}
	spooling->saved_before_end |= all;
}

static int wait_for_program(struct spooling *spooling)
{
	_cleanup_close_ int process =
	        spooling ? (int)syscall(SYS_pidfd_open, program, 0) : -1; /* -1: an old kernel */
	struct pollfd ended = {.fd = process, .events = POLLIN};
	int status;
	for (;;) {
		pid_t got = waitpid(program, &status, spooling ? WNOHANG : 0);
		if (got > 0)
			return status;
		if (got < 0 && errno != EINTR)
			return 0;
		if (spooling) {
			save_early(spooling);
			poll(&ended, process >= 0 ? 1 : 0, LOOK_MS);
		}
	}
}

/* A process that nobody has waited for yet is one that has ended. */
static bool runs(pid_t pid)
{
	_cleanup_close_ int process = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd ended = {.fd = process, .events = POLLIN};
	return process >= 0 ? poll(&ended, 1, 0) == 0 : errno != ESRCH && kill(pid, 0) == 0;
}

static void finish(struct recorded *one, int program_status, struct spooling *spooling)
{
	if (one->pid != program && runs(one->pid)) {
		one->runs = true;
		return;
	}
	const struct gm_spool_options options = {
	        .packed = true,
	        .exited = one->pid == program && WIFEXITED(program_status),
	        .signal = one->pid == program && WIFSIGNALED(program_status)
	                          ? WTERMSIG(program_status)
	                          : 0,
	};
	struct gm_spooled *spooled = spooling ? find_spooled(spooling, one->path) : NULL;
	if (!spooled) {
		one->error = gm_packing_finish(one->path, &options, &one->summary);
		return;
	}
	one->error = gm_spooled_save(spooled, spooling->old, &options, &one->summary);
	if (one->error)
		return;
	unlink(one->path);
	free(one->path);
	one->path = gm_take(spooled->saved);
}

/* Workers that were forked, such as a DataLoader's, and allocated nothing: they leave no file
 * beside those of the processes that did. */
static void remove_empty(struct outcome *outcome)
{
	bool some = false;
	for (size_t i = 0; i < outcome->processes.count; i++)
		some |= outcome->processes.items[i].summary.events > 0;
	for (size_t i = 0; i < outcome->processes.count && some; i++) {
		struct recorded *one = &outcome->processes.items[i];
		if (!one->error && !one->runs && one->pid != program && !one->summary.events &&
		        !one->summary.lost)
			one->empty = unlink(one->path) == 0;
	}
}

static const char *as_typed(const char *path, const char *folder)
{
	size_t length = strlen(folder);
	return strncmp(path, folder, length) == 0 && path[length] == '/' ? path + length + 1 : path;
}

static void print_outcome(
        const struct gm_run_record *record, const struct outcome *outcome, FILE *err)
{
	char folder[PATH_MAX] = "";
	uint64_t events = 0, peak = 0, lost = 0;
	const struct recorded *first = NULL;
	const char *tool = record->tool;
	size_t count = 0;
	if (!getcwd(folder, sizeof(folder)))
		folder[0] = 0;
	for (size_t i = 0; i < outcome->processes.count; i++) {
		const struct recorded *one = &outcome->processes.items[i];
		if (one->error && one->error->os_error == ENOENT && access(one->path, F_OK) != 0)
			gm_put(err,
			        "gpumem: %s: the recording was removed or renamed while the "
			        "program ran: no file of this name is left\n",
			        as_typed(one->path, folder));
		else if (one->error && record->spool)
			gm_put(err,
			        one->error->status == GM_CORRUPT
			                ? "gpumem: %s\n"
			                : "gpumem: %s: the recording stays in %s, and can be read "
			                  "there; `gpumem run --collect --spool %s` moves it\n",
			        one->error->message, one->path, record->spool);
		else if (one->error)
			gm_put(err,
			        "gpumem: %s: the recording stays in the agent's own format, which "
			        "can be read too\n",
			        one->error->message);
		if (one->runs)
			gm_put(err, "gpumem: process %d still runs and records to %s\n",
			        (int)one->pid, as_typed(one->path, folder));
		if (one->runs || one->error || one->empty)
			continue;
		events += one->summary.events;
		lost += one->summary.lost;
		uint64_t most =
		        one->summary.cuda_peak ? one->summary.cuda_peak : one->summary.cpu_peak;
		if (!first || most > peak) {
			peak = most;
			first = one;
		}
		count++;
	}
	if (first) {
		char number[GM_SIZE_GROUPED], bytes[GM_SIZE_GROUPED];
		gm_put(err, "gpumem: recorded %s events, peak %s bytes allocated; in %s",
		        gm_text_grouped(events, number), gm_text_grouped(peak, bytes),
		        as_typed(first->path, folder));
		if (count > 1)
			gm_put(err, " and %zu more file%s, one for each process", count - 1,
			        gm_text_s(count - 1));
		if (lost)
			gm_put(err, "; %s events are missing: `gpumem info` shows why",
			        gm_text_grouped(lost, number));
		gm_put(err, "\ngpumem: next: gpumem %s %s\n", first->summary.ooms ? "oom" : "peak",
		        as_typed(first->path, folder));
	} else if (outcome->processes.count == 0 && outcome->loaded) {
		gm_put(err,
		        "gpumem: nothing to record: no process allocated %s memory through "
		        "PyTorch%s%s%s\n",
		        record->devices ? record->devices : "cuda", tool ? ", and with " : "",
		        tool ? tool : "", tool ? " other allocations are not seen" : "");
	} else if (outcome->processes.count == 0) {
		gm_put(err, "gpumem: nothing was recorded: the program cannot load the agent (it "
		            "is static, setuid, or for another C library or another machine)\n");
	}
}

static void end_as(int status)
{
	const struct rlimit no_core = {0, 0};
	int signal_number = WTERMSIG(status);
	sigset_t one;
	setrlimit(RLIMIT_CORE, &no_core); /* the program has changed to another folder */
	signal(signal_number, SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, signal_number);
	fflush(NULL);
	raise(signal_number);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
}

static struct gm_error *run(const struct gm_run_record *record, const char *out, const char *list,
        char **argv, char **variables, FILE *err, int *ret_status)
{
	gm_try(start(record, out, list, argv, variables));
	/* for a recording of limited size, packed data counts too, and it is small anyway */
	pid_t packer = record->max_size ? -1 : gm_packing_begin(list);
	struct gm_run_names *names = record->names ? gm_run_names_begin(list) : NULL;
	struct spooling spooling = {.list = list}, *used = record->spool ? &spooling : NULL;
	gm_run_old_file(out, spooling.old);
	int status = wait_for_program(used);
	char why[512] = "";
	gm_run_names_end(names, why, sizeof(why));
	gm_packing_end(packer);
	struct outcome outcome = {0};
	gm_packing_read_list(list, add_recorded, &outcome);
	if (used)
		gm_packing_read_list(list, add_spooled, used);
	for (size_t i = 0; i < outcome.processes.count; i++)
		finish(&outcome.processes.items[i], status, used);
	end_spooling(&spooling);
	remove_empty(&outcome);
	print_outcome(record, &outcome, err);
	if (*why)
		gm_put(err, "gpumem: the recording has no names: %s\n", why);
	for (size_t i = 0; i < outcome.processes.count; i++) {
		free(outcome.processes.items[i].path);
		gm_error_destroy(outcome.processes.items[i].error);
	}
	gm_array_deinit(&outcome.processes);
	unlink(list);
	if (WIFSIGNALED(status))
		end_as(status);
	*ret_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	return NULL;
}

/* If the agent cannot add to the list later, it does not report that, because it must not write to
 * the program's output. 0: there is space. */
static int disk_full(int list)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < LIST_BYTES)
		return EFBIG;
	return fallocate(list, FALLOC_FL_KEEP_SIZE, 0, LIST_BYTES) != 0 ? errno : 0;
}

struct gm_error *gm_run_record(const struct gm_run_record *record, char **argv, char **variables,
        FILE *err, int *ret_status)
{
	_cleanup_free_ char *out = NULL;
	gm_try(gm_run_settings_prepare(record, &out));
	size_t left = record->spool ? gm_spooled_count_left(record->spool) : 0;
	if (left)
		gm_put(err,
		        "gpumem: %s: %zu recording%s of earlier runs, which were killed: `gpumem "
		        "run --collect --spool %s` moves %s to where %s belong%s\n",
		        record->spool, left, left == 1 ? "" : "s", record->spool,
		        left == 1 ? "it" : "them", left == 1 ? "it" : "they", left == 1 ? "s" : "");
	const char *folder = getenv("TMPDIR");
	_cleanup_free_ char *list = NULL;
	if (asprintf(&list, "%s/gpumem-run-XXXXXX", folder && *folder ? folder : "/tmp") < 0) {
		list = NULL;
		return &gm_error_no_memory;
	}
	if (strpbrk(list, ";\n")) /* the separator of the agent's settings */
		return gm_error_create(GM_USAGE,
		        "run: TMPDIR=%s: the path contains ';' or a newline: use another folder",
		        folder);
	int fd = mkostemp(list, O_CLOEXEC);
	if (fd < 0)
		return gm_error_os(GM_TARGET, errno,
		        "run: %s (TMPDIR): no space for the list of recordings", list);
	int full = disk_full(fd);
	close(fd);
	if (full == ENOSPC || full == EDQUOT || full == EFBIG) {
		unlink(list);
		return gm_error_os(GM_TARGET, full,
		        "run: %s (TMPDIR): no space for the list of recordings", list);
	}
	struct gm_error *error = run(record, out, list, argv, variables, err, ret_status);
	if (error)
		unlink(list);
	return error;
}
