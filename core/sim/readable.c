#include "sim/readable.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { HOST_PAGE = 4096, AT_ONCE = 16 };

/* Reads one byte of each of `count` pages; how many can be read, in order, or -1 if the kernel does
 * not allow a process to ask. */
static ssize_t read_pages(const char *const *pages, size_t count)
{
	char bytes[AT_ONCE];
	struct iovec here = {bytes, count}, there[AT_ONCE];
	for (size_t i = 0; i < count; i++)
		there[i] = (struct iovec){(void *)(uintptr_t)pages[i], 1};
	ssize_t got = process_vm_readv(getpid(), &here, 1, there, count, 0);
	if (got >= 0)
		return got;
	/* EFAULT: not even the first one. A filter of system calls (seccomp) fails for all. */
	char known = 0;
	struct iovec own = {&known, 1};
	return process_vm_readv(getpid(), &here, 1, &own, 1, 0) == 1 ? 0 : -1;
}

/* Without that call: what is mapped, although it may be protected. */
static bool is_mapped(const char *page)
{
	unsigned char there;
	return mincore((void *)((uintptr_t)page & ~(uintptr_t)(HOST_PAGE - 1)), 1, &there) == 0;
}

size_t gm_sim_readable(const void *at, size_t size)
{
	const char *start = at, *end = start + size, *page = start;
	while (page < end) {
		const char *pages[AT_ONCE], *next = page;
		size_t count = 0;
		for (; next < end && count < AT_ONCE;
		        next += HOST_PAGE - (uintptr_t)next % HOST_PAGE)
			pages[count++] = next;
		ssize_t got = read_pages(pages, count);
		if (got < 0)
			for (got = 0; (size_t)got < count && is_mapped(pages[got]);)
				got++;
		if ((size_t)got < count)
			return (size_t)(pages[got] - start);
		page = next;
	}
	return size;
}
