/*
 * What is known of the C library's functions, by name: in which of them a thread holds no lock that
 * pthread_create() needs, and is not within the allocator.
 *
 * A name may come from .dynsym or from the debug file, so it is reduced first: the version
 * ("@@GLIBC_2.34"), the compiler's suffix (".part.0"), leading underscores and the library's own
 * prefixes are removed. The variants that the library chooses for a processor are the listed name
 * and known suffixes ("memmove_avx_unaligned_erms"). Other names are never accepted for their
 * beginning: strdup() and wcsdup() allocate, strftime() takes the time zone's lock.
 */
#include <string.h>

#include "inject/internal.h"

enum { NAME_MAX_BYTES = 64 };

/* Functions that a program calls, in which threads wait or work without a lock of the library. */
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
        "munmap", "mprotect", "madvise", "qsort", "bsearch", "msgrcv", "msgsnd",
        /* what sem_wait() becomes in the debug file */
        "sem_wait_slow64",
        /* on memory and text */
        "memcpy", "memmove", "mempcpy", "memset", "memcmp", "memcmpeq", "bcmp", "bcopy", "bzero",
        "memchr", "memrchr", "rawmemchr", "memmem", "memccpy", "explicit_bzero", "strlen",
        "strnlen", "strcmp", "strncmp", "strcasecmp", "strncasecmp", "strcpy", "strncpy", "stpcpy",
        "stpncpy", "strlcpy", "strlcat", "strcat", "strncat", "strchr", "strrchr", "strchrnul",
        "index", "rindex", "strstr", "strcasestr", "strspn", "strcspn", "strpbrk", "strsep",
        "strtok", "strverscmp", "strtol", "strtoul", "strtoll", "strtoull", "strtod", "strtof",
        "strtold", "wcslen", "wcsnlen", "wcscmp", "wcsncmp", "wcscpy", "wcsncpy", "wcpcpy",
        "wcpncpy", "wcscat", "wcsncat", "wcschr", "wcsrchr", "wcschrnul", "wcsspn", "wcscspn",
        "wcspbrk", "wcsstr", "wmemchr", "wmemcmp", "wmemcpy", "wmemmove", "wmempcpy", "wmemset"};

/* Of a function's variants: checked, with a locale, for a processor. */
static const char *const suffixes[] = {"chk", "l", "r", "internal", "nocancel", "time64", "generic",
        "nonascii", "small", "c1", "c2", "c3", "avx", "avx2", "avx512", "evex", "evex512", "sse2",
        "sse3", "ssse3", "sse4", "sse42", "1", "2", "unaligned", "erms", "rtm", "no", "vzeroupper",
        "back", "movbe"};

/* What these functions call within the library, by the beginning of the name: it waits for a futex,
 * or sorts, and none of it allocates or takes a lock of the library. Only the debug file has these
 * names. */
static const char *const parts[] = {"futex_", "do_futex_", "lll_", "syscall_cancel",
        "internal_syscall_cancel", "pthread_enable_asynccancel", "pthread_disable_asynccancel",
        "pthread_cond_", "pthread_mutex_", "pthread_rwlock_", "sem_wait_", "do_sigwait",
        "msort_with_tmp", "quicksort", "restore_rt"};

/* In these a thread holds such a lock, or is within the allocator, even where it waits for a file:
 * malloc_info() writes. */
static const char *const locking[] = {"malloc", "calloc", "realloc", "reallocarray", "free",
        "cfree", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc", "malloc_stats",
        "malloc_info", "malloc_trim", "mallinfo", "mallinfo2", "mallopt", "pthread_create", "fork",
        "vfork", "dl_iterate_phdr", "dlopen", "dlclose", "dlsym", "dlvsym", "dladdr", "dlinfo"};

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static bool starts_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Without the version and the prefixes; false: it is too long to be one that is known. */
static bool reduce(const char *function, char name[NAME_MAX_BYTES])
{
	static const char *const prefixes[] = {"_", "libc_", "GI_", "new_"};
	for (size_t i = 0; i < COUNT(prefixes);) {
		bool has = starts_with(function, prefixes[i]);
		function += has ? strlen(prefixes[i]) : 0;
		i = has ? 0 : i + 1;
	}
	size_t length = strcspn(function, "@.");
	if (length >= NAME_MAX_BYTES)
		return false;
	memcpy(name, function, length);
	name[length] = '\0';
	return true;
}

static bool is_in(const char *const *list, size_t count, const char *name, size_t length)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(list[i]) == length && memcmp(list[i], name, length) == 0)
			return true;
	return false;
}

/* "_avx_unaligned_erms", or nothing. */
static bool are_suffixes(const char *text)
{
	while (*text == '_') {
		size_t length = strcspn(text + 1, "_");
		if (!is_in(suffixes, COUNT(suffixes), text + 1, length))
			return false;
		text += 1 + length;
	}
	return *text == '\0';
}

bool gm_inject_is_harmless(const char *function)
{
	char name[NAME_MAX_BYTES];
	if (!function || !reduce(function, name))
		return false;
	for (size_t i = 0; i < COUNT(harmless); i++)
		if (starts_with(name, harmless[i]) && are_suffixes(name + strlen(harmless[i])))
			return true;
	return false;
}

bool gm_inject_is_harmless_within(const char *function)
{
	char name[NAME_MAX_BYTES];
	if (!function || gm_inject_is_harmless(function))
		return true;
	if (!reduce(function, name))
		return false;
	for (size_t i = 0; i < COUNT(parts); i++)
		if (starts_with(name, parts[i]))
			return true;
	return false;
}

bool gm_inject_is_locking(const char *function)
{
	char name[NAME_MAX_BYTES];
	return function && reduce(function, name) &&
	       is_in(locking, COUNT(locking), name, strlen(name));
}
