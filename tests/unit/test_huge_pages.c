/* Huge pages are asked for as far as the machine has free ones, and no further. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/huge_pages.h"

#define HUGE_PAGE ((size_t)2 << 20)
#define MORE_THAN_ANY ((size_t)1 << 42)

static uint8_t *reserve(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(memory != MAP_FAILED);
	return memory;
}

/* Does the mapping of this address have the flag `hg` (MADV_HUGEPAGE) in /proc/self/smaps? */
static bool is_advised(const uint8_t *memory)
{
	char line[512];
	bool inside = false, advised = false;
	FILE *file = fopen("/proc/self/smaps", "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		unsigned long start, end;
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = (uintptr_t)memory >= start && (uintptr_t)memory < end;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
			advised = strstr(line, " hg") != NULL;
	}
	fclose(file);
	return advised;
}

static void huge_pages_are_advised_only_as_far_as_memory_is_free(void **unused)
{
	uint8_t *memory = reserve(MORE_THAN_ANY);
	gm_huge_pages_advise(memory, MORE_THAN_ANY);
	assert_false(is_advised(memory + HUGE_PAGE));
	/* as much as there is, 32 MiB at a time */
	size_t step = 16 * HUGE_PAGE, count = 0;
	while (count < MORE_THAN_ANY / step) {
		gm_huge_pages_advise(memory + count * step, step);
		if (!is_advised(memory + count * step + HUGE_PAGE))
			break;
		count++;
	}
	assert_true(count < MORE_THAN_ANY / step);
	munmap(memory, MORE_THAN_ANY);
}

static void memory_below_one_huge_page_is_not_advised(void **unused)
{
	uint8_t *memory = reserve(2 * HUGE_PAGE);
	gm_huge_pages_advise(memory + 4096, HUGE_PAGE - 4096);
	assert_false(is_advised(memory + 4096));
	munmap(memory, 2 * HUGE_PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(huge_pages_are_advised_only_as_far_as_memory_is_free),
	        cmocka_unit_test(memory_below_one_huge_page_is_not_advised),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
