#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "holders/heap/scan.h"
#include "holders/heap/scan_words.h"

enum { WORDS = 4096 };

static size_t naive(const uint64_t *words, size_t count, const struct gm_scan_range *ranges,
        size_t range_count, uint32_t *indexes)
{
	size_t found = 0;
	for (size_t i = 0; i < count; i++) {
		bool in = false;
		for (size_t r = 0; r < range_count; r++)
			in |= words[i] >= ranges[r].first && words[i] <= ranges[r].last;
		if (in)
			indexes[found++] = (uint32_t)i;
	}
	return found;
}

static uint64_t random_word(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void both_loops_find_what_a_plain_one_does(void **state)
{
	static uint64_t words[WORDS];
	static uint32_t expected[WORDS], found[WORDS];
	const uint64_t edges[] = {0, 1, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 1,
	        0x7f0000000000, 0x7f0000000008, 0x7effffffffff};
	uint64_t seed = 88172645463325252u;
	for (unsigned round = 0; round < 300; round++) {
		struct gm_scan_range ranges[GM_SCAN_MAX_RANGES];
		size_t range_count = round % (GM_SCAN_MAX_RANGES + 1);
		size_t count = random_word(&seed) % WORDS, start = random_word(&seed) % 3;
		for (size_t i = 0; i < WORDS; i++)
			words[i] = random_word(&seed) % 50 ? random_word(&seed) >> (round % 64)
			                                   : edges[random_word(&seed) % 9];
		for (size_t r = 0; r < range_count; r++) {
			uint64_t a = random_word(&seed) % 3 ? words[random_word(&seed) % WORDS]
			                                    : edges[random_word(&seed) % 9];
			uint64_t b = random_word(&seed) % 3 ? a : random_word(&seed);
			ranges[r] =
			        a < b ? (struct gm_scan_range){a, b} : (struct gm_scan_range){b, a};
		}
		if (start > count)
			start = 0;
		size_t wanted = naive(words + start, count - start, ranges, range_count, expected);
		for (int simd = 0; simd < 2; simd++) {
			size_t got = gm_scan_words(words + start, count - start, ranges,
			        range_count, simd, found, WORDS);
			assert_int_equal(got, wanted);
			assert_memory_equal(found, expected, wanted * sizeof(found[0]));
		}
	}
}

static void no_more_than_the_capacity_is_written(void **state)
{
	uint64_t words[100];
	uint32_t found[8] = {0, 0, 0, 0, 0, 7, 7, 7};
	struct gm_scan_range range = {5, 5};
	for (size_t i = 0; i < 100; i++)
		words[i] = 5;
	for (int simd = 0; simd < 2; simd++) {
		assert_int_equal(gm_scan_words(words, 100, &range, 1, simd, found, 5), 5);
		assert_int_equal(found[4], 4);
		assert_int_equal(found[5], 7);
	}
}

/* --- a whole image: our own ------------------------------------------------------------------- */

struct own {
	struct gm_image *image;
	uint64_t *pages; /* readable, untouched, readable, unreadable */
	uint64_t magic;
};

static int open_own(void **state)
{
	static struct own own;
	own.magic = UINT64_C(0x5ca9000000000000) ^ (uint64_t)getpid();
	own.pages =
	        mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(own.pages, MAP_FAILED);
	own.pages[3] = own.magic;
	own.pages[511] = own.magic + 1;
	own.pages[1024] = own.magic + 2;
	own.pages[1536] = own.magic;
	assert_int_equal(mprotect(own.pages + 1536, 4096, PROT_NONE), 0);
	assert_null(gm_image_open_pid(getpid(), &own.image));
	*state = &own;
	return 0;
}

static int close_own(void **state)
{
	struct own *own = *state;
	gm_image_close(own->image);
	munmap(own->pages, 4 * 4096);
	return 0;
}

static bool is_even(const void *context, uint64_t value)
{
	return value % 2 == *(const uint64_t *)context % 2;
}

static size_t hits_within(
        const struct own *own, const struct gm_scan_result *result, uint64_t *values)
{
	size_t found = 0;
	uint64_t start = (uint64_t)(uintptr_t)own->pages;
	for (size_t i = 0; i < result->count; i++)
		if (result->hits[i].address - start < 4 * 4096)
			values[found++] = result->hits[i].value - own->magic;
	return found;
}

static void planted_words_are_found_by_address(void **state)
{
	struct own *own = *state;
	struct gm_scan_options options = {
	        .ranges = {{own->magic, own->magic + 2}}, .range_count = 1, .threads = 2};
	struct gm_scan_result result;
	uint64_t values[16];
	assert_null(gm_scan(own->image, &options, &result));
	assert_int_equal(hits_within(own, &result, values), 3);
	assert_int_equal(values[0], 0);
	assert_int_equal(values[1], 1);
	assert_int_equal(values[2], 2);
	assert_true(result.bytes > 3 * 4096);
	assert_false(result.truncated);
	for (size_t i = 1; i < result.count; i++)
		assert_true(result.hits[i - 1].address < result.hits[i].address);
	free(result.hits);
}

static void a_filter_leaves_out_what_is_not_wanted(void **state)
{
	struct own *own = *state;
	uint64_t parity = own->magic;
	struct gm_scan_options options = {.ranges = {{own->magic, own->magic + 2}},
	        .range_count = 1,
	        .filter = is_even,
	        .context = &parity};
	struct gm_scan_result result;
	uint64_t values[16];
	assert_null(gm_scan(own->image, &options, &result));
	assert_int_equal(hits_within(own, &result, values), 2);
	assert_int_equal(values[1], 2);
	free(result.hits);
}

static void what_is_left_out_is_not_looked_at(void **state)
{
	struct own *own = *state;
	uint64_t start = (uint64_t)(uintptr_t)own->pages;
	struct gm_range out[] = {{start, start + 4096}, {start + 2 * 4096, start + 4 * 4096}};
	struct gm_scan_options options = {
	        .ranges = {{own->magic, own->magic + 2}}, .range_count = 1};
	struct gm_scan_result all, some;
	uint64_t values[16];
	assert_null(gm_scan(own->image, &options, &all));
	options.left_out = out;
	options.left_out_count = 2;
	assert_null(gm_scan(own->image, &options, &some));
	size_t within = hits_within(own, &all, values), kept = 0;
	for (size_t i = 0; i < all.count; i++)
		kept += all.hits[i].address - start - 4096 < 4096;
	assert_true(kept < within);
	assert_int_equal(hits_within(own, &some, values), kept);
	free(all.hits);
	free(some.hits);
}

static void pages_never_touched_stay_untouched(void **state)
{
	struct own *own = *state;
	size_t size = 64 << 20;
	unsigned char *untouched =
	        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *present = malloc(size / 4096);
	assert_ptr_not_equal(untouched, MAP_FAILED);
	assert_non_null(present);
	assert_null(gm_image_refresh(own->image));
	struct gm_scan_options options = {.ranges = {{own->magic, own->magic}}, .range_count = 1};
	struct gm_scan_result result;
	assert_null(gm_scan(own->image, &options, &result));
	free(result.hits);
	assert_int_equal(mincore(untouched, size, present), 0);
	size_t count = 0;
	for (size_t i = 0; i < size / 4096; i++)
		count += present[i] & 1;
	munmap(untouched, size);
	free(present);
	if (access("/proc/self/pagemap", R_OK) != 0)
		skip();
	assert_int_equal(count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(both_loops_find_what_a_plain_one_does),
	        cmocka_unit_test(no_more_than_the_capacity_is_written),
	        cmocka_unit_test_setup_teardown(
	                planted_words_are_found_by_address, open_own, close_own),
	        cmocka_unit_test_setup_teardown(
	                a_filter_leaves_out_what_is_not_wanted, open_own, close_own),
	        cmocka_unit_test_setup_teardown(
	                what_is_left_out_is_not_looked_at, open_own, close_own),
	        cmocka_unit_test_setup_teardown(
	                pages_never_touched_stay_untouched, open_own, close_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
