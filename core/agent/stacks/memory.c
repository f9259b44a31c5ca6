/*
 * The memory of stacks/: mapped once, in anonymous memory that costs nothing until it is touched,
 * so that a hook never calls malloc.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/stacks/memory.h"

void *gm_stacks_map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void gm_stacks_unmap(void *memory, size_t size)
{
	munmap(memory, size);
}

void gm_stacks_clear(void *memory, size_t size)
{
	/* anonymous private memory reads as zeros after it (madvise(2)) */
	if (memory && madvise(memory, size, MADV_DONTNEED) != 0)
		memset(memory, 0, size);
}

void *gm_arena_take(struct gm_arena *arena, size_t size)
{
	size_t at;

	size = (size + 7) & ~(size_t)7;
	if (!arena->bytes || size > arena->size ||
	        atomic_load_explicit(&arena->used, memory_order_relaxed) > arena->size - size)
		return NULL;
	at = atomic_fetch_add_explicit(&arena->used, size, memory_order_relaxed);
	return at <= arena->size - size ? arena->bytes + at : NULL;
}

bool gm_read_checked(uint64_t address, void *ret_bytes, size_t size)
{
	static _Atomic bool unable;
	struct iovec here = {ret_bytes, size}, there = {(void *)(uintptr_t)address, size};
	int saved = errno;
	ssize_t count;

	if (!address)
		return false;
	if (!atomic_load_explicit(&unable, memory_order_relaxed)) {
		count = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
		if (count == (ssize_t)size)
			return true;
		if (count >= 0 || (errno != EPERM && errno != ENOSYS)) {
			errno = saved;
			return false;
		}
		atomic_store(&unable, true); /* seccomp: then each page is examined */
		errno = saved;
	}
	for (uint64_t page = address & ~(uint64_t)(GM_PAGE - 1); page < address + size;
	        page += GM_PAGE)
		if (!gm_can_read(page))
			return false;
	memcpy(ret_bytes, (const void *)(uintptr_t)address, size);
	return true;
}

/* The kernel copies the set before it rejects `how`: EINVAL means that 8 bytes can be read, EFAULT
 * that they cannot. */
bool gm_can_read(uint64_t address)
{
	int saved = errno;
	bool can = syscall(SYS_rt_sigprocmask, ~0L, address & ~UINT64_C(7), 0L, 8L) == 0 ||
	           errno == EINVAL;

	errno = saved;
	return can;
}
