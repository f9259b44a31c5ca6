/*
 * Reactions to an out-of-memory error without a debugger: the program stops there, so that one can
 * be attached at that very moment; or `gpumem core` writes a core of it, or `gpumem oom` a report,
 * and it continues. Once for each process, because a program may run out of memory often and
 * continue.
 */
#include "agent/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/aside.h"
#include "agent/failure.h"
#include "agent/state.h"

enum { VARIABLES_MAX = 4096 };
/* a report that takes longer is abandoned: the program must get its error */
enum { REPORT_MS = 20000, REPORT_SHOWN_MAX = 1 << 16 };

extern char **environ;

GM_AGENT_EXPORT extern struct gm_agent_failure gpumem_agent_failure;
struct gm_agent_failure gpumem_agent_failure;

static void show_failure(const struct gm_agent_event *event)
{
	gpumem_agent_failure = (struct gm_agent_failure){
	        .thread = gm_agent_thread(),
	        .device = event->device,
	        .requested = event->requested,
	        .allocated = event->allocated,
	        .reserved = event->reserved,
	};
	__atomic_store_n(&gpumem_agent_failure.stands, 1, __ATOMIC_RELEASE);
}

static void say(char *line)
{
	size_t length = strlen(line);
	ssize_t ignored = write(STDERR_FILENO, gm_agent_without_controls(line, length), length);
	(void)ignored;
}

/* gpumem itself is not to be recorded. */
static char **own_environment(void)
{
	static char *variables[VARIABLES_MAX];
	size_t count = 0;
	for (char **at = environ; at && *at && count < VARIABLES_MAX - 1; at++)
		if (strncmp(*at, "LD_PRELOAD=", 11) != 0 && strncmp(*at, "GPUMEM_AGENT=", 13) != 0)
			variables[count++] = *at;
	variables[count] = NULL;
	return variables;
}

/* gpumem's output goes to `out`; -1: nowhere. */
static bool run_gpumem(char *const *arguments, int out, unsigned milliseconds)
{
	/* If only a parent may trace (kernel.yama.ptrace_scope 1), allows any process for now. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	bool done = gm_agent_run_aside(arguments, own_environment(), out, milliseconds);
	prctl(PR_SET_PTRACER, 0, 0, 0, 0);
	return done;
}

static bool write_core(const char *gpumem, const char *path)
{
	char pid_text[16];
	snprintf(pid_text, sizeof(pid_text), "%u", gm_agent_pid());
	char *arguments[] = {
	        (char *)gpumem, (char *)"core", pid_text, (char *)"-o", (char *)path, NULL};
	return run_gpumem(arguments, -1, UINT_MAX);
}

/* run.gpumem: run.oom.txt, next to where the recording will be at the end. `pid` in it: 0: none. */
static void report_path(uint32_t pid, char *ret_path, size_t size)
{
	static const char suffix[] = ".gpumem";
	const char *path = *gm_agent_process.out ? gm_agent_process.out : gm_agent_process.path;
	size_t length = strlen(path), end = sizeof(suffix) - 1;
	if (length > end && strcmp(path + length - end, suffix) == 0)
		length -= end;
	if (pid)
		snprintf(ret_path, size, "%.*s.%u.oom.txt", (int)length, path, pid);
	else
		snprintf(ret_path, size, "%.*s.oom.txt", (int)length, path);
}

/* A program may have closed its standard descriptors. The report's is none of them: gpumem and the
 * lines for the user would be written into it. */
static int new_report(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	int higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
	close(fd);
	if (higher < 0)
		unlink(path);
	errno = error;
	return higher;
}

/*
 * Two ranks may have been given one name: only a recording's own name is certain to be its own, and
 * an old report of that name is replaced. In a folder that several users share, the name may be a
 * file of another user's, who would read the report: that one is left alone.
 */
static int open_report(uint32_t pid, char *ret_path, size_t size)
{
	bool own = !*gm_agent_process.out;
	struct stat old;
	report_path(0, ret_path, size);
	int fd = new_report(ret_path);
	if (fd >= 0 || errno != EEXIST)
		return fd;
	if (own && lstat(ret_path, &old) == 0 && old.st_uid == geteuid()) {
		if (S_ISREG(old.st_mode))
			unlink(ret_path);
		return new_report(ret_path);
	}
	report_path(pid, ret_path, size);
	return new_report(ret_path);
}

static void show_report(int fd)
{
	char bytes[4096];
	size_t shown = 0;
	ssize_t length;
	while (shown < REPORT_SHOWN_MAX &&
	        (length = pread(fd, bytes, sizeof(bytes), (off_t)shown)) > 0) {
		ssize_t ignored = write(STDERR_FILENO, bytes, (size_t)length);
		(void)ignored;
		shown += (size_t)length;
	}
}

static void report(const char *gpumem)
{
	char path[PATH_MAX + 16], pid_text[16], line[PATH_MAX + 200];
	uint32_t pid = gm_agent_pid();
	snprintf(pid_text, sizeof(pid_text), "%u", pid);
	char *arguments[] = {
	        (char *)gpumem, (char *)"oom", (char *)"--pid", pid_text, (char *)"--report", NULL};
	int fd = open_report(pid, path, sizeof(path));
	if (fd < 0) {
		snprintf(line, sizeof(line),
		        "gpumem: process %u ran out of GPU memory; no report: %s cannot be "
		        "written: %s\n",
		        pid, path, strerror(errno));
		say(line);
		return;
	}
	bool made = run_gpumem(arguments, fd, REPORT_MS);
	if (made) {
		show_report(fd);
		snprintf(line, sizeof(line), "gpumem: process %u: this report is in %s\n", pid,
		        path);
	} else {
		unlink(path);
		snprintf(line, sizeof(line),
		        "gpumem: process %u ran out of GPU memory; no report of it could be "
		        "made\n",
		        pid);
	}
	close(fd);
	say(line);
}

static void act(const char *what)
{
	char gpumem[1024], core[1024], line[2400];
	uint32_t pid = gm_agent_pid();
	bool debugged = strcmp(what, "debugger") == 0; /* it says more than our own line */
	gm_agent_setting("gpumem", gpumem, sizeof(gpumem));
	if (strcmp(what, "report") == 0) {
		report(gpumem);
		return;
	}
	if (strcmp(what, "core") != 0) {
		snprintf(line, sizeof(line),
		        "gpumem: process %u ran out of GPU memory and is stopped at the error: "
		        "`gpumem oom --pid %u` or gdb shows why; `kill -CONT %u` continues it\n",
		        pid, pid, pid);
		if (!debugged)
			say(line);
		kill((pid_t)pid, SIGSTOP);
		return;
	}
	gm_agent_setting("core", core, sizeof(core));
	if (!*core)
		snprintf(core, sizeof(core), "core.%u", pid);
	bool written = write_core(gpumem, core);
	snprintf(line, sizeof(line),
	        written ? "gpumem: process %u ran out of GPU memory: a core of it is in %s "
	                  "(`gpumem oom %s`)\n"
	                : "gpumem: process %u ran out of GPU memory; no core of it could be "
	                  "written to %s (%s)\n",
	        pid, core, written ? core : gpumem);
	say(line);
}

void gm_agent_out_of_memory(const struct gm_agent_event *event)
{
	static _Atomic uint32_t done;
	char what[16];
	uint32_t pid = gm_agent_pid(), before = atomic_load(&done);
	gm_agent_setting("on_oom", what, sizeof(what));
	if (!*what || strcmp(what, "none") == 0 || before == pid ||
	        !atomic_compare_exchange_strong(&done, &before, pid))
		return;
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	show_failure(event);
	act(what);
	__atomic_store_n(&gpumem_agent_failure.stands, 0, __ATOMIC_RELEASE);
	pthread_setcancelstate(cancel, NULL);
}
