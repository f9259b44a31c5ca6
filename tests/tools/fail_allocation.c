/*
 * Preloaded into gpumem by a test: its $GPUMEM_TEST_FAIL_AT-th allocation fails (counted from 1:
 * malloc, calloc, realloc, aligned_alloc and mmap, of gpumem and of the libraries in it), or, with
 * $GPUMEM_TEST_FAIL_ON, this one and each after it, as under `ulimit -v`. At the end
 * $GPUMEM_TEST_ALLOCATIONS gets a line for each way to an allocation that was seen, by its
 * innermost callers: the number of the first allocation by this way. A test that fails each of
 * these fails each way once. $GPUMEM_TEST_FAIL_SHOW: the stack of the one that fails is shown, as
 * addresses for addr2line.
 */
#include <errno.h>
#include <execinfo.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	CALLERS = 8,     /* that make a way */
	SLOTS = 1 << 16, /* of the table of ways; a power of two */
};

struct way {
	uint64_t hash; /* 0: no way */
	long first;    /* its number */
};

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static struct way ways[SLOTS];
static long calls, fail_at;
static bool fail_on, tells, shows, is_ready;
static __thread bool inside;
static char path[4096];

static void note(long call)
{
	void *callers[CALLERS + 2];
	uint64_t hash = 14695981039346656037u;
	int count = backtrace(callers, CALLERS + 2);
	for (int i = 2; i < count; i++)
		hash = (hash ^ (uintptr_t)callers[i]) * 1099511628211u;
	for (size_t i = hash % SLOTS;; i = (i + 1) % SLOTS) {
		if (ways[i].hash == hash)
			return;
		if (ways[i].hash)
			continue;
		ways[i] = (struct way){hash, call};
		return;
	}
}

/* Whether this allocation fails. */
static bool fails(void)
{
	if (!is_ready || inside)
		return false;
	long call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
	if (tells) {
		inside = true;
		note(call);
		inside = false;
	}
	if (fail_at <= 0 || (fail_on ? call < fail_at : call != fail_at))
		return false;
	if (shows && call == fail_at) {
		void *callers[32];
		inside = true;
		backtrace_symbols_fd(callers, backtrace(callers, 32), STDERR_FILENO);
		inside = false;
	}
	errno = ENOMEM;
	return true;
}

EXPORT void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
	return fails() ? NULL : __libc_calloc(count, size);
}

EXPORT void *realloc(void *pointer, size_t size)
{
	return fails() ? NULL : __libc_realloc(pointer, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	return fails() ? NULL : __libc_memalign(alignment, size);
}

EXPORT void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
	if (fails())
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
}

static __attribute__((constructor)) void begin(void)
{
	const char *at = getenv("GPUMEM_TEST_FAIL_AT"), *to = getenv("GPUMEM_TEST_ALLOCATIONS");
	void *caller;
	fail_at = at ? atol(at) : 0;
	fail_on = getenv("GPUMEM_TEST_FAIL_ON") != NULL;
	shows = getenv("GPUMEM_TEST_FAIL_SHOW") != NULL;
	tells = to && strlen(to) < sizeof(path);
	if (tells)
		strcpy(path, to);
	backtrace(&caller, 1); /* loads what it needs */
	/* what gpumem starts is left alone */
	unsetenv("LD_PRELOAD");
	is_ready = true;
}

static __attribute__((destructor)) void tell(void)
{
	is_ready = false;
	FILE *file = tells ? fopen(path, "we") : NULL;
	if (!file)
		return;
	for (size_t i = 0; i < SLOTS; i++)
		if (ways[i].hash)
			fprintf(file, "%ld\n", ways[i].first);
	fclose(file);
}
