#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <malloc.h>
#include <pthread.h>

#include "child.h"
#include "holders/heap/malloc.h"
#include "holders/heap/malloc_chunks.h"

enum { SMALL = 40, LARGE = 5000, MANY = 20 /* more than a cache keeps of a size */ };

enum { USED, CACHE, FAST, BIN, IN_THREAD, THREAD_CACHE, USED_SIZE, OLD };

static void *allocate(size_t size)
{
	void *made = malloc(size);
	if (!made)
		_exit(1);
	return made;
}

static void *in_thread(void *context)
{
	uint64_t *words = context;
	void *kept = allocate(LARGE), *freed = allocate(SMALL);
	words[IN_THREAD] = (uint64_t)(uintptr_t)kept;
	uint64_t address = (uint64_t)(uintptr_t)freed;
	free(freed);
	__atomic_store_n(&words[THREAD_CACHE], address, __ATOMIC_RELEASE);
	for (;;) /* its cache goes when it ends */
		pause();
	return NULL;
}

/* Chunks whose fate is known, in the program's own heap and in a thread's. */
static void chunks(uint64_t *words)
{
	void *small[MANY];
	pthread_t thread;
	char *used = allocate(LARGE), *large = allocate(LARGE);
	if (!allocate(SMALL)) /* or the heap's rest swallows what lies before it */
		_exit(1);
	for (size_t i = 0; i < MANY; i++)
		small[i] = allocate(SMALL);
	if (!allocate(SMALL))
		_exit(1);
	words[USED] = (uint64_t)(uintptr_t)used;
	words[USED_SIZE] = malloc_usable_size(used);
	words[BIN] = (uint64_t)(uintptr_t)large;
	words[CACHE] = (uint64_t)(uintptr_t)small[0];
	words[FAST] = (uint64_t)(uintptr_t)small[MANY - 1];
	/* what looks like a size word in the midst of a chunk */
	uint64_t *old = (uint64_t *)(void *)(used + 64);
	for (size_t i = 0; i < 64; i += 4)
		old[i + 1] = 33;
	words[OLD] = (uint64_t)(uintptr_t)(old + 10);
	for (size_t i = 0; i < MANY; i++)
		free(small[i]);
	free(large);
	pthread_create(&thread, NULL, in_thread, words);
	while (!__atomic_load_n(&words[THREAD_CACHE], __ATOMIC_ACQUIRE))
		usleep(1000);
}

struct fixture {
	struct child child;
	struct gm_image *image;
	struct gm_malloc *heap;
};

static int read_child(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	*state = fixture;
	fixture->child = child_start(chunks);
	if (gm_image_open_pid(fixture->child.pid, &fixture->image))
		return 1;
	fixture->heap = gm_malloc_read(fixture->image);
	return !fixture->heap;
}

static int end_child(void **state)
{
	struct fixture *fixture = *state;
	gm_malloc_destroy(fixture->heap);
	gm_image_close(fixture->image);
	child_end(&fixture->child);
	free(fixture);
	return 0;
}

static enum gm_malloc_state state_of(const struct fixture *fixture, uint64_t address)
{
	uint64_t start, size;
	return gm_malloc_at(fixture->heap, address, &start, &size);
}

static void a_chunk_in_use_is_found_from_any_of_its_words(void **state)
{
	struct fixture *fixture = *state;
	uint64_t used = fixture->child.words[USED], size = fixture->child.words[USED_SIZE];
	for (uint64_t at = used; at < used + size; at += 8) {
		uint64_t start, bytes;
		assert_int_equal(gm_malloc_at(fixture->heap, at, &start, &bytes), GM_MALLOC_USED);
		assert_int_equal(start, used);
		assert_int_equal(bytes, size);
	}
}

static void a_word_that_looks_like_a_size_within_a_chunk_begins_no_chunk(void **state)
{
	struct fixture *fixture = *state;
	uint64_t start, size;
	assert_int_equal(gm_malloc_at(fixture->heap, fixture->child.words[OLD], &start, &size),
	        GM_MALLOC_USED);
	assert_int_equal(start, fixture->child.words[USED]);
}

static void released_chunks_are_free_in_every_cache(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(state_of(fixture, fixture->child.words[CACHE]), GM_MALLOC_FREE);
	assert_int_equal(state_of(fixture, fixture->child.words[FAST]), GM_MALLOC_FREE);
	/* its beginning may have been handed out again, as threads need memory */
	assert_int_equal(state_of(fixture, fixture->child.words[BIN] + LARGE - 64), GM_MALLOC_FREE);
}

static void a_threads_heap_and_its_cache_are_known(void **state)
{
	struct fixture *fixture = *state;
	uint64_t start, size, kept = fixture->child.words[IN_THREAD];
	assert_int_equal(gm_malloc_at(fixture->heap, kept + 8, &start, &size), GM_MALLOC_USED);
	assert_int_equal(start, kept);
	assert_int_equal(state_of(fixture, fixture->child.words[THREAD_CACHE]), GM_MALLOC_FREE);
}

static void an_address_outside_of_heaps_is_not_known(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(
	        state_of(fixture, (uint64_t)(uintptr_t)&an_address_outside_of_heaps_is_not_known),
	        GM_MALLOC_UNKNOWN);
	assert_int_equal(state_of(fixture, 0), GM_MALLOC_UNKNOWN);
	assert_int_equal(state_of(fixture, UINT64_MAX - 7), GM_MALLOC_UNKNOWN);
}

int main(void)
{
#if defined(__SANITIZE_ADDRESS__)
	return 0; /* the sanitizer has an allocator of its own */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
	return 0;
#endif
#endif
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_chunk_in_use_is_found_from_any_of_its_words),
	        cmocka_unit_test(a_word_that_looks_like_a_size_within_a_chunk_begins_no_chunk),
	        cmocka_unit_test(released_chunks_are_free_in_every_cache),
	        cmocka_unit_test(a_threads_heap_and_its_cache_are_known),
	        cmocka_unit_test(an_address_outside_of_heaps_is_not_known),
	};
	return cmocka_run_group_tests(tests, read_child, end_child);
}
