/* The interpreter of a running process, its arguments and environment. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "learn/learn.h"
#include "learn/python.h"

enum { MAX_BYTES = 1 << 20, MAX_VARIABLES = 4096 };

static struct gm_error *refuse(int pid, const char *why)
{
	return gm_error_create(GM_TARGET,
	        "learn: process %d %s: gpumem does not start its Python: run `gpumem learn PYTHON` "
	        "where that is, and name the file with --layouts",
	        pid, why);
}

/*
 * The process while it is examined. Its user, program and variables must belong to the same
 * program: a process can execute a setuid program, which belongs to root for a moment, and then one
 * of its own again. `memory` belongs to the program that ran when it was opened, and to no later
 * one.
 */
struct held {
	int pid, folder, memory;
};

static void held_deinit(struct held *held)
{
	if (held->folder >= 0)
		close(held->folder);
	if (held->memory >= 0)
		close(held->memory);
}

static struct gm_error *held_init(int pid, struct held *held)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d", pid);
	held->pid = pid;
	held->memory = -1;
	held->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (held->folder >= 0)
		held->memory = openat(held->folder, "mem", O_RDONLY | O_CLOEXEC);
	if (held->memory >= 0)
		return NULL;
	if (held->folder >= 0 && (errno == EACCES || errno == EPERM))
		return refuse(pid, "may not be read");
	return gm_error_os(GM_TARGET, errno, "learn: process %d", pid);
}

/* Address 0 is never mapped, so this is an error; 0 bytes: the process does not have that memory
 * any more. */
static struct gm_error *check_same_program(const struct held *held)
{
	char byte;
	return pread(held->memory, &byte, 1, 0) == 0
	               ? refuse(held->pid, "has ended or executes another program now")
	               : NULL;
}

/* A file of /proc/PID, followed by NUL; NULL: it cannot be read. */
static char *proc_file(const struct held *held, const char *name, size_t *ret_size)
{
	_cleanup_close_ int fd = openat(held->folder, name, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *text = fd >= 0 ? malloc(MAX_BYTES + 1) : NULL;
	size_t size = 0;
	for (ssize_t got = 1; text && got > 0 && size<MAX_BYTES; size += got> 0 ? (size_t)got : 0)
		got = read(fd, text + size, MAX_BYTES - size);
	if (text) {
		text[size] = 0;
		*ret_size = size;
	}
	return gm_take(text);
}

static bool same_link(const struct held *held, const char *name)
{
	char ours[64], left[256] = "", right[256] = "";
	snprintf(ours, sizeof(ours), "/proc/self/%s", name);
	return readlinkat(held->folder, name, left, sizeof(left) - 1) > 0 &&
	       readlink(ours, right, sizeof(right) - 1) > 0 && strcmp(left, right) == 0;
}

/* Real, effective, saved and file system user: a setuid program that another user started has one
 * of that user. */
static bool read_users(const struct held *held, unsigned ret_users[4])
{
	size_t size;
	_cleanup_free_ char *text = proc_file(held, "status", &size);
	const char *line = text ? strstr(text, "\nUid:") : NULL;
	return line && sscanf(line + 5, "%u %u %u %u", &ret_users[0], &ret_users[1], &ret_users[2],
	                       &ret_users[3]) == 4;
}

static struct gm_error *check_ours(const struct held *held)
{
	char text[160];
	unsigned users[4];
	if (!read_users(held, users))
		return gm_error_os(GM_TARGET, ESRCH, "learn: process %d", held->pid);
	for (size_t i = 0; i < 4; i++) {
		if (users[i] == geteuid())
			continue;
		const struct passwd *user = getpwuid(users[i]);
		snprintf(text, sizeof(text), "is of another user (%.64s)",
		        user ? user->pw_name : "without a name");
		return refuse(held->pid, text);
	}
	if (!same_link(held, "ns/mnt") || !same_link(held, "root"))
		return refuse(held->pid, "is in a container, with files of its own");
	return NULL;
}

/* The name by which a program was called comes from the caller: root does not follow another user's
 * link. */
static bool is_foreign_link(const char *path)
{
	struct stat about;
	return geteuid() == 0 && lstat(path, &about) == 0 && S_ISLNK(about.st_mode) &&
	       about.st_uid != 0;
}

/* The name by which it was called, if that is its program: it identifies a virtual environment. */
static struct gm_error *find_python(const struct held *held, char **ret_python)
{
	char program[PATH_MAX];
	struct stat here, there;
	size_t size;
	ssize_t length = readlinkat(held->folder, "exe", program, sizeof(program) - 1);
	if (length <= 0)
		return refuse(held->pid, "does not show its program");
	program[length] = 0;
	if (stat(program, &here) != 0 || fstatat(held->folder, "exe", &there, 0) != 0 ||
	        here.st_ino != there.st_ino || here.st_dev != there.st_dev)
		return refuse(held->pid, "runs a Python that was deleted or replaced on disk");
	const char *name = strrchr(program, '/');
	if (!name || strncmp(name + 1, "python", 6) != 0)
		return refuse(held->pid, "runs a program that is not named like Python: it may "
		                         "embed one");
	_cleanup_free_ char *called = proc_file(held, "cmdline", &size);
	char *as = called && called[0] == '/' && stat(called, &there) == 0 &&
	                           there.st_ino == here.st_ino && there.st_dev == here.st_dev &&
	                           !is_foreign_link(called)
	                   ? called
	                   : program;
	*ret_python = strdup(as);
	return *ret_python ? NULL : &gm_error_no_memory;
}

/* ".../site-packages" of ".../site-packages/torch/lib/libc10.so". */
static char *site_of(const char *c10_path)
{
	char *site = strdup(c10_path);
	for (int i = 0; site && i < 3; i++) {
		char *slash = strrchr(site, '/');
		if (!slash)
			break;
		*slash = 0;
	}
	return site;
}

/* Its interpreter and its variables, for the probe; the variables point into `text`. */
struct of_process {
	char *python, *text;
	char *environment[MAX_VARIABLES + 1];
};

static void of_process_free(struct of_process **of)
{
	if (*of) {
		free((*of)->python);
		free((*of)->text);
		free(*of);
	}
}

static struct gm_error *read_process(int pid, struct of_process *ret)
{
	_cleanup_(held_deinit) struct held held = {.folder = -1, .memory = -1};
	size_t size = 0, count = 0;
	gm_try(held_init(pid, &held));
	gm_try(check_ours(&held));
	gm_try(find_python(&held, &ret->python));
	ret->text = proc_file(&held, "environ", &size);
	for (size_t at = 0; ret->text && at < size && count < MAX_VARIABLES;
	        at += strlen(ret->text + at) + 1)
		ret->environment[count++] = ret->text + at;
	gm_try(check_ours(&held));
	return check_same_program(&held);
}

struct gm_error *gm_learn_python_of_process(
        int pid, const struct gm_python_build *build, struct gm_learn_python_result *ret_result)
{
	_cleanup_(of_process_free) struct of_process *of = calloc(1, sizeof(*of));
	struct gm_learn_python_result result;
	if (!of)
		return &gm_error_no_memory;
	gm_try(read_process(pid, of));
	const struct gm_learn_options options = {
	        .python = of->python, .environment = of->environment};
	gm_try(gm_learn_python(&options, &result));
	if (result.learned->id_size != build->module->build_id_size ||
	        memcmp(result.learned->id, build->module->build_id, result.learned->id_size) != 0) {
		gm_learn_python_result_deinit(&result);
		return gm_error_create(GM_TARGET,
		        "learn: %s on disk is another build than the one that process %d has "
		        "loaded: it was replaced while it runs: start it again",
		        build->module->path, pid);
	}
	*ret_result = result;
	return NULL;
}

struct gm_error *gm_learn_of_process(int pid, const struct gm_torch_builds *builds,
        const char *c10_path, struct gm_learn_result *ret_result)
{
	_cleanup_(of_process_free) struct of_process *of = calloc(1, sizeof(*of));
	_cleanup_free_ char *site = NULL;
	struct gm_learn_result result;
	if (!of)
		return &gm_error_no_memory;
	gm_try(read_process(pid, of));
	if (access(c10_path, R_OK) != 0)
		return refuse(pid, "has a PyTorch loaded that was deleted or replaced on disk");
	site = site_of(c10_path);
	if (!site)
		return &gm_error_no_memory;
	const struct gm_learn_options options = {
	        .python = of->python, .site = site, .environment = of->environment};
	gm_try(gm_learn_torch(&options, &result));
	const char *other = gm_torch_builds_differ(&result.learned.builds, builds);
	if (other) {
		gm_learn_result_deinit(&result);
		return gm_error_create(GM_TARGET,
		        "learn: %s on disk is another build than the one that process %d has "
		        "loaded: PyTorch was replaced while it runs: start it again, or learn its "
		        "PyTorch elsewhere and name the file with --layouts",
		        other, pid);
	}
	*ret_result = result;
	return NULL;
}
