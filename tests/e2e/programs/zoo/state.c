/* What the kernel knows of the program, by system calls that need no memory and open nothing. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "zoo.h"

enum { SIGNALS = 64, FILES = 64, NAME = 120, PATIENCE = 600 };

struct file {
	long number;
	char name[NAME];
};

struct action {
	uint64_t handler, flags, restorer, mask;
};

struct state {
	struct action actions[SIGNALS + 1];
	uint64_t mask, pending, base;
	stack_t other;
	struct rlimit limits[RLIM_NLIMITS];
	struct itimerval timers[3]; /* the first one is the work's */
	int dumpable, death, slack, persona, nice;
	char name[16], folder[NAME];
	struct file files[FILES];
	int file_count;
	char status[2048];
	int threads;
};

static struct state before, after;
static int tasks, files, status;

void state_prepare(void)
{
	tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	files = open("/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	status = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
	if (tasks < 0 || files < 0 || status < 0)
		wrong("/proc cannot be opened");
}

/* Calls `found` with each name that is a number. */
static void each(int folder, void (*found)(long number))
{
	char entries[4096];
	lseek(folder, 0, SEEK_SET);
	for (long got; (got = syscall(SYS_getdents64, folder, entries, sizeof(entries))) > 0;) {
		for (long at = 0; at < got;) {
			unsigned short length;
			memcpy(&length, entries + at + 16, sizeof(length));
			long number = 0;
			const char *name = entries + at + 19;
			while (*name >= '0' && *name <= '9')
				number = number * 10 + *name++ - '0';
			if (!*name && name > entries + at + 19)
				found(number);
			at += length;
		}
	}
}

static struct state *filling;

static void count(long number)
{
	(void)number;
	filling->threads++;
}

/* The recording is the agent's. */
static void add_file(long number)
{
	char path[24];
	struct file *file = &filling->files[filling->file_count];
	snprintf(path, sizeof(path), "%ld", number);
	ssize_t length = syscall(SYS_readlinkat, files, path, file->name, NAME - 1);
	if (length < 0)
		length = 0;
	file->name[length] = 0;
	file->number = number;
	if (!strstr(file->name, ".gpumem") && !strstr(file->name, "gpumem-agent") &&
	        filling->file_count < FILES - 1)
		filling->file_count++;
	else
		memset(file, 0, sizeof(*file));
}

/* Lines that stay: what it may, whose it is, its mask of files. */
static void take_status(struct state *state)
{
	static const char *const lines[] = {"Umask:", "Uid:", "Gid:", "Groups:", "CapInh:",
	        "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:",
	        "Seccomp_filters:", "Cpus_allowed:", "THP_enabled:"};
	char text[8192];
	ssize_t length = pread(status, text, sizeof(text) - 1, 0);
	text[length > 0 ? length : 0] = 0;
	state->status[0] = 0;
	for (char *line = text; *line;) {
		char *end = strchrnul(line, '\n');
		for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
			if (strncmp(line, lines[i], strlen(lines[i])) == 0)
				strncat(state->status, line, (size_t)(end - line) + (*end == '\n'));
		line = *end ? end + 1 : end;
	}
}

static void take(struct state *state)
{
	memset(state, 0, sizeof(*state));
	filling = state;
	for (int i = 1; i <= SIGNALS; i++)
		if (i != 32 && i != 33) /* the C library's own */
			syscall(SYS_rt_sigaction, i, NULL, &state->actions[i], 8);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &state->mask, 8);
	syscall(SYS_rt_sigpending, &state->pending, 8);
	syscall(SYS_arch_prctl, 0x1003 /* ARCH_GET_FS */, &state->base);
	syscall(SYS_sigaltstack, NULL, &state->other);
	for (int i = 0; i < RLIM_NLIMITS; i++)
		syscall(SYS_getrlimit, i, &state->limits[i]);
	for (int i = 1; i < 3; i++) {
		syscall(SYS_getitimer, i, &state->timers[i]);
		memset(&state->timers[i].it_value, 0, sizeof(state->timers[i].it_value));
	}
	state->dumpable = prctl(PR_GET_DUMPABLE);
	prctl(PR_GET_PDEATHSIG, &state->death);
	state->slack = prctl(PR_GET_TIMERSLACK);
	prctl(PR_GET_NAME, state->name);
	state->persona = (int)syscall(SYS_personality, 0xffffffff);
	state->nice = (int)syscall(SYS_getpriority, PRIO_PROCESS, 0);
	syscall(SYS_getcwd, state->folder, sizeof(state->folder));
	take_status(state);
	each(tasks, count);
	each(files, add_file);
}

void state_take(int threads)
{
	take(&before);
	before.threads = threads;
}

static void compare_signals(void)
{
	/* The C library uses its signals 32 and 33 once it has a second thread. */
	for (int i = 1; i <= SIGNALS; i++)
		if (memcmp(&before.actions[i], &after.actions[i], sizeof(struct action)) != 0)
			wrong("what signal %d does", i);
	if (before.mask != after.mask)
		wrong("blocked signals: %lx, were %lx", (long)after.mask, (long)before.mask);
	if (before.pending != after.pending)
		wrong("pending signals: %lx, were %lx", (long)after.pending, (long)before.pending);
	if (memcmp(&before.other, &after.other, sizeof(stack_t)) != 0)
		wrong("the stack of signals");
}

static void compare_rest(void)
{
	if (before.base != after.base)
		wrong("the thread's base");
	if (memcmp(before.limits, after.limits, sizeof(before.limits)) != 0)
		wrong("a limit");
	if (memcmp(before.timers, after.timers, sizeof(before.timers)) != 0)
		wrong("a timer");
	if (before.dumpable != after.dumpable || before.death != after.death ||
	        before.slack != after.slack || before.persona != after.persona ||
	        before.nice != after.nice || memcmp(before.name, after.name, 16) != 0)
		wrong("an attribute of the process");
	if (strcmp(before.folder, after.folder) != 0)
		wrong("its folder: %s, was %s", after.folder, before.folder);
	if (strcmp(before.status, after.status) != 0)
		wrong("its status:\n%s\nwas\n%s", after.status, before.status);
}

void state_compare(void)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	for (int i = 0; i < PATIENCE * 100; i++) {
		take(&after);
		if (before.threads == after.threads)
			break;
		syscall(SYS_nanosleep, &pause, NULL);
	}
	if (before.threads != after.threads)
		wrong("%d threads, were %d", after.threads, before.threads);
	for (int i = 0; i < FILES; i++) {
		const struct file *had = &before.files[i], *has = &after.files[i];
		if (memcmp(had, has, sizeof(*had)) != 0)
			wrong("descriptor %ld: \"%s\", was %ld: \"%s\"", has->number, has->name,
			        had->number, had->name);
	}
	compare_signals();
	compare_rest();
}
