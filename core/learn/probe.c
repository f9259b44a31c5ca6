#include "learn/probe.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/sibling_path.h"
#include "base/cleanup.h"
#include "base/close_range.h"
#include "base/tail.h"
#include "learn/still.h"
#include "sim/launch.h"

enum {
	LIMIT_SECONDS = 60,
	STILL_MS = 10000,
	MAX_TEXT = 8 << 20,
	HANDOVER = 3, /* the descriptor that it writes to */
	MAX_SETTINGS = 64,
};

/* Variables that a Python needs to find itself, its packages and libraries. All others may change
 * what the probe sees, or are secret. */
static const char *const passed_on[] = {"PATH", "HOME", "USER", "LD_LIBRARY_PATH", "PYTHONPATH",
        "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONPLATLIBDIR", "VIRTUAL_ENV",
        "CONDA_PREFIX", "LANG", "LC_ALL", "TMPDIR"};
static const char *const always[] = {"GPUMEM_SIM_QUIET=1", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1",
        "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore", "CUDA_MODULE_LOADING=LAZY"};

/* --- arguments and environment ---------------------------------------------------------------- */

static char *probe_file(const struct gm_learn_options *options)
{
	char name[64];
	snprintf(name, sizeof(name), "gpumem-learn/%s",
	        options->probe ? options->probe : "torch/probe.py");
	return gm_installed_path(name);
}

static const char *variable_in(char *const *environment, const char *name)
{
	size_t length = strlen(name);
	for (; *environment; environment++)
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
			return *environment;
	return NULL;
}

struct settings {
	char *items[MAX_SETTINGS]; /* owned */
	size_t count;
};

static bool add(struct settings *settings, const char *text)
{
	if (settings->count + 1 >= MAX_SETTINGS)
		return false;
	char *copy = strdup(text);
	if (copy)
		settings->items[settings->count++] = copy;
	return copy != NULL;
}

static void settings_deinit(struct settings *settings)
{
	for (size_t i = 0; i < settings->count; i++)
		free(settings->items[i]);
}

/*
 * A list of folders without relative ones. An empty entry is the current folder, and
 * "PYTHONPATH=$PYTHONPATH:/x" can have one, in which anybody may have put a torch.py. NULL: out of
 * memory.
 */
static char *full_paths_only(const char *variable)
{
	const char *list = strchr(variable, '=') + 1;
	char *kept = malloc(strlen(variable) + 1), *end = kept;
	if (!kept)
		return NULL;
	end = mempcpy(end, variable, (size_t)(list - variable));
	for (size_t length; *list; list += length + (list[length] == ':')) {
		length = strcspn(list, ":");
		if (*list != '/')
			continue;
		if (end[-1] != '=')
			*end++ = ':';
		end = mempcpy(end, list, length);
	}
	*end = 0;
	return kept;
}

/* Whether a folder in it belongs to another user. */
static bool is_of_another(const char *variable)
{
	struct stat about;
	const char *folder = variable ? strchr(variable, '=') + 1 : NULL;
	return folder && stat(folder, &about) == 0 && about.st_uid != geteuid();
}

/* Root must not run packages from another user's home (`sudo` may keep HOME unchanged). */
static bool add_user_packages(char *const *environment, struct settings *settings)
{
	if (geteuid() != 0 || !(is_of_another(variable_in(environment, "HOME")) ||
	                              is_of_another(variable_in(environment, "PYTHONUSERBASE"))))
		return true;
	return add(settings, "PYTHONNOUSERSITE=1");
}

static struct gm_error *make_settings(
        char *const *environment, bool on_device, struct settings *settings)
{
	const struct gm_sim_launch launch = {.profile = "8GiBx3"};
	char **device = NULL;
	bool memory = true;
	if (on_device)
		gm_try(gm_sim_settings(&launch, &device));
	memory = add_user_packages(environment, settings); /* the first of two counts */
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++) {
		const char *text = variable_in(environment, passed_on[i]);
		bool list = text && (strncmp(text, "PYTHONPATH=", 11) == 0 ||
		                            strncmp(text, "LD_LIBRARY_PATH=", 16) == 0);
		_cleanup_free_ char *full = list ? full_paths_only(text) : NULL;
		memory = memory && (!list || full) && (!text || add(settings, list ? full : text));
	}
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		memory = memory && add(settings, always[i]);
	for (char **at = device; at && *at; at++)
		memory = memory && add(settings, *at);
	if (device)
		gm_sim_settings_free(device);
	return memory ? NULL : &gm_error_no_memory;
}

/* --- the process ------------------------------------------------------------------------------ */

/* Moves a descriptor: afterwards the remaining ones are closed. */
static int gm_take_fd(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}

struct pipes {
	int hold[2], text[2], errors[2];
};

static void pipes_close(struct pipes *pipes)
{
	int *all[] = {pipes->hold, pipes->text, pipes->errors};
	for (size_t i = 0; i < 3; i++)
		for (size_t j = 0; j < 2; j++)
			if (all[i][j] >= 0)
				close(gm_take_fd(&all[i][j]));
}

static struct gm_error *pipes_open(struct pipes *pipes)
{
	*pipes = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
	int *all[] = {pipes->hold, pipes->text, pipes->errors};
	for (size_t i = 0; i < 3; i++) {
		if (pipe2(all[i], O_CLOEXEC) == 0)
			continue;
		int code = errno;
		pipes_close(pipes);
		return gm_error_os(GM_INTERNAL, code, "learn: no pipe for the probe");
	}
	return NULL;
}

/* In the child: calls that are safe after fork() only. */
static void become(const struct pipes *pipes, int nothing, char *const *argv, char *const *settings)
{
	const struct rlimit no_core = {0, 0};
	/* away from the numbers that they will get */
	int hold = fcntl(pipes->hold[0], F_DUPFD, 10), text = fcntl(pipes->text[1], F_DUPFD, 10),
	    errors = fcntl(pipes->errors[1], F_DUPFD, 10);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &no_core);
	if (dup2(hold, 0) < 0 || dup2(nothing, 1) < 0 || dup2(errors, 2) < 0 ||
	        dup2(text, HANDOVER) < 0)
		_exit(126);
	gm_close_range(HANDOVER + 1, ~0U);
	/* nothing may be loaded from the folder in which the question was asked */
	if (chdir("/") != 0)
		_exit(126);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvpe(argv[0], argv, settings);
	_exit(errno == ENOENT ? 127 : 126);
}

static unsigned limit_seconds(void)
{
	const char *text = getenv("GPUMEM_LEARN_LIMIT"); /* for tests, and for busy machines */
	int limit = text ? atoi(text) : 0;
	return limit > 0 ? (unsigned)limit : LIMIT_SECONDS;
}

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct heard {
	char *text;
	size_t size;
	struct gm_tail errors;
	bool text_open, errors_open, whole;
};

static bool ends_whole(const struct heard *heard)
{
	return heard->size >= 5 && memcmp(heard->text + heard->size - 5, "\nend\n", 5) == 0;
}

/* Until everything is read, both ends are closed, or the time is over (false). */
static bool listen_to(const struct pipes *pipes, struct heard *heard)
{
	int64_t end = now_ms() + (int64_t)limit_seconds() * 1000;
	while (!heard->whole && (heard->text_open || heard->errors_open)) {
		struct pollfd polls[2] = {{heard->text_open ? pipes->text[0] : -1, POLLIN, 0},
		        {heard->errors_open ? pipes->errors[0] : -1, POLLIN, 0}};
		int64_t left = end - now_ms();
		int got = left > 0 ? poll(polls, 2, (int)left) : 0;
		if (got == 0)
			return false;
		if (got < 0 && errno != EINTR)
			return true;
		char bytes[4096];
		if (got > 0 && polls[0].revents) {
			ssize_t size = heard->size < MAX_TEXT
			                       ? read(pipes->text[0], heard->text + heard->size,
			                                 MAX_TEXT - heard->size)
			                       : 0;
			heard->text_open = size > 0;
			heard->size += size > 0 ? (size_t)size : 0;
			heard->whole = ends_whole(heard);
		}
		if (got > 0 && polls[1].revents) {
			ssize_t size = read(pipes->errors[0], bytes, sizeof(bytes));
			heard->errors_open = size > 0;
			if (size > 0)
				gm_tail_put(&heard->errors, bytes, (size_t)size);
		}
	}
	return true;
}

/* The last line of its output, truncated and with printable characters only. */
static const char *last_line(struct heard *heard)
{
	char *line = gm_tail_last_line(&heard->errors);
	for (char *at = line; *at; at++)
		if (!isprint((unsigned char)*at))
			*at = '?';
	if (strlen(line) > 300)
		line[300] = 0;
	return line;
}

static struct gm_error *explain(const char *python, bool in_time, int status, struct heard *heard)
{
	const char *line = last_line(heard);
	if (!in_time)
		return gm_error_create(GM_TARGET,
		        "learn: %s: the probe was not ready after %u s and was ended: see whether "
		        "`import torch` "
		        "works there; GPUMEM_LEARN_LIMIT=SECONDS gives it more time",
		        python, limit_seconds());
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return gm_error_create(GM_TARGET,
		        "learn: %s: no such program: name the Python that has the PyTorch", python);
	if (WIFSIGNALED(status))
		return gm_error_create(GM_TARGET,
		        "learn: %s: the probe was killed by signal %d (%s)%s%s: nothing was "
		        "learned",
		        python, WTERMSIG(status), strsignal(WTERMSIG(status)), *line ? ": " : "",
		        line);
	return gm_error_create(GM_TARGET,
	        "learn: %s: the probe ended without an answer%s%s: name the Python that runs the "
	        "program, with its "
	        "PyTorch",
	        python, *line ? ": " : "", line);
}

/* Not waited for, so that its process number stays reserved until gm_probe_end(). */
static bool has_ended(pid_t pid, int *ret_status)
{
	siginfo_t info = {0};
	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
		return true;
	if (info.si_pid != pid)
		return false;
	*ret_status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
	return true;
}

/* It is started in another folder than ours. A name without a slash is searched for in PATH. Links
 * are not resolved: a link identifies a virtual environment. */
static struct gm_error *full_name(const char *python, char **ret_name)
{
	_cleanup_free_ char *folder = NULL;
	char *name;
	if (!strchr(python, '/') || python[0] == '/')
		name = strdup(python);
	else if (!(folder = getcwd(NULL, 0)))
		return gm_error_os(GM_TARGET, errno, "learn: the current folder is not known");
	else if (asprintf(&name, "%s/%s", folder, python) < 0)
		name = NULL;
	*ret_name = name;
	return name ? NULL : &gm_error_no_memory;
}

static pid_t python_of(const struct gm_probe *probe)
{
	const char *line = strstr(probe->text, "\npid ");
	int pid = 0;
	return line && sscanf(line, "\npid %d", &pid) == 1 ? pid : probe->pid;
}

struct gm_error *gm_probe_start(const struct gm_learn_options *options, struct gm_probe *ret_probe)
{
	_cleanup_(settings_deinit) struct settings settings = {0};
	_cleanup_free_ char *file = probe_file(options);
	_cleanup_close_ int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct pipes pipes;
	if (!file)
		return gm_error_create(GM_INTERNAL, "learn: gpumem-learn/torch/probe.py is not "
		                                    "installed next to this program: install "
		                                    "gpumem whole");
	extern char **environ;
	gm_try(make_settings(options->environment ? options->environment : environ,
	        options->probe == NULL, &settings));
	char site[] = "", handover[] = "3";
	_cleanup_free_ char *python = NULL;
	gm_try(full_name(options->python, &python));
	char *torch[] = {python, (char[]){"-B"}, file, handover,
	        options->site ? (char *)(uintptr_t)options->site : site, NULL};
	/* the probe of CPython needs no packages, and none may change what it sees */
	char *alone[] = {torch[0], (char[]){"-I"}, (char[]){"-S"}, torch[1], file, handover, NULL};
	char **argv = options->probe ? alone : torch;
	struct heard heard = {.text = malloc(MAX_TEXT + 1), .text_open = true, .errors_open = true};
	_cleanup_free_ char *text = heard.text;
	if (!text)
		return &gm_error_no_memory;
	gm_try(pipes_open(&pipes));
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		become(&pipes, nothing, argv, settings.items);
	if (pid < 0) {
		int code = errno;
		pipes_close(&pipes);
		return gm_error_os(GM_INTERNAL, code, "learn: the probe cannot be started");
	}
	(void)setpgid(pid, pid); /* whoever connects first */
	int ends[] = {pipes.hold[0], pipes.text[1], pipes.errors[1]};
	for (size_t i = 0; i < 3; i++)
		close(ends[i]);
	pipes.hold[0] = pipes.text[1] = pipes.errors[1] = -1;
	struct gm_probe probe = {.pid = pid, .hold = gm_take_fd(&pipes.hold[1])};
	bool in_time = listen_to(&pipes, &heard);
	pipes_close(&pipes);
	if (!heard.whole) {
		/* it may have closed its end and continue: not for long */
		int status = 0;
		for (int i = 0; in_time && i < 200 && !has_ended(pid, &status); i++)
			nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
		gm_probe_end(&probe);
		return explain(options->python, in_time, status, &heard);
	}
	text[heard.size] = 0;
	probe.text = gm_take(text);
	probe.size = heard.size;
	probe.python = python_of(&probe);
	/* A package may have a thread that never waits: then the proof shows whether that matters.
	 * */
	(void)gm_wait_still(probe.python, STILL_MS);
	*ret_probe = probe;
	return NULL;
}

void gm_probe_end(struct gm_probe *probe)
{
	if (probe->pid > 0) {
		(void)kill(-probe->pid, SIGKILL);
		(void)kill(probe->pid, SIGKILL);
		while (waitpid(probe->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (probe->hold >= 0)
		close(probe->hold);
	free(probe->text);
	*probe = (struct gm_probe){.hold = -1};
}
