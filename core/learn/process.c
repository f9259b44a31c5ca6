/* The interpreter of a process that runs, and what it is started with. */
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
	        "learn: process %d %s: nothing of it is started: run `gpumem learn PYTHON` where "
	        "its Python is, and "
	        "name the file with --layouts",
	        pid, why);
}

/* A file of /proc/PID, NUL behind it; NULL: it cannot be read. */
static char *proc_file(int pid, const char *name, size_t *ret_size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
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

static bool same_link(int pid, const char *name)
{
	char theirs[64], ours[64], left[256] = "", right[256] = "";
	snprintf(theirs, sizeof(theirs), "/proc/%d/%s", pid, name);
	snprintf(ours, sizeof(ours), "/proc/self/%s", name);
	return readlink(theirs, left, sizeof(left) - 1) > 0 &&
	       readlink(ours, right, sizeof(right) - 1) > 0 && strcmp(left, right) == 0;
}

static struct gm_error *check_ours(int pid)
{
	char path[64], text[160];
	struct stat status;
	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &status) != 0)
		return gm_error_os(GM_TARGET, errno, "learn: process %d", pid);
	if (status.st_uid != geteuid()) {
		const struct passwd *user = getpwuid(status.st_uid);
		snprintf(text, sizeof(text), "is of another user (%.64s)",
		        user ? user->pw_name : "without a name");
		return refuse(pid, text);
	}
	if (!same_link(pid, "ns/mnt") || !same_link(pid, "root"))
		return refuse(pid, "is in a container, with files of its own");
	return NULL;
}

/* What it was called as, where that is its program: of a virtual environment that tells which one it is. */
static struct gm_error *find_python(int pid, char **ret_python)
{
	char link[64], program[PATH_MAX];
	struct stat here, there;
	size_t size;
	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	ssize_t length = readlink(link, program, sizeof(program) - 1);
	if (length <= 0)
		return refuse(pid, "does not show its program");
	program[length] = 0;
	if (stat(program, &here) != 0 || stat(link, &there) != 0 || here.st_ino != there.st_ino ||
	        here.st_dev != there.st_dev)
		return refuse(pid, "runs a Python that was deleted or replaced on disk");
	const char *name = strrchr(program, '/');
	if (!name || strncmp(name + 1, "python", 6) != 0)
		return refuse(pid, "is no Python by its program's name: it may embed one");
	_cleanup_free_ char *called = proc_file(pid, "cmdline", &size);
	char *as = called && called[0] == '/' && stat(called, &there) == 0 &&
	                           there.st_ino == here.st_ino && there.st_dev == here.st_dev
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

/* Its interpreter and its variables, as the probe's; both point into what the caller frees. */
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
	size_t size = 0, count = 0;
	gm_try(check_ours(pid));
	gm_try(find_python(pid, &ret->python));
	ret->text = proc_file(pid, "environ", &size);
	for (size_t at = 0; ret->text && at < size && count < MAX_VARIABLES;
	        at += strlen(ret->text + at) + 1)
		ret->environment[count++] = ret->text + at;
	return NULL;
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
		        "learn: %s on disk is of another build than what process %d has loaded: it "
		        "was replaced while it runs: start it again",
		        build->module->path, pid);
	}
	*ret_result = result;
	return NULL;
}

struct gm_error *gm_learn_of_process(int pid, const struct gm_torch_builds *builds,
        const char *c10_path, struct gm_learn_result *ret_result)
{
	_cleanup_free_ char *python = NULL, *site = NULL, *text = NULL;
	_cleanup_free_ char **environment = calloc(MAX_VARIABLES + 1, sizeof(*environment));
	struct gm_learn_result result;
	size_t size = 0, count = 0;
	gm_try(check_ours(pid));
	gm_try(find_python(pid, &python));
	if (access(c10_path, R_OK) != 0)
		return refuse(pid, "has a PyTorch loaded that was deleted or replaced on disk");
	site = site_of(c10_path);
	text = proc_file(pid, "environ", &size);
	if (!environment || !site)
		return &gm_error_no_memory;
	for (size_t at = 0; text && at < size && count < MAX_VARIABLES; at += strlen(text + at) + 1)
		environment[count++] = text + at;
	const struct gm_learn_options options = {
	        .python = python, .site = site, .environment = environment};
	gm_try(gm_learn_torch(&options, &result));
	const char *other = gm_torch_builds_differ(&result.learned.builds, builds);
	if (other) {
		gm_learn_result_deinit(&result);
		return gm_error_create(GM_TARGET,
		        "learn: %s on disk is of another build than what process %d has loaded: "
		        "PyTorch was replaced while "
		        "it runs: start it again, or learn its PyTorch elsewhere and name the file "
		        "with --layouts",
		        other, pid);
	}
	*ret_result = result;
	return NULL;
}
