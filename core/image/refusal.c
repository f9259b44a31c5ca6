#include "image/refusal.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static char read_scope(void)
{
	char scope;
	_cleanup_close_ int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, &scope, 1) == 1 ? scope : '0';
}

/* For the initial user namespace it maps all users to themselves: "0 0 4294967295". */
static bool in_user_namespace(void)
{
	unsigned inside, outside, count;
	_cleanup_fclose_ FILE *file = fopen("/proc/self/uid_map", "re");
	return file && (fscanf(file, "%u %u %u", &inside, &outside, &count) != 3 || outside != 0 ||
	                       count != UINT32_MAX);
}

/* CAP_SYS_PTRACE, which Yama accepts (except with 3). */
static bool may_trace(void)
{
	char line[256];
	unsigned long long capabilities = 0;
	_cleanup_fclose_ FILE *file = fopen("/proc/self/status", "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %llx", &capabilities) == 1)
			break;
	return capabilities >> CAP_SYS_PTRACE & 1;
}

static void read_users(struct gm_refusal *ret)
{
	char path[32], line[256];
	snprintf(path, sizeof(path), "/proc/%d/status", ret->pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	while (file && !ret->known && fgets(line, sizeof(line), file))
		ret->known = sscanf(line, "Uid: %u %u %u", &ret->real, &ret->effective,
		                     &ret->saved) == 3;
	/* Files below /proc/PID belong to root if the process is not dumpable, whoever owns it. */
	struct stat status;
	ret->not_dumpable = file && fstat(fileno(file), &status) == 0 && ret->known &&
	                    status.st_uid != ret->effective;
}

void gm_refusal_read(pid_t pid, struct gm_refusal *ret)
{
	*ret = (struct gm_refusal){.pid = pid,
	        .own = geteuid(),
	        .scope = read_scope(),
	        .may_trace = may_trace(),
	        .in_user_namespace = in_user_namespace()};
	read_users(ret);
}

/* Yama's setting, if it is the reason: it allows processes with CAP_SYS_PTRACE. For another user's
 * process the kernel refuses before it asks Yama. */
static bool text_of_yama(const struct gm_refusal *refusal, char ret[GM_REFUSAL_TEXT])
{
	const char *right =
	        refusal->own == 0 ? "run the container with --cap-add=SYS_PTRACE" : "run as root";
	if (refusal->may_trace || (refusal->known && refusal->effective != refusal->own))
		return false;
	if (refusal->scope == '1')
		snprintf(ret, GM_REFUSAL_TEXT,
		        "kernel.yama.ptrace_scope is 1, which allows only the parents of a process "
		        "and "
		        "those that it names (prctl(PR_SET_PTRACER)): %s, or `sysctl "
		        "kernel.yama.ptrace_scope=0`, or start the program with `gpumem run` or "
		        "`gpumem gdb`",
		        right);
	else if (refusal->scope == '2')
		snprintf(ret, GM_REFUSAL_TEXT,
		        "kernel.yama.ptrace_scope is 2, which allows only root (CAP_SYS_PTRACE): "
		        "%s, or "
		        "`sysctl kernel.yama.ptrace_scope=0`, or start the program with `gpumem "
		        "run`",
		        right);
	else
		return false;
	return true;
}

/* Root may do what others may not, unless a container has removed that right. */
static bool text_of_a_user(const struct gm_refusal *refusal, char ret[GM_REFUSAL_TEXT])
{
	uid_t own = refusal->own, other = refusal->real != own ? refusal->real : refusal->saved;
	if (own == 0)
		return false;
	if (refusal->known && refusal->effective != own)
		snprintf(ret, GM_REFUSAL_TEXT,
		        "it belongs to user %u, and you are user %u: run as the same user or as "
		        "root",
		        refusal->effective, own);
	else if (refusal->known && other != own)
		snprintf(ret, GM_REFUSAL_TEXT,
		        "it has the rights of user %u as well (a setuid program): run as root",
		        other);
	else if (refusal->not_dumpable)
		snprintf(ret, GM_REFUSAL_TEXT,
		        "it is not dumpable (it disabled that by prctl, changed its user, or its "
		        "user may not read its program): run as root");
	else
		return false;
	return true;
}

const char *gm_refusal_text(const struct gm_refusal *refusal, char ret[GM_REFUSAL_TEXT])
{
	if (refusal->scope == '3')
		snprintf(ret, GM_REFUSAL_TEXT,
		        "kernel.yama.ptrace_scope is 3, which allows nobody, not even root, until "
		        "the machine is restarted with another value: start the program with "
		        "`gpumem run`");
	else if (text_of_a_user(refusal, ret) || text_of_yama(refusal, ret))
		return ret;
	else if (refusal->in_user_namespace)
		snprintf(ret, GM_REFUSAL_TEXT,
		        "gpumem runs in a user namespace, and may not trace processes outside it: "
		        "ask from outside, or run the container with --cap-add=SYS_PTRACE");
	else
		snprintf(ret, GM_REFUSAL_TEXT,
		        "a container or a security module forbids it: run %sthe container with "
		        "--cap-add=SYS_PTRACE",
		        refusal->own ? "as root, or " : "");
	return ret;
}

const char *gm_refusal_of(pid_t pid, char ret[GM_REFUSAL_TEXT])
{
	struct gm_refusal refusal;
	gm_refusal_read(pid, &refusal);
	return gm_refusal_text(&refusal, ret);
}
