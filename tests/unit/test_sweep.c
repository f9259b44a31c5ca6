/*
 * Objects in pools of CPython's allocator, which the test builds in its own memory: a sweep finds
 * those that are in the collector's lists and no others, or reports that it cannot know.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpython/python.h"
#include "cpython/sweep/sweep.h"
#include "cpython/sweep/walk.h"

enum {
	POOL = 16 << 10,
	BLOCK = 64,
	LINKS = 16,
	PER_POOL = (POOL - 48) / BLOCK,
	OBJECTS = 400,
	MORE_THAN_COME_AND_GO = 200,
};

static struct {
	uint64_t runtime[32], interpreter[128];
	uint64_t type_type[128], tuple_type[128], str_type[128], held_type[128];
	uint64_t far[OBJECTS][8]; /* objects that lie in no pool */
} it;
static struct gm_python *python;
static uint8_t *chunk;
static struct gm_kept_chunk shown;
static uint64_t last; /* the last object of the list */

static uint64_t at(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

static void put(void *object, int32_t offset, uint64_t value)
{
	memcpy((char *)object + offset, &value, sizeof(value));
}

static void put_u32(uint8_t *bytes, size_t offset, uint32_t value)
{
	memcpy(bytes + offset, &value, sizeof(value));
}

static void put_type(uint64_t *type, const char *name, uint64_t flags)
{
	const struct gm_python_layout *l = &python->layout;
	put(type, l->object_refcount, 1);
	put(type, l->object_type, at(it.type_type));
	put(type, l->type_name, at(name));
	put(type, l->type_basicsize, 24);
	put(type, l->type_flags, flags | GM_TYPE_FLAG_READY);
}

/* All blocks are allocated. */
static void put_pool(uint8_t *head)
{
	put_u32(head, 0, PER_POOL);
	put_u32(head, 36, BLOCK / 16 - 1);
	put_u32(head, 40, 48 + PER_POOL * BLOCK);
	put_u32(head, 44, POOL - BLOCK);
}

static void set_up(void)
{
	const struct gm_python_layout *l = &gm_python_layout_311;
	memset(&it, 0, sizeof(it));
	python = calloc(1, sizeof(*python));
	assert_non_null(python);
	assert_null(gm_image_open_pid(getpid(), &python->image));
	python->version = 0x030b;
	python->layout = *l;
	python->opcodes = gm_opcodes_311;
	python->runtime = at(it.runtime);
	python->type_type = at(it.type_type);
	python->layout.interpreter_generations = 64;
	python->layout.interpreter_permanent = 64 + 3 * l->gc_generation_size;
	for (int i = 0; i < 4; i++) {
		uint64_t head = at(it.interpreter) + 64 + (uint64_t)(i * l->gc_generation_size);
		put((void *)(uintptr_t)head, l->gc_head_next, head);
		put((void *)(uintptr_t)head, l->gc_head_previous, head);
	}
	last = at(it.interpreter) + 64;
	put(it.runtime, l->runtime_interpreters_head, at(it.interpreter));
	put_type(it.type_type, "type", GM_TYPE_FLAG_TYPE | GM_TYPE_FLAG_HAVE_GC);
	put_type(it.tuple_type, "tuple", GM_TYPE_FLAG_TUPLE | GM_TYPE_FLAG_HAVE_GC);
	put_type(it.str_type, "str", GM_TYPE_FLAG_STR);
	put_type(it.held_type, "PyCapsule", 0);
	chunk = aligned_alloc(GM_KEPT_CHUNK, 2 * GM_KEPT_CHUNK); /* and the one behind it */
	assert_non_null(chunk);
	memset(chunk, 0, 2 * GM_KEPT_CHUNK);
	memset(&shown, 0, sizeof(shown));
	atomic_store(&shown.key, (at(chunk) >> GM_KEPT_SHIFT) + 1);
	shown.bytes = chunk;
	shown.there = UINT64_MAX;
	for (size_t pool = 0; pool * PER_POOL < 3 * OBJECTS; pool++)
		put_pool(chunk + pool * POOL);
}

static void tear_down(void)
{
	gm_image_close(python->image);
	python->image = NULL;
	gm_python_close(python);
	free(chunk);
}

static uint8_t *block(size_t number)
{
	return chunk + number / PER_POOL * POOL + 48 + number % PER_POOL * BLOCK;
}

/* Puts the links at the end of the collector's list. */
static void link_up(void *links)
{
	const struct gm_python_layout *l = &python->layout;
	uint64_t head = at(it.interpreter) + 64;
	put((void *)(uintptr_t)last, l->gc_head_next, at(links));
	put(links, l->gc_head_previous, last);
	put(links, l->gc_head_next, head);
	put((void *)(uintptr_t)head, l->gc_head_previous, at(links));
	last = at(links);
}

/* A tuple of one thing, with its links in front. */
static uint64_t put_tuple(void *links, uint64_t item)
{
	const struct gm_python_layout *l = &python->layout;
	uint8_t *object = (uint8_t *)links + LINKS;
	put(object, l->object_refcount, 1);
	put(object, l->object_type, at(it.tuple_type));
	put(object, l->object_size, 1);
	put(object, l->tuple_items, item);
	return at(object);
}

static struct gm_sweep *swept(struct gm_address_set *objects, bool *ret_whole)
{
	static const char *const special[] = {"PyCapsule", NULL};
	struct gm_sweep *sweep = gm_sweep_create(python, NULL, special);
	assert_non_null(sweep);
	gm_image_invalidate(python->image);
	gm_sweep_chunks(sweep, 0, &shown, 1);
	gm_sweep_rest(sweep, 0);
	*ret_whole = gm_sweep_objects(sweep, objects);
	return sweep;
}

/* Every second block is an object, and every third of those is outside the pools: the sweep finds
 * what the lists have. */
static void what_is_in_the_lists_is_found_in_pools_and_outside(void **state)
{
	struct gm_address_set objects = {0};
	uint64_t expected[OBJECTS];
	bool whole;
	set_up();
	for (size_t i = 0; i < OBJECTS; i++) {
		void *links = i % 3 ? (void *)block(2 * i) : (void *)it.far[i];
		link_up(links);
		expected[i] = put_tuple(links, 0);
	}
	struct gm_sweep *sweep = swept(&objects, &whole);
	assert_true(whole);
	assert_int_equal(objects.count, OBJECTS);
	for (size_t i = 0; i < OBJECTS; i++)
		assert_true(gm_address_set_has(&objects, expected[i]));
	gm_sweep_destroy(sweep);
	gm_address_set_deinit(&objects);
	tear_down();
}

/* Bytes that look like a tracked object, with links to a real one, and a block that was released.
 */
static void bytes_that_only_look_like_an_object_are_left_out(void **state)
{
	struct gm_address_set objects = {0};
	bool whole;
	set_up();
	for (size_t i = 0; i < OBJECTS; i++) {
		link_up(block(2 * i));
		put_tuple(block(2 * i), 0);
	}
	uint64_t fake = put_tuple(block(1), 0), other = put_tuple(block(3), 0);
	memcpy(block(1), block(10), LINKS);
	put(block(3), python->layout.gc_head_next,
	        at(it.tuple_type)); /* to something that is not an object */
	put(block(3), python->layout.gc_head_previous, at(block(12)));
	uint64_t given_back = put_tuple(block(5), 0);
	memcpy(block(5), block(14), LINKS);
	put(block(5), 0, 0); /* the end of the list of free blocks */
	put(chunk, 8, at(block(5)));
	put_u32(chunk, 0, PER_POOL - 1);
	struct gm_sweep *sweep = swept(&objects, &whole);
	assert_true(whole);
	assert_int_equal(objects.count, OBJECTS);
	assert_false(gm_address_set_has(&objects, fake));
	assert_false(gm_address_set_has(&objects, other));
	assert_false(gm_address_set_has(&objects, given_back));
	gm_sweep_destroy(sweep);
	gm_address_set_deinit(&objects);
	tear_down();
}

/* Objects that look tracked in a circle outside the lists, as during a collection: the sweep cannot
 * know. */
static void objects_that_link_to_a_non_object_are_not_taken_for_all(void **state)
{
	struct gm_address_set objects = {0};
	bool whole;
	set_up();
	for (size_t i = 0; i < MORE_THAN_COME_AND_GO; i++) {
		link_up(block(2 * i));
		put_tuple(block(2 * i), 0);
	}
	for (size_t i = 0; i < MORE_THAN_COME_AND_GO; i++) {
		put_tuple(block(2 * i + 1), 0);
		put(block(2 * i + 1), python->layout.gc_head_next, at(it.str_type) + 64 + 8 * i);
		put(block(2 * i + 1), python->layout.gc_head_previous, at(block(0)));
	}
	struct gm_sweep *sweep = swept(&objects, &whole);
	assert_false(whole);
	assert_int_equal(objects.count, 0);
	gm_sweep_destroy(sweep);
	gm_address_set_deinit(&objects);
	tear_down();
}

static size_t all_references(const struct gm_walk_result *result, struct gm_walk_reference *found)
{
	size_t count = 0;
	for (size_t i = 0; i < result->count; i++)
		for (size_t k = 0; k < result->batches[i].reference_count; k++)
			found[count++] = result->batches[i].references[k];
	return count;
}

/* Each object refers to the next one, in a pool or not; the last ones to a string, to what is not
 * tracked, and to a table of pointers, of which the second is a class. */
static void references_are_found_by_number_and_strings_are_left_out(void **state)
{
	const struct gm_python_layout *l = &python->layout;
	struct gm_address_set objects = {0};
	struct gm_walk_result result;
	static struct gm_walk_reference found[OBJECTS];
	uint64_t place[OBJECTS];
	bool whole;
	set_up();
	l = &python->layout;
	uint8_t *text = block(1), *held = block(3), *table = block(5);
	put(text, l->object_refcount, 1);
	put(text, l->object_type, at(it.str_type));
	put(held, l->object_refcount, 1);
	put(held, l->object_type, at(it.held_type));
	put(table, 0, at(text));
	put(table, 8, at(it.held_type));
	for (size_t i = 0; i < OBJECTS; i++)
		place[i] = at(i % 3 ? (void *)block(2 * i) : (void *)it.far[i]) + LINKS;
	for (size_t i = 0; i < OBJECTS; i++) {
		uint64_t to = i == OBJECTS - 1   ? at(text)
		              : i == OBJECTS - 2 ? at(held)
		              : i == OBJECTS - 3 ? at(table)
		                                 : place[i + 1];
		link_up((void *)(uintptr_t)(place[i] - LINKS));
		put_tuple((void *)(uintptr_t)(place[i] - LINKS), to);
	}
	struct gm_sweep *sweep = swept(&objects, &whole);
	assert_true(whole);
	assert_true(gm_address_set_number(&objects));
	assert_null(gm_sweep_references(sweep, &objects, &result));
	assert_int_equal(all_references(&result, found), OBJECTS - 3);
	for (size_t i = 0; i < OBJECTS - 3; i++) {
		size_t k = 0;
		while (k < OBJECTS && gm_address_set_find(&objects, place[k]) != found[i].from)
			k++;
		assert_true(k < OBJECTS - 3);
		assert_int_equal(found[i].to, gm_address_set_find(&objects, place[k + 1]));
		assert_int_equal(found[i].extra, GM_EDGE_ITEM);
	}
	size_t outside = 0;
	for (size_t i = 0; i < result.count; i++)
		for (size_t k = 0; k < result.batches[i].outside_count; k++, outside++)
			assert_int_equal(result.batches[i].outside[k].to, at(held));
	assert_int_equal(outside, 1);
	assert_false(gm_sweep_is_plain(sweep, at(held))); /* a capsule: the caller looks at it */
	assert_false(gm_sweep_is_plain(sweep, at(text)));
	gm_walk_result_deinit(&result);
	gm_sweep_destroy(sweep);
	gm_address_set_deinit(&objects);
	tear_down();
}

/* As the one that socket's capsule leads to, of a Python at low addresses: its first word might be
 * a count. Which chunks are at hand together is a matter of chance. */
static void a_table_of_pointers_is_not_an_object(void **state)
{
	for (size_t at_once = 1; at_once <= 2; at_once++) {
		struct gm_address_set objects = {0};
		struct gm_walk_result result;
		set_up();
		struct gm_kept_chunk both[] = {shown, shown};
		atomic_store(&both[1].key, atomic_load(&shown.key) + 1);
		both[1].bytes = chunk + GM_KEPT_CHUNK;
		uint8_t *table = chunk + GM_KEPT_CHUNK + 48;
		put_pool(chunk + GM_KEPT_CHUNK);
		put(table, 0, 0xa4f040);
		put(table, 8, at(it.tuple_type));
		link_up(block(0));
		put_tuple(block(0), at(table));
		struct gm_sweep *sweep = gm_sweep_create(python, NULL, NULL);
		assert_non_null(sweep);
		gm_image_invalidate(python->image);
		for (size_t i = 0; i < 2; i += at_once)
			gm_sweep_chunks(sweep, 0, &both[i], at_once);
		gm_sweep_rest(sweep, 0);
		assert_true(gm_sweep_objects(sweep, &objects));
		assert_true(gm_address_set_number(&objects));
		assert_null(gm_sweep_references(sweep, &objects, &result));
		assert_int_equal(objects.count, 1);
		for (size_t i = 0; i < result.count; i++) {
			assert_int_equal(result.batches[i].reference_count, 0);
			assert_int_equal(result.batches[i].outside_count, 0);
		}
		gm_walk_result_deinit(&result);
		gm_sweep_destroy(sweep);
		gm_address_set_deinit(&objects);
		tear_down();
	}
}

static void a_pool_where_none_was_expected_is_noticed(void **state)
{
	set_up();
	struct gm_sweep *sweep = gm_sweep_create(python, NULL, NULL);
	assert_non_null(sweep);
	struct gm_kept_chunk empty = shown;
	uint8_t *zeros = calloc(1, GM_KEPT_CHUNK);
	assert_non_null(zeros);
	empty.bytes = zeros;
	gm_sweep_check(sweep, &empty, 1);
	assert_false(gm_sweep_missed(sweep));
	gm_sweep_check(sweep, &shown, 1);
	assert_true(gm_sweep_missed(sweep));
	gm_sweep_destroy(sweep);
	free(zeros);
	tear_down();
}

/* Damaged pools: whatever their words are, the sweep ends within the chunk. */
static void damaged_pools_end(void **state)
{
	uint64_t seed = 88172645463325252u;
	for (unsigned round = 0; round < 200; round++) {
		struct gm_address_set objects = {0};
		bool whole;
		set_up();
		for (size_t i = 0; i < OBJECTS; i++) {
			link_up(block(2 * i));
			put_tuple(block(2 * i), at(block(2 * (OBJECTS - 1 - i))) + LINKS);
		}
		for (unsigned i = 0; i < 300; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			uint64_t word = i % 3 == 0   ? seed
			                : i % 3 == 1 ? at(chunk) + seed % GM_KEPT_CHUNK
			                             : seed % 65536;
			size_t where = i % 4 ? seed >> 32 : (seed >> 32) % 3 * POOL + i % 48;
			memcpy(chunk + where % (GM_KEPT_CHUNK - 8), &word, i % 2 ? 8 : 4);
		}
		struct gm_sweep *sweep = swept(&objects, &whole);
		struct gm_walk_result result = {0};
		if (whole) {
			assert_true(gm_address_set_number(&objects));
			assert_null(gm_sweep_references(sweep, &objects, &result));
		}
		gm_walk_result_deinit(&result);
		gm_sweep_destroy(sweep);
		gm_address_set_deinit(&objects);
		tear_down();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(what_is_in_the_lists_is_found_in_pools_and_outside),
	        cmocka_unit_test(bytes_that_only_look_like_an_object_are_left_out),
	        cmocka_unit_test(objects_that_link_to_a_non_object_are_not_taken_for_all),
	        cmocka_unit_test(references_are_found_by_number_and_strings_are_left_out),
	        cmocka_unit_test(a_table_of_pointers_is_not_an_object),
	        cmocka_unit_test(a_pool_where_none_was_expected_is_noticed),
	        cmocka_unit_test(damaged_pools_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
