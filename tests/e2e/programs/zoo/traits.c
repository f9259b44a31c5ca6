/* What is done once, before the program begins. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zoo.h"

enum { NOBODY = 65534, QUEUED = 3 };

static volatile sig_atomic_t reached[65];
static bool pending, traps;

static void reach(int number)
{
	reached[number]++;
}

/* ---- filters --------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	uint32_t action;
} actions[] = {
        {"errno", SECCOMP_RET_ERRNO | EPERM},
        {"nosys", SECCOMP_RET_ERRNO | ENOSYS},
        {"kill", SECCOMP_RET_KILL_PROCESS},
        {"thread", SECCOMP_RET_KILL_THREAD},
        {"trap", SECCOMP_RET_TRAP},
        {"trace", SECCOMP_RET_TRACE},
        {"notify", SECCOMP_RET_USER_NOTIF},
        {"log", SECCOMP_RET_LOG},
};

/* What the program itself calls from then on. */
static const int own_calls[] = {SYS_read, SYS_write, SYS_poll, SYS_lseek, SYS_getdents64,
        SYS_readlinkat, SYS_pread64, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigpending,
        SYS_arch_prctl, SYS_sigaltstack, SYS_getrlimit, SYS_getitimer, SYS_prctl, SYS_personality,
        SYS_getpriority, SYS_getcwd, SYS_nanosleep, SYS_clock_nanosleep, SYS_rt_sigreturn,
        SYS_exit_group, SYS_restart_syscall, SYS_futex, SYS_getpid, SYS_gettid, SYS_tgkill};

static struct sock_filter load(size_t offset)
{
	return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset);
}

static struct sock_filter answer(uint32_t action)
{
	return (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
}

static void install(struct sock_filter *code, size_t count)
{
	const struct sock_fprog program = {(unsigned short)count, code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		wrong("seccomp");
}

/* "ACTION:NUMBER", or "ACTION:own": at all calls but its own. */
static void filter(const char *value)
{
	struct sock_filter code[128];
	size_t count = 0, length = strcspn(value, ":");
	uint32_t action = 0;
	for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++)
		if (strlen(actions[i].name) == length &&
		        strncmp(value, actions[i].name, length) == 0)
			action = actions[i].action;
	traps = traps || action == SECCOMP_RET_TRAP;
	bool own = strcmp(value + length, ":own") == 0;
	code[count++] = load(offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < (own ? sizeof(own_calls) / sizeof(*own_calls) : 1); i++) {
		unsigned number = own ? (unsigned)own_calls[i] : (unsigned)atoi(value + length + 1);
		code[count++] =
		        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
		code[count++] = answer(own ? SECCOMP_RET_ALLOW : action);
	}
	code[count++] = answer(own ? action : SECCOMP_RET_ALLOW);
	install(code, count);
}

/* ---- signals --------------------------------------------------------------------------------- */

/* Signals that come in vain are counted: none has to. */
static void have_handlers(const char *value)
{
	static const int numbers[] = {SIGTRAP, SIGSEGV, SIGILL, SIGBUS, SIGFPE, SIGSYS, SIGCHLD,
	        SIGCONT, SIGXFSZ, SIGXCPU, SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGURG, SIGIO};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		handle(numbers[i], strcmp(value, "ignore") == 0 ? SIG_IGN : reach);
}

static void block(const char *value)
{
	sigset_t set;
	sigfillset(&set);
	if (strcmp(value, "trap") == 0) {
		sigemptyset(&set);
		sigaddset(&set, SIGTRAP);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/* A few wait for the program, one of them queued several times. */
static void have_pending(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGRTMIN + 3);
	sigprocmask(SIG_BLOCK, &set, NULL);
	handle(SIGUSR2, reach);
	handle(SIGRTMIN + 3, reach);
	kill(getpid(), SIGUSR2);
	for (int i = 0; i < QUEUED; i++)
		sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = i});
	pending = true;
}

void trait_check(void)
{
	static const int never[] = {SIGTRAP, SIGSEGV, SIGILL, SIGBUS, SIGFPE, SIGSYS, SIGCHLD,
	        SIGCONT, SIGXFSZ, SIGXCPU};
	for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
		if (reached[never[i]] && never[i] != SIGCONT)
			wrong("signal %d came", never[i]);
	if (!pending)
		return;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGRTMIN + 3);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	if (reached[SIGUSR2] != 1 || reached[SIGRTMIN + 3] != QUEUED)
		wrong("pending signals were lost, or came twice");
}

/* ---- limits ---------------------------------------------------------------------------------- */

static uint64_t bytes_mapped(void)
{
	unsigned long long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file || fscanf(file, "%llu", &pages) != 1)
		wrong("statm");
	fclose(file);
	return pages * 4096;
}

/* "as:BYTES more than now", "nofile:", "fsize:BYTES", "nproc:", "data:BYTES more",
 * "stack:BYTES". */
static void limit(const char *value)
{
	size_t length = strcspn(value, ":");
	uint64_t number = strtoull(value + length + (value[length] == ':'), NULL, 0);
	static const struct {
		const char *name;
		int which;
	} names[] = {{"as", RLIMIT_AS}, {"nofile", RLIMIT_NOFILE}, {"fsize", RLIMIT_FSIZE},
	        {"nproc", RLIMIT_NPROC}, {"data", RLIMIT_DATA}, {"stack", RLIMIT_STACK}};
	int which = -1;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strncmp(value, names[i].name, length) == 0)
			which = names[i].which;
	if (which == RLIMIT_AS || which == RLIMIT_DATA)
		number += bytes_mapped();
	if (which == RLIMIT_NOFILE)
		while ((int)(number = (uint64_t)dup(0)) >= 0 && number < 40)
			;
	const struct rlimit limits = {number, number};
	if (setrlimit(which, &limits))
		wrong("setrlimit %s", value);
}

/* ---- others ---------------------------------------------------------------------------------- */

static void become_nobody(void)
{
	if (geteuid() == 0 &&
	        (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
		wrong("setresuid");
	prctl(PR_SET_DUMPABLE, 1);
}

static void change_root(const char *folder)
{
	if (chroot(folder) || chdir("/"))
		wrong("chroot");
}

/* All system calls but the C library's own are handled by a signal. */
static void dispatch(void)
{
	static char blocked = 1; /* SYSCALL_DISPATCH_FILTER_BLOCK */
	unsigned long start, end, here = (unsigned long)syscall;
	char line[512];
	FILE *file = fopen("/proc/self/maps", "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && here >= start && here < end)
			break;
	if (file)
		fclose(file);
	prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, start, end - start, &blocked);
}

bool trait_take(const char *word)
{
	const char *value = strchrnul(word, '=');
	size_t length = (size_t)(value - word);
	value += *value == '=';
#define IS(name) (strlen(name) == length && strncmp(word, name, length) == 0)
	if (IS("filter"))
		filter(value);
	else if (IS("handlers"))
		have_handlers(value);
	else if (IS("block"))
		block(value);
	else if (IS("pending"))
		have_pending();
	else if (IS("limit"))
		limit(value);
	else if (IS("nobody"))
		become_nobody();
	else if (IS("dumpable"))
		prctl(PR_SET_DUMPABLE, 0);
	else if (IS("chroot"))
		change_root(value);
	else if (IS("unshare"))
		(void)!unshare(atoi(value)); /* not everywhere is it allowed */
	else if (IS("dispatch"))
		dispatch();
	else if (IS("mdwe"))
		prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0);
	else if (IS("notsc"))
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	else if (IS("lock"))
		mlockall(MCL_CURRENT | MCL_FUTURE);
	else if (IS("name"))
		prctl(PR_SET_NAME, value);
	else
		return false;
	return true;
}
