/* What was touched of a process's memory is found, however much of its address space it never
 * used. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "child.h"
#include "holders/heap/scan.h"
#include "image/capture.h"
#include "image/capture_buffer.h"
#include "image/image.h"
#include "image/pagemap.h"
#include "image/stop.h"

#define PAGE UINT64_C(4096)
#define PAGES (UINT64_C(1) << 15)
#define RESERVED (UINT64_C(32) << 40)
#define MAGIC UINT64_C(0x5ca9000000abcdef)

/* Linux 6.7 and later: earlier ones go through 64 GiB of entries here. */
static bool kernel_searches(void)
{
	struct utsname name;
	unsigned major = 0, minor = 0;
	return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 7));
}

static uint64_t random_below(uint64_t *state, uint64_t limit)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state % limit;
}

/* The ranges of [start, end) are those of the pages that were touched, the first `max` of them. */
static void check_ranges(uint64_t start, const bool *touched, uint64_t first, uint64_t end,
        const struct gm_range *ranges, size_t count, size_t max)
{
	size_t seen = 0;
	for (uint64_t page = first; page < end;) {
		uint64_t behind = page;
		while (behind < end && touched[behind])
			behind++;
		if (behind > page && seen < max) {
			assert_true(seen < count);
			assert_int_equal(ranges[seen].start, start + page * PAGE);
			assert_int_equal(ranges[seen++].end, start + behind * PAGE);
		}
		page = behind > page ? behind : page + 1;
	}
	assert_int_equal(count, seen);
}

/* --- one mapping ------------------------------------------------------------------------------ */

static void what_was_touched_is_found(void **state)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	bool *touched = calloc(PAGES + 1, sizeof(*touched));
	uint8_t *memory = mmap(
	        NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_non_null(touched);
	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE), 0);
	if (pagemap < 0)
		skip();
	uint64_t seed = 88172645463325252u, start = (uint64_t)(uintptr_t)memory;
	for (size_t i = 0; i < 300; i++) {
		uint64_t page = random_below(&seed, PAGES), count = 1 + random_below(&seed, 3);
		for (uint64_t k = page; k < PAGES && k < page + count; k++)
			touched[k] = true, memory[k * PAGE] = 1;
	}
	for (size_t i = 0; i < 2000; i++) {
		uint64_t first = random_below(&seed, PAGES),
		         end = first + random_below(&seed, PAGES);
		end = end < PAGES ? end : PAGES;
		uint64_t expected = first;
		while (expected < end && !touched[expected])
			expected++;
		assert_int_equal((gm_pagemap_next_touched(
		                          pagemap, start + first * PAGE, start + end * PAGE) -
		                         start) /
		                         PAGE,
		        expected);
		assert_int_equal((gm_pagemap_next_touched_by_entries(
		                          pagemap, start + first * PAGE, start + end * PAGE) -
		                         start) /
		                         PAGE,
		        expected);
		struct gm_range ranges[512];
		size_t max = i % 2 ? 512 : 1 + random_below(&seed, 8), count;
		assert_true(gm_pagemap_touched(
		        pagemap, start + first * PAGE, start + end * PAGE, ranges, max, &count));
		check_ranges(start, touched, first, end, ranges, count, max);
		assert_true(gm_pagemap_touched_by_entries(
		        pagemap, start + first * PAGE, start + end * PAGE, ranges, max, &count));
		check_ranges(start, touched, first, end, ranges, count, max);
	}
	struct gm_range none;
	size_t count;
	assert_false(gm_pagemap_touched(-1, start, start + PAGE, &none, 1, &count));
	assert_int_equal(gm_pagemap_next_touched(-1, start, start + PAGE), start);
	munmap(memory, PAGES * PAGE);
	free(touched);
	close(pagemap);
}

/* From 2.42 on glibc's guard below a thread's stack is such a page. It has no memory, and cannot be
 * read. */
static void guard_pages_were_not_touched(void **state)
{
	enum { GUARD_INSTALL = 102, GUARD_SHIFT = 58 }; /* Linux 6.13 and 6.15 */
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint8_t *memory =
	        mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	uint64_t start = (uint64_t)(uintptr_t)memory, entry = 0;
	memory[3 * PAGE] = 1;
	bool guards = madvise(memory + PAGE, PAGE, GUARD_INSTALL) == 0 && pagemap >= 0 &&
	              gm_pagemap_read(pagemap, start + PAGE, 1, &entry) && entry >> GUARD_SHIFT & 1;
	if (!guards) {
		munmap(memory, 8 * PAGE);
		close(pagemap);
		skip();
	}
	assert_int_equal(
	        gm_pagemap_next_touched(pagemap, start, start + 8 * PAGE), start + 3 * PAGE);
	assert_int_equal(gm_pagemap_next_touched_by_entries(pagemap, start, start + 8 * PAGE),
	        start + 3 * PAGE);
	struct gm_range ranges[4];
	size_t count;
	assert_true(gm_pagemap_touched(pagemap, start, start + 8 * PAGE, ranges, 4, &count));
	assert_int_equal(count, 1);
	assert_true(
	        gm_pagemap_touched_by_entries(pagemap, start, start + 8 * PAGE, ranges, 4, &count));
	assert_int_equal(count, 1);
	assert_int_equal(ranges[0].start, start + 3 * PAGE);
	munmap(memory, 8 * PAGE);
	close(pagemap);
}

/* --- 32 TiB of address space ------------------------------------------------------------------ */

static void reserve(uint64_t *words)
{
	uint8_t *reserved = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (reserved == MAP_FAILED)
		return;
	*(uint64_t *)(reserved + RESERVED / 3 / PAGE * PAGE + 8) = MAGIC;
	*(uint64_t *)(reserved + RESERVED - PAGE) = MAGIC + 1;
	words[0] = (uint64_t)(uintptr_t)reserved;
}

static void check_found(struct gm_image *image, uint64_t start)
{
	struct gm_scan_options options = {
	        .ranges = {{MAGIC, MAGIC + 1}}, .range_count = 1, .threads = 2};
	struct gm_scan_result result;
	const uint64_t places[] = {start + RESERVED / 3 / PAGE * PAGE + 8, start + RESERVED - PAGE};
	size_t found = 0;
	assert_null(gm_scan(image, &options, &result));
	for (size_t i = 0; i < result.count; i++)
		found += result.hits[i].address == places[0] || result.hits[i].address == places[1];
	free(result.hits);
	assert_int_equal(found, 2);
}

static void address_space_that_was_never_used_costs_nothing(void **state)
{
	if (!kernel_searches())
		skip();
	struct child child = child_start(reserve);
	if (child.words[0] == 0) {
		child_end(&child);
		print_message(
		        "skipped: the system gives no address space that it has no memory for\n");
		skip();
	}
	alarm(600); /* against the minutes of looking at each page */
	struct gm_image *image;
	struct gm_stop stop;
	uint64_t bytes, word;
	assert_null(gm_image_open_pid(child.pid, &image));
	check_found(image, child.words[0]);
	assert_null(gm_stop_begin(image, &stop));
	bool captured = gm_image_capture(image, NULL, &bytes);
	gm_stop_end(&stop);
	child_end(&child);
	assert_true(captured);
	assert_true(bytes < UINT64_C(4) << 30);
	check_found(image, child.words[0]);
	assert_true(gm_image_try_u64(image, child.words[0] + RESERVED - PAGE, &word));
	assert_int_equal(word, MAGIC + 1);
	gm_image_close(image);
	alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(what_was_touched_is_found),
	        cmocka_unit_test(guard_pages_were_not_touched),
	        cmocka_unit_test(address_space_that_was_never_used_costs_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
