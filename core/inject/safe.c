/*
 * Whether a stopped thread may create a new thread. That needs memory and a thread-local block, so
 * the thread must not be within the C library's allocator, its creation of threads, a fork, the
 * dynamic linker, or an allocator that replaces the C library's. Its call stack shows that. A
 * function of the C library that is not known to take no lock (harmless.c) counts as one that does:
 * then another moment, or another thread, is tried.
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
	static const char *const libc[] = {"libc.so.6", "libc-2.", "libpthread.so", "libpthread-2.",
	        "libdl.so", "libdl-2.", "librt.so", "librt-2."};
	for (size_t i = 0; i < sizeof(libc) / sizeof(*libc); i++)
		if (starts_with(module->name, libc[i]))
			return LIBC;
	uint64_t address, size;
	return gm_symbols_lookup(symbols, module, "malloc", &address, &size) ? ALLOCATOR : OTHER;
}

/* Whether the last frame that was found is the first one of the thread. `whole`: it has no caller;
 * else none was found. */
static bool ends_a_stack(const struct gm_symbol *symbol, enum owner owner, bool whole)
{
	return owner == LIBC ? whole
	                     : symbol->linkage_name && strcmp(symbol->linkage_name, "_start") == 0;
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

/*
 * Whether adjacent frames of the C library, [first, end), hold no lock: the outermost is the
 * function that the program called, and the others are what that function called in turn. The
 * library's own functions have no name without its debug file: they count as a part of the one that
 * called them. `waits`: the innermost is in a system call of is_wait().
 */
static bool are_harmless(const struct gm_symbol *names, size_t first, size_t end, bool waits)
{
	bool harmless = gm_inject_is_harmless(names[end - 1].linkage_name), locking = false;
	for (size_t i = first; i < end; i++) {
		harmless &= gm_inject_is_harmless_within(names[i].linkage_name);
		locking |= gm_inject_is_locking(names[i].linkage_name);
	}
	return harmless || (waits && !locking);
}

enum gm_inject_place gm_inject_place(struct gm_symbols *symbols,
        const struct gm_registers *registers, long waits_in, uint64_t *ret_return)
{
	uint64_t addresses[DEPTH];
	struct gm_symbol names[DEPTH];
	enum owner owners[DEPTH];
	*ret_return = 0;
	bool whole;
	size_t count = gm_symbols_unwind_frames(symbols, registers, addresses, NULL, DEPTH, &whole);
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
	whole = ends_a_stack(&names[count - 1], owners[count - 1], whole);
	size_t end = count;
	if (whole) {
		/* The start of the program or thread; if it has nothing of its own above it, the
		 * thread begins or ends. */
		end -= owners[count - 1] != LIBC;
		while (end > 0 && owners[end - 1] == LIBC)
			end--;
		if (end == 0)
			return GM_PLACE_LIBC;
	}
	/* Outermost first. */
	for (size_t first = end, after; first > 0;) {
		if (owners[first - 1] != LIBC) {
			first--;
			continue;
		}
		for (after = first; first > 0 && owners[first - 1] == LIBC;)
			first--;
		if (!are_harmless(names, first, after, first == 0 && is_wait(waits_in))) {
			*ret_return = after < count ? addresses[after] : 0;
			return GM_PLACE_LIBC;
		}
	}
	if (whole)
		return GM_PLACE_SAFE;
	return owners[0] == LIBC && waits_in >= 0 ? GM_PLACE_UNKNOWN : GM_PLACE_LIBC;
}

struct gm_error *gm_inject_thread_is_call_safe(struct gm_image *image, struct gm_symbols *symbols,
        pid_t thread, enum gm_inject_standing *ret_standing, uint64_t *ret_back)
{
	struct gm_inject_thread stopped = {.pid = gm_image_pid(image), .id = thread};
	if (!gm_inject_thread_look(&stopped))
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
