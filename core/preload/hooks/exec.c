/*
 * The functions that start programs, in front of libc's: a program that cannot load our preloaded
 * libraries gets an environment without them, and runs as always. All others get their environment
 * unchanged. See docs/agent.md.
 *
 * Not covered: system() and popen(), which libc implements itself (their shell uses this libc);
 * system calls without libc; posix_spawn() with a path relative to a folder that only its file
 * actions change to.
 *
 * Any of these may run in a signal handler or in the child of a vfork, which has its parent's
 * memory: nothing is written except on the own stack, and nothing is allocated or locked.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <paths.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/environment.h"
#include "preload/program.h"

#define EXPORT __attribute__((visibility("default")))
/* A function that needs much of the stack returns before the next part needs some. */
#define APART __attribute__((noinline))

/* --- the functions behind ours: libc's, or another preloaded library's ------------------------ */

enum next { EXECVE, EXECVPE, FEXECVE, EXECVEAT, SPAWN, SPAWNP, NEXT_COUNT };
static const char *const next_names[NEXT_COUNT] = {
        "execve", "execvpe", "fexecve", "execveat", "posix_spawn", "posix_spawnp"};
static void *_Atomic next_found[NEXT_COUNT];

typedef int exec_function(const char *, char *const *, char *const *);
typedef int fexec_function(int, char *const *, char *const *);
typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *,
        const posix_spawnattr_t *, char *const *, char *const *);

/* Found at the start; later only if another library's constructor starts a program before ours ran.
 * */
static void *next(enum next which)
{
	void *function = atomic_load_explicit(&next_found[which], memory_order_relaxed);
	if (!function) {
		function = dlsym(RTLD_NEXT, next_names[which]);
		atomic_store_explicit(&next_found[which], function, memory_order_relaxed);
	}
	return function;
}

/* This process's dynamic linker; "": not known, and then only certainly foreign programs count. */
static char own_linker[GM_PRELOAD_LINE];

__attribute__((constructor)) static void find_all(void)
{
	Dl_info about;
	for (enum next i = 0; i < NEXT_COUNT; i++)
		next(i);
	if (dladdr((void *)_r_debug.r_ldbase, &about) && about.dli_fname &&
	        strlen(about.dli_fname) < sizeof(own_linker))
		strcpy(own_linker, about.dli_fname);
}

/* --- is it a program that cannot load our libraries? ------------------------------------------ */

/* The file that execvp() will run. */
static bool search(const char *name, char ret[PATH_MAX])
{
	const char *folders = getenv("PATH");
	size_t name_length = strlen(name);
	for (const char *at = folders ? folders : "/bin:/usr/bin"; at;) {
		struct stat status;
		size_t length = strcspn(at, ":"), slash = length > 0;
		if (length + slash + name_length < PATH_MAX) {
			memcpy(ret, at, length);
			ret[length] = '/';
			memcpy(ret + length + slash, name, name_length + 1);
			if (fstatat(AT_FDCWD, ret, &status, 0) == 0 && S_ISREG(status.st_mode) &&
			        syscall(SYS_faccessat, AT_FDCWD, ret, X_OK) == 0)
				return true;
		}
		at = at[length] ? at + length + 1 : NULL;
	}
	return false;
}

static bool file_fits(int folder, const char *path)
{
	struct gm_preload_program program;
	return !gm_preload_read(folder, path, &program) || gm_preload_fits(&program, own_linker);
}

APART static bool found_fits(const char *name)
{
	char path[PATH_MAX];
	return !search(name, path) || file_fits(AT_FDCWD, path);
}

/* Must our part of the environment be removed? `by_path`: the name is searched for as in execvp().
 * */
static bool must_go(int folder, const char *name, char *const *environment, bool by_path)
{
	if (!gm_preload_has_ours(environment))
		return false;
	int error = errno;
	bool fits = by_path && !strchr(name, '/') ? found_fits(name) : file_fits(folder, name);
	bool go = !fits || !gm_preload_reaches_ours(environment);
	errno = error;
	return go;
}

static bool must_go_fd(int fd, char *const *environment)
{
	char path[32] = "/proc/self/fd/", digits[12];
	size_t count = 0, at = strlen(path);
	if (fd < 0)
		return false;
	do
		digits[count++] = (char)('0' + fd % 10);
	while (fd /= 10);
	while (count)
		path[at++] = digits[--count];
	path[at] = 0;
	return must_go(AT_FDCWD, path, environment, false);
}

/* ---- exec ------------------------------------------------------------------------------------ */

APART static int exec_without(
        enum next which, const char *name, char *const *arguments, char *const *environment)
{
	struct gm_preload_environment made;
	exec_function *function = next(which);
	int result = function(name, arguments, gm_preload_without_ours(&made, environment));
	gm_preload_environment_deinit(&made);
	return result;
}

static int exec(enum next which, const char *name, char *const *arguments, char *const *environment)
{
	exec_function *function = next(which);
	if (must_go(AT_FDCWD, name, environment, which == EXECVPE))
		return exec_without(which, name, arguments, environment);
	return function(name, arguments, environment);
}

EXPORT int execve(const char *path, char *const *arguments, char *const *environment)
{
	return exec(EXECVE, path, arguments, environment);
}

EXPORT int execv(const char *path, char *const *arguments)
{
	return exec(EXECVE, path, arguments, environ);
}

EXPORT int execvpe(const char *name, char *const *arguments, char *const *environment)
{
	return exec(EXECVPE, name, arguments, environment);
}

EXPORT int execvp(const char *name, char *const *arguments)
{
	return exec(EXECVPE, name, arguments, environ);
}

APART static int fexec_without(int fd, char *const *arguments, char *const *environment)
{
	struct gm_preload_environment made;
	fexec_function *function = next(FEXECVE);
	int result = function(fd, arguments, gm_preload_without_ours(&made, environment));
	gm_preload_environment_deinit(&made);
	return result;
}

EXPORT int fexecve(int fd, char *const *arguments, char *const *environment)
{
	fexec_function *function = next(FEXECVE);
	if (must_go_fd(fd, environment))
		return fexec_without(fd, arguments, environment);
	return function(fd, arguments, environment);
}

/* libc has it since 2.34. */
static int next_execveat(
        int folder, const char *path, char *const *arguments, char *const *environment, int flags)
{
	int (*function)(int, const char *, char *const *, char *const *, int) = next(EXECVEAT);
	if (!function)
		return (int)syscall(SYS_execveat, folder, path, arguments, environment, flags);
	return function(folder, path, arguments, environment, flags);
}

APART static int execat_without(
        int folder, const char *path, char *const *arguments, char *const *environment, int flags)
{
	struct gm_preload_environment made;
	int result = next_execveat(
	        folder, path, arguments, gm_preload_without_ours(&made, environment), flags);
	gm_preload_environment_deinit(&made);
	return result;
}

EXPORT int execveat(
        int folder, const char *path, char *const *arguments, char *const *environment, int flags)
{
	bool itself = (flags & AT_EMPTY_PATH) && !*path;
	bool go = itself ? must_go_fd(folder, environment)
	                 : must_go(folder, path, environment, false);
	return go ? execat_without(folder, path, arguments, environment, flags)
	          : next_execveat(folder, path, arguments, environment, flags);
}

/* --- exec with its arguments one by one: they are copied to the stack, as in libc ------------- */

static size_t count_arguments(const char *first, va_list *rest)
{
	size_t count = first != NULL;
	va_list copy;
	va_copy(copy, *rest);
	while (first && va_arg(copy, const char *))
		count++;
	va_end(copy);
	return count;
}

/* `ret` has space for `count` and a NULL; the following argument of the call is the next of *rest.
 * */
static char *const *list_arguments(const char *first, size_t count, va_list *rest, const char **ret)
{
	ret[0] = first;
	for (size_t i = 1; first && i <= count; i++)
		ret[i] = va_arg(*rest, const char *);
	return (char *const *)ret;
}

#define LIST(last, list)                             \
	va_list rest;                                \
	va_start(rest, last);                        \
	size_t count = count_arguments(last, &rest); \
	char *const *list = list_arguments(          \
	        last, count, &rest, __builtin_alloca((count + 1) * sizeof(const char *)))

EXPORT int execl(const char *path, const char *argument, ...)
{
	LIST(argument, list);
	va_end(rest);
	return exec(EXECVE, path, list, environ);
}

EXPORT int execlp(const char *name, const char *argument, ...)
{
	LIST(argument, list);
	va_end(rest);
	return exec(EXECVPE, name, list, environ);
}

EXPORT int execle(const char *path, const char *argument, ...)
{
	LIST(argument, list);
	char *const *environment = va_arg(rest, char *const *);
	va_end(rest);
	return exec(EXECVE, path, list, environment);
}

/* ---- spawn: in the parent -------------------------------------------------------------------- */

APART static int spawn_without(enum next which, pid_t *pid, const char *name,
        const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
        char *const *arguments, char *const *environment)
{
	struct gm_preload_environment made;
	spawn_function *function = next(which);
	int result = function(pid, name, actions, attributes, arguments,
	        gm_preload_without_ours(&made, environment));
	gm_preload_environment_deinit(&made);
	return result;
}

static int spawn(enum next which, pid_t *pid, const char *name,
        const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
        char *const *arguments, char *const *environment)
{
	spawn_function *function = next(which);
	if (must_go(AT_FDCWD, name, environment, which == SPAWNP))
		return spawn_without(which, pid, name, actions, attributes, arguments, environment);
	return function(pid, name, actions, attributes, arguments, environment);
}

EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict path,
        const posix_spawn_file_actions_t *restrict actions,
        const posix_spawnattr_t *restrict attributes, char *const *restrict arguments,
        char *const *restrict environment)
{
	return spawn(SPAWN, pid, path, actions, attributes, arguments, environment);
}

EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict name,
        const posix_spawn_file_actions_t *restrict actions,
        const posix_spawnattr_t *restrict attributes, char *const *restrict arguments,
        char *const *restrict environment)
{
	return spawn(SPAWNP, pid, name, actions, attributes, arguments, environment);
}
