#include "base/huge_pages.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/cleanup.h"

enum { HUGE_PAGE = 2 << 20, SMALL_PAGE = 4096, ORDERS = 16, HUGE_ORDER = 9 };

static pthread_once_t counted = PTHREAD_ONCE_INIT;
static atomic_uint_fast64_t left; /* bytes */

/*
 * Documentation/filesystems/proc.rst, buddyinfo: "Node 0, zone Normal 1 0 …", the numbers of free
 * blocks of 2^0, 2^1, … pages. If it cannot be read, no huge page counts as free.
 */
static void count(void)
{
	char line[512];
	uint64_t bytes = 0;
	_cleanup_fclose_ FILE *file = fopen("/proc/buddyinfo", "re");
	while (file && fgets(line, sizeof(line), file)) {
		int at = 0;
		if (sscanf(line, "Node %*d, zone %*s%n", &at) < 0 || at == 0)
			continue;
		unsigned long long blocks;
		for (int order = 0, next; order < ORDERS; order++, at += next) {
			if (sscanf(line + at, "%llu%n", &blocks, &next) != 1)
				break;
			if (order >= HUGE_ORDER && blocks < UINT32_MAX)
				bytes += ((uint64_t)blocks * SMALL_PAGE) << order;
		}
	}
	/* leaves some for others */
	atomic_store(&left, bytes / 2);
}

static bool take(uint64_t bytes)
{
	uint64_t now = atomic_load(&left);
	while (now >= bytes)
		if (atomic_compare_exchange_weak(&left, &now, now - bytes))
			return true;
	return false;
}

void gm_huge_pages_advise(void *memory, size_t bytes)
{
	uintptr_t start = ((uintptr_t)memory + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
	uintptr_t end = ((uintptr_t)memory + bytes) & ~(uintptr_t)(HUGE_PAGE - 1);
	if (start >= end)
		return;
	pthread_once(&counted, count);
	if (take(end - start))
		(void)madvise((void *)start, end - start, MADV_HUGEPAGE);
}
