/*
 * What is to happen where a device has run out of memory, without a debugger: the program stops
 * there, so that one can be attached at that very moment; or `gpumem core` writes a core of it, and
 * it goes on. Once a process: programs may run out of memory often and go on.
 */
#include "agent/oom.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/failure.h"
#include "agent/state.h"

enum { VARIABLES_MAX = 4096 };

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

static bool write_core(const char *gpumem, const char *path)
{
	char pid_text[16];
	snprintf(pid_text, sizeof(pid_text), "%u", gm_agent_pid());
	char *arguments[] = {
	        (char *)gpumem, (char *)"core", pid_text, (char *)"-o", (char *)path, NULL};
	posix_spawn_file_actions_t actions;
	if (posix_spawn_file_actions_init(&actions) != 0)
		return false;
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", 1 /* O_WRONLY */, 0);
	/* Where only a parent may trace (kernel.yama.ptrace_scope 1), our child may for now. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	pid_t child;
	int status = -1;
	bool begun = posix_spawn(&child, gpumem, &actions, NULL, arguments, own_environment()) == 0;
	while (begun && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	prctl(PR_SET_PTRACER, 0, 0, 0, 0);
	posix_spawn_file_actions_destroy(&actions);
	return begun && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void act(const char *what)
{
	char gpumem[1024], core[1024], line[2400];
	uint32_t pid = gm_agent_pid();
	bool debugged = strcmp(what, "debugger") == 0; /* which tells more than our line */
	if (strcmp(what, "core") != 0) {
		snprintf(line, sizeof(line),
		        "gpumem: process %u ran out of GPU memory and stands still there: `gpumem "
		        "oom --pid %u` "
		        "or gdb tells why; `kill -CONT %u` lets it go on\n",
		        pid, pid, pid);
		if (!debugged)
			say(line);
		kill((pid_t)pid, SIGSTOP);
		return;
	}
	gm_agent_setting("gpumem", gpumem, sizeof(gpumem));
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
	show_failure(event);
	act(what);
	__atomic_store_n(&gpumem_agent_failure.stands, 0, __ATOMIC_RELEASE);
}
