#include "cli/run_record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/size.h"
#include "cli/beside.h"
#include "log/format.h"
#include "spool/spool.h"

#define LIBRARY "libgpumem-agent.so"

/* ---- settings ---------------------------------------------------------------------------------------------- */

static struct gm_error *parse_size(const char *text, uint64_t *ret)
{
	static const struct {
		const char *name;
		unsigned shift;
	} units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"K", 10}, {"MiB", 20}, {"M", 20}, {"GiB", 30},
	        {"G", 30}};
	char *end;
	errno = 0;
	unsigned long long number = strtoull(text, &end, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (*text >= '0' && *text <= '9' && !errno && strcmp(end, units[i].name) == 0 &&
		        number > 0 && number <= UINT64_MAX >> (units[i].shift + 1)) {
			*ret = number << units[i].shift;
			return NULL;
		}
	return gm_error_create(
	        GM_USAGE, "run: --max-size %s: not a size: give a number with MiB or GiB", text);
}

static bool words_are(const char *text, const char *const *words)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy;
	for (char *word = copy; word && (word = strsep(&rest, ","));) {
		bool known = false;
		for (size_t i = 0; words[i]; i++)
			known = known || strcmp(word, words[i]) == 0;
		if (!known)
			return false;
	}
	return copy && *copy;
}

static struct gm_error *check(const struct gm_run_record *record)
{
	static const char *const devices[] = {"cuda", "cpu", NULL};
	static const char *const stacks[] = {"python", "native", NULL};
	if (strpbrk(record->out, ";\n") || !*record->out)
		return gm_error_create(GM_USAGE,
		        "run: -o %s: such a name cannot be given to the agent: take another",
		        record->out);
	if (record->devices && !words_are(record->devices, devices))
		return gm_error_create(GM_USAGE,
		        "run: --devices %s: no such devices: cuda, cpu, or cuda,cpu",
		        record->devices);
	if (record->stacks && strcmp(record->stacks, "none") != 0 &&
	        !words_are(record->stacks, stacks))
		return gm_error_create(GM_USAGE,
		        "run: --stacks %s: no such stacks: python, native, python,native, or none",
		        record->stacks);
	return NULL;
}

void gm_run_record_by_default(struct gm_run_record *record, FILE *err)
{
	const char *never = getenv("GPUMEM_NO_RECORD");
	if (never && *never && strcmp(never, "0") != 0)
		return;
	_cleanup_free_ char *library = NULL;
	_cleanup_error_ struct gm_error *error =
	        gm_library_beside(LIBRARY, "GPUMEM_AGENT_LIBRARY", "recording", &library);
	if (error || strpbrk(library, " :")) {
		fprintf(err, "gpumem: %s: the program runs unrecorded\n",
		        error ? error->message
		              : "the agent's path has a space or colon, which the loader refuses");
		return;
	}
	record->out = access(".", W_OK | X_OK) == 0 ? "gpumem-%p.gpumem" : "/tmp/gpumem-%p.gpumem";
}

/* What is at the file's place already goes, if it is a recording of ours or empty. */
static struct gm_error *make_way(const char *path)
{
	struct stat status;
	if (strchr(path, '%') || stat(path, &status) != 0)
		return NULL;
	if (!S_ISREG(status.st_mode))
		return gm_error_create(GM_USAGE, "run: -o %s: it is no file: name one", path);
	char magic[8] = "";
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool log = fd >= 0 && read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic) &&
	           memcmp(magic, GM_LOG_MAGIC, sizeof(magic)) == 0;
	if (status.st_size > 0 && !log && !gm_spool_is(path))
		return gm_error_create(GM_USAGE,
		        "run: -o %s: the file is there and is no recording: name another, or "
		        "remove it",
		        path);
	if (unlink(path) != 0)
		return gm_error_os(GM_USAGE, errno, "run: -o %s: cannot be replaced", path);
	return NULL;
}

static struct gm_error *folder_is_there(const char *path)
{
	_cleanup_free_ char *folder = strdup(path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	if (!slash)
		return NULL;
	*slash = 0;
	if (access(*folder ? folder : "/", W_OK | X_OK) != 0)
		return gm_error_os(GM_USAGE, errno, "run: -o %s: cannot be written", path);
	return NULL;
}

/* The file's name as the program's processes will see it, wherever they go. */
static char *absolute(const char *path)
{
	char folder[PATH_MAX], *full;
	if (path[0] == '/')
		return strdup(path);
	if (!getcwd(folder, sizeof(folder)) || asprintf(&full, "%s/%s", folder, path) < 0)
		return NULL;
	return full;
}

/* The agent hears NVTX, comes in with CUDA where LD_PRELOAD got lost, and `import gpumem` finds the module beside it. */
static struct gm_error *set_marks(const char *library)
{
	const char *before = getenv("PYTHONPATH"), *slash = strrchr(library, '/');
	_cleanup_free_ char *path = NULL;
	if (asprintf(&path, "%s%s%.*s/gpumem-python", before ? before : "",
	            before && *before ? ":" : "", slash ? (int)(slash - library) : 1,
	            slash ? library : ".") < 0) {
		path = NULL;
		return &gm_error_no_memory;
	}
	return setenv("NVTX_INJECTION64_PATH", library, 0) != 0 ||
	                       setenv("CUDA_INJECTION64_PATH", library, 0) != 0 ||
	                       setenv("PYTHONPATH", path, 1) != 0
	               ? &gm_error_no_memory
	               : NULL;
}

static struct gm_error *set_environment(
        const struct gm_run_record *record, const char *out, const char *list, char **variables)
{
	for (char **at = variables; at && *at; at++) {
		char *equals = strchr(*at, '=');
		_cleanup_free_ char *name = strndup(*at, (size_t)(equals - *at));
		if (!name || setenv(name, equals + 1, 1) != 0)
			return &gm_error_no_memory;
	}
	_cleanup_free_ char *library = NULL, *settings = NULL, *preload = NULL;
	gm_try(gm_library_beside(LIBRARY, "GPUMEM_AGENT_LIBRARY", "recording", &library));
	if (strpbrk(library, " :"))
		return gm_error_create(GM_TARGET,
		        "recording: %s: the loader cannot preload from a path with a space or "
		        "colon: install gpumem "
		        "elsewhere",
		        library);
	char self[PATH_MAX] = "";
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		self[0] = 0;
	uint64_t limit = 0;
	if (record->max_size)
		gm_try(parse_size(record->max_size, &limit));
	const char *before = getenv("LD_PRELOAD");
	if (asprintf(&settings,
	            "out=%s;list=%s;devices=%s;stacks=%s;max=%ju;keep=%s;on_oom=%s;gpumem=%s", out,
	            list, record->devices ? record->devices : "cuda",
	            record->stacks ? record->stacks : "python,native", (uintmax_t)limit,
	            record->keep ? record->keep : "newest",
	            record->on_oom ? record->on_oom : "none", self) < 0) {
		settings = NULL;
		return &gm_error_no_memory;
	}
	/* before the simulated device, which stands in front of libc10 as well */
	if (asprintf(&preload, "%s%s%s", library, before && *before ? ":" : "",
	            before ? before : "") < 0) {
		preload = NULL;
		return &gm_error_no_memory;
	}
	/* who is injected already (Nsight) stays */
	gm_try(set_marks(library));
	return setenv("GPUMEM_AGENT", settings, 1) != 0 || setenv("LD_PRELOAD", preload, 1) != 0
	               ? &gm_error_no_memory
	               : NULL;
}

/* ---- the program -------------------------------------------------------------------------------------------- */

static pid_t program;

static void hand_on(int signal_number)
{
	if (program > 0)
		kill(program, signal_number);
}

/* What a terminal sends goes to the program by itself; what others send to us is handed on. */
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

/* Signals come through only when there is a program to hand them to. */
static struct gm_error *start(const struct gm_run_record *record, const char *out, const char *list,
        char **argv, char **variables)
{
	int failed[2];
	sigset_t all, before;
	if (pipe2(failed, O_CLOEXEC) != 0)
		return gm_error_os(GM_TARGET, errno, "run: no pipe");
	fflush(NULL);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	program = fork();
	if (program == 0) {
		struct gm_error *error = set_environment(record, out, list, variables);
		sigprocmask(SIG_SETMASK, &before, NULL);
		if (!error) {
			execvp(argv[0], argv);
			error = errno == ENOENT ? gm_error_create(GM_TARGET,
			                                  "%s: there is no such program: check the "
			                                  "name, or give its path",
			                                  argv[0])
			                        : gm_error_os(GM_TARGET, errno,
			                                  "%s: cannot be started", argv[0]);
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
		return gm_error_os(GM_TARGET, code, "run: no process");
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

static int wait_for_program(void)
{
	int status;
	while (waitpid(program, &status, 0) < 0)
		if (errno != EINTR)
			return 0;
	return status;
}

/* ---- what was recorded --------------------------------------------------------------------------------------- */

struct recorded {
	pid_t pid;
	char *path;
	struct gm_spool_summary summary;
	struct gm_error *error;
	bool runs;
};

struct outcome {
	GM_ARRAY(struct recorded) processes;
	bool loaded; /* some process had the agent */
};

static void read_list(const char *path, struct outcome *outcome)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	ssize_t length;
	while (file && (length = getline(&line, &size, file)) > 0) {
		if (line[length - 1] == '\n')
			line[length - 1] = 0;
		char *space = strchr(line, ' ');
		outcome->loaded = true;
		if (!space)
			continue;
		struct recorded one = {.pid = (pid_t)atol(line), .path = strdup(space + 1)};
		if (!one.path || !gm_array_push(&outcome->processes, one))
			free(one.path);
	}
}

/* In place: a reader finds either form, whole. */
static void finish(struct recorded *one, int program_status)
{
	_cleanup_free_ char *temporary = NULL;
	if (one->pid != program && kill(one->pid, 0) == 0) {
		one->runs = true;
		return;
	}
	const struct gm_spool_options options = {
	        .size = sizeof(options),
	        .packed = true,
	        .exited = one->pid == program && WIFEXITED(program_status),
	        .signal = one->pid == program && WIFSIGNALED(program_status)
	                          ? WTERMSIG(program_status)
	                          : 0,
	};
	if (asprintf(&temporary, "%s.tmp", one->path) < 0) {
		temporary = NULL;
		one->error = &gm_error_no_memory;
		return;
	}
	one->error = gm_spool_convert(one->path, temporary, &options, &one->summary);
	if (!one->error && rename(temporary, one->path) != 0)
		one->error = gm_error_os(GM_TARGET, errno, "%s: cannot be replaced", one->path);
	if (one->error)
		unlink(temporary); /* the agent's own form is there, and is read as well */
}

static const char *as_typed(const char *path, const char *folder)
{
	size_t length = strlen(folder);
	return strncmp(path, folder, length) == 0 && path[length] == '/' ? path + length + 1 : path;
}

static void tell(const struct gm_run_record *record, const struct outcome *outcome, FILE *err)
{
	char folder[PATH_MAX] = "";
	uint64_t events = 0, peak = 0, lost = 0;
	const struct recorded *first = NULL;
	size_t count = 0;
	if (!getcwd(folder, sizeof(folder)))
		folder[0] = 0;
	for (size_t i = 0; i < outcome->processes.count; i++) {
		const struct recorded *one = &outcome->processes.items[i];
		if (one->error)
			fprintf(err,
			        "gpumem: %s: it stays in the agent's own form, which can be read "
			        "too\n",
			        one->error->message);
		if (one->runs)
			fprintf(err, "gpumem: process %d still runs and records in %s\n",
			        (int)one->pid, as_typed(one->path, folder));
		if (one->runs || one->error)
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
		fprintf(err, "gpumem: recorded %s events, peak %s bytes allocated; in %s",
		        gm_text_grouped(events, number), gm_text_grouped(peak, bytes),
		        as_typed(first->path, folder));
		if (count > 1)
			fprintf(err, " and %zu more files, one a process", count - 1);
		if (lost)
			fprintf(err, "; %s events are missing: `gpumem info` says why",
			        gm_text_grouped(lost, number));
		fprintf(err, "\ngpumem: next: gpumem %s %s\n", first->summary.ooms ? "oom" : "peak",
		        as_typed(first->path, folder));
	} else if (outcome->processes.count == 0 && outcome->loaded) {
		fprintf(err,
		        "gpumem: nothing to record: no process allocated %s memory through "
		        "PyTorch\n",
		        record->devices ? record->devices : "cuda");
	} else if (outcome->processes.count == 0) {
		fprintf(err, "gpumem: nothing was recorded: the program cannot load the agent (it "
		             "is static, setuid, "
		             "of another C library or of another machine)\n");
	}
}

static void end_as(int status)
{
	const struct rlimit no_core = {0, 0};
	int signal_number = WTERMSIG(status);
	sigset_t one;
	setrlimit(RLIMIT_CORE, &no_core); /* the program has left its own */
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
	int status = wait_for_program();
	struct outcome outcome = {0};
	read_list(list, &outcome);
	for (size_t i = 0; i < outcome.processes.count; i++)
		finish(&outcome.processes.items[i], status);
	tell(record, &outcome, err);
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

struct gm_error *gm_run_record(const struct gm_run_record *record, char **argv, char **variables,
        FILE *err, int *ret_status)
{
	gm_try(check(record));
	uint64_t ignored;
	if (record->max_size)
		gm_try(parse_size(record->max_size, &ignored));
	_cleanup_free_ char *out = absolute(record->out);
	if (!out)
		return &gm_error_no_memory;
	gm_try(make_way(out));
	gm_try(folder_is_there(out));
	const char *folder = getenv("TMPDIR");
	_cleanup_free_ char *list = NULL;
	if (asprintf(&list, "%s/gpumem-run-XXXXXX", folder && *folder ? folder : "/tmp") < 0) {
		list = NULL;
		return &gm_error_no_memory;
	}
	int fd = mkostemp(list, O_CLOEXEC);
	if (fd < 0)
		return gm_error_os(
		        GM_TARGET, errno, "run: %s: no room for the list of recordings", list);
	close(fd);
	struct gm_error *error = run(record, out, list, argv, variables, err, ret_status);
	if (error)
		unlink(list);
	return error;
}
