/*
 * Whether a stopped thread may create a new thread. That needs memory and a thread-local block, so
 * the thread must not be within the C library's allocator, its creation of threads, a fork, the
 * dynamic linker, or an allocator that replaces the C library's. Its call stack shows that. A
 * function of the C library that is not known here to take no lock counts as one that does: then
 * another moment, or another thread, is tried.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "image/registers.h"
#include "inject/internal.h"

enum { DEPTH = 512 };

enum owner { OTHER, LIBC, LOADER, ALLOCATOR };

/* Functions of the C library in which threads wait or work without a lock of the library. */
static const char *const harmless[] = {"poll", "ppoll", "select", "pselect", "epoll_wait",
        "epoll_pwait", "epoll_pwait2", "read", "write", "readv", "writev", "pread", "pread64",
        "pwrite", "pwrite64", "recv", "recvfrom", "recvmsg", "recvmmsg", "send", "sendto",
        "sendmsg", "accept", "accept4", "connect", "nanosleep", "clock_nanosleep", "usleep",
        "sleep", "pause", "sigwait", "sigwaitinfo", "sigtimedwait", "sigsuspend", "sem_wait",
        "sem_timedwait", "sem_clockwait", "pthread_cond_wait", "pthread_cond_timedwait",
        "pthread_cond_clockwait", "pthread_mutex_lock", "pthread_mutex_timedlock",
        "pthread_mutex_trylock", "pthread_mutex_unlock", "pthread_rwlock_rdlock",
        "pthread_rwlock_wrlock", "pthread_barrier_wait", "pthread_cond_signal",
        "pthread_cond_broadcast", "wait", "waitpid", "wait3", "wait4", "waitid", "syscall", "ioctl",
        "sched_yield", "flock", "fcntl", "fcntl64", "open", "open64", "openat", "close", "lseek",
        "lseek64", "fsync", "fdatasync", "stat", "stat64", "fstat", "fstat64", "clock_gettime",
        "gettimeofday", "time", "getrandom", "kill", "tgkill", "getpid", "gettid", "mmap", "mmap64",
        "munmap", "mprotect", "madvise", "qsort", "bsearch", "msgrcv", "msgsnd"};
/* The same, by the beginning of their names: variants that are chosen for a processor. */
static const char *const harmless_kinds[] = {
        "mem", "__mem", "str", "__str", "wcs", "__wcs", "wmem", "__wmem"};

static bool starts_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static enum owner owner_of(struct gm_symbols *symbols, const struct gm_module *module)
{
	if (!module)
		return OTHER;
	if (starts_with(module->name, "ld-linux") || starts_with(module->name, "ld-2."))
		return LOADER;
	static const char *const libc[] = {
	        "libc.so.6", "libc-2.", "libpthread", "libdl.so", "libdl-2.", "librt"};
	for (size_t i = 0; i < sizeof(libc) / sizeof(*libc); i++)
		if (starts_with(module->name, libc[i]))
			return LIBC;
	uint64_t address, size;
	return gm_symbols_lookup(symbols, module, "malloc", &address, &size) ? ALLOCATOR : OTHER;
}

static bool is_harmless(const char *function)
{
	if (!function)
		return false;
	for (size_t i = 0; i < sizeof(harmless_kinds) / sizeof(*harmless_kinds); i++)
		if (starts_with(function, harmless_kinds[i]) && strcmp(function, "memalign") != 0 &&
		        strcmp(function, "strdup") != 0 && strcmp(function, "strndup") != 0)
			return true;
	while (*function == '_')
		function++;
	if (starts_with(function, "libc_"))
		function += strlen("libc_");
	else if (starts_with(function, "GI_"))
		for (function += strlen("GI_"); *function == '_'; function++)
			;
	for (size_t i = 0; i < sizeof(harmless) / sizeof(*harmless); i++)
		if (strcmp(function, harmless[i]) == 0)
			return true;
	return false;
}

static bool ends_a_stack(const struct gm_symbol *symbol, enum owner owner)
{
	return owner == LIBC ||
	       (symbol->linkage_name && strcmp(symbol->linkage_name, "_start") == 0);
}

/*
 * System calls in which the C library holds none of the relevant locks, whatever its function: the
 * allocator and the creation of threads use only those for memory, futexes and clone. (The linker
 * reads files, but its frames are recognized.)
 */
static bool is_wait(long number)
{
	static const long waits[] = {SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv,
	        SYS_writev, SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6, SYS_epoll_wait,
	        SYS_epoll_pwait, SYS_epoll_pwait2, SYS_recvfrom, SYS_recvmsg, SYS_sendto,
	        SYS_sendmsg, SYS_accept, SYS_accept4, SYS_connect, SYS_nanosleep,
	        SYS_clock_nanosleep, SYS_pause, SYS_rt_sigtimedwait, SYS_rt_sigsuspend, SYS_wait4,
	        SYS_waitid, SYS_flock, SYS_fcntl, SYS_semop, SYS_semtimedop, SYS_msgrcv, SYS_msgsnd,
	        SYS_ioctl};
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		if (waits[i] == number)
			return true;
	return false;
}

/* Whether the C library's frames that end below `end` begin with the innermost one. */
static bool is_innermost(const enum owner *owners, size_t end)
{
	for (size_t i = 0; i < end; i++)
		if (owners[i] != LIBC)
			return false;
	return true;
}

enum gm_inject_place gm_inject_place(struct gm_symbols *symbols,
        const struct gm_registers *registers, long waits_in, uint64_t *ret_return)
{
	uint64_t addresses[DEPTH];
	struct gm_symbol names[DEPTH];
	enum owner owners[DEPTH];
	*ret_return = 0;
	size_t count = gm_symbols_unwind(symbols, registers, addresses, DEPTH);
	if (count < 2)
		return GM_PLACE_LIBC;
	/* the first is the current instruction, perhaps at a function's beginning */
	struct gm_error *error = gm_symbols_name_functions(symbols, addresses, 1, false, names);
	if (!error)
		error = gm_symbols_name_functions(
		        symbols, addresses + 1, count - 1, true, names + 1);
	if (error) {
		gm_error_destroy(error);
		return GM_PLACE_LIBC;
	}
	for (size_t i = 0; i < count; i++)
		owners[i] = owner_of(symbols, gm_symbols_module_at(symbols, addresses[i]));
	for (size_t i = 0; i < count; i++)
		if (owners[i] == LOADER || owners[i] == ALLOCATOR)
			return GM_PLACE_LOADER;
	bool whole = ends_a_stack(&names[count - 1], owners[count - 1]);
	/* The start of the program or thread; if it has nothing of its own above it, the thread
	 * begins or ends. */
	size_t end = whole && owners[count - 1] != LIBC ? count - 1 : count;
	while (end > 0 && owners[end - 1] == LIBC)
		end--;
	if (end == 0)
		return GM_PLACE_LIBC;
	/* Of adjacent frames of the C library, the outermost is the function that the program
	 * called. */
	for (size_t i = end; i > 0; i--) {
		bool called = owners[i - 1] == LIBC && i < count && owners[i] != LIBC;
		if (!called || is_harmless(names[i - 1].linkage_name))
			continue;
		if (is_innermost(owners, i) && is_wait(waits_in))
			continue;
		*ret_return = addresses[i];
		return GM_PLACE_LIBC;
	}
	if (whole)
		return GM_PLACE_SAFE;
	return owners[0] == LIBC ? GM_PLACE_UNKNOWN : GM_PLACE_LIBC;
}

struct gm_error *gm_inject_thread_is_call_safe(struct gm_image *image, struct gm_symbols *symbols,
        pid_t thread, enum gm_inject_standing *ret_standing, uint64_t *ret_back)
{
	struct gm_inject_thread stopped = {.pid = gm_image_pid(image), .id = thread};
	if (ptrace(PTRACE_GETREGS, thread, NULL, &stopped.registers) != 0)
		return gm_error_os(GM_TARGET, errno,
		        "process %d: thread %d is not stopped by this debugger", stopped.pid,
		        thread);
	struct gm_registers registers = gm_registers_from_kernel(&stopped.registers);
	enum gm_inject_place place =
	        gm_inject_place(symbols, &registers, gm_inject_thread_waits_in(&stopped), ret_back);
	*ret_standing = place == GM_PLACE_SAFE     ? GM_STANDS_SAFE
	                : place == GM_PLACE_LOADER ? GM_STANDS_LOADING
	                                           : GM_STANDS_BUSY;
	return NULL;
}
