/* The tensor that fills a storage, in memory that the test builds with the layout of each version.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "random.h"
#include "torch/filling_tensor.h"
#include "torch/layouts.h"

enum { BASE = 0x10000, MEMORY = 1 << 14, STORAGE = 0x7000, FLOAT32 = 6, INT64 = 4 };
enum { WRAPPER = BASE + 0x100, IMPL = BASE + 0x400, SIZES = BASE + 0x800, STACK = BASE + 0x2000 };
/* The same memory again: a stack is far from what is allocated. */
static const uint64_t FAR = UINT64_C(1) << 46;

static uint8_t memory[MEMORY];

static bool read_memory(const void *context, uint64_t address, void *ret_bytes, size_t size)
{
	if (address >= FAR)
		address -= FAR;
	if (address < BASE || address - BASE > MEMORY || size > MEMORY - (address - BASE))
		return false;
	memcpy(ret_bytes, memory + (address - BASE), size);
	return true;
}

static void put(uint64_t address, uint64_t value)
{
	memcpy(memory + (address - BASE), &value, sizeof(value));
}

static void put_tensor(const struct gm_torch_layout *layout, uint64_t impl, uint16_t type,
        const int64_t *sizes, const int64_t *strides, uint64_t count)
{
	uint64_t at = impl + layout->tensor.sizes,
	         strides_at = at + 8u * layout->tensor.inline_dimensions;
	uint64_t elements = 1;
	if (count > layout->tensor.inline_dimensions) {
		put(at, SIZES);
		at = SIZES;
		strides_at = SIZES + 8 * count;
	}
	for (uint64_t i = 0; i < count; i++) {
		put(at + 8 * i, (uint64_t)sizes[i]);
		put(strides_at + 8 * i, (uint64_t)strides[i]);
		elements *= (uint64_t)sizes[i];
	}
	put(impl + layout->tensor.dimensions, count);
	put(impl + layout->tensor.numel, elements);
	put(impl + layout->tensor.storage_offset, 0);
	put(impl + layout->tensor.storage, STORAGE);
	put(impl + layout->tensor.dtype, type);
	put(impl + layout->tensor.python, WRAPPER);
	put(WRAPPER + layout->python.tensor_cdata + (layout->python.tensor_maybe_owned ? 8 : 0),
	        impl);
}

static struct gm_filled search(const struct gm_torch_layout *layout, uint64_t bytes)
{
	return (struct gm_filled){.layout = layout,
	        .read = read_memory,
	        .sp = FAR + STACK,
	        .storage = STORAGE,
	        .bytes = bytes};
}

static void assert_found(const struct gm_filled *filled)
{
	assert_int_equal(filled->count, 1);
	assert_int_equal(filled->found.type, FLOAT32);
	assert_int_equal(filled->found.dimensions, 2);
	assert_int_equal(filled->found.sizes[0], 3);
	assert_int_equal(filled->found.sizes[1], 5);
	assert_int_equal(filled->found.bytes, 60);
}

/* Python's frames: each has the tensor that it counts. */
struct locals {
	uint32_t count, asked;
};

static bool try_locals(void *context, uint32_t depth, struct gm_filled *filled)
{
	struct locals *locals = context;
	locals->asked++;
	if (depth >= locals->count)
		return false;
	gm_filled_try_python(filled, WRAPPER);
	return true;
}

/* How often the search asked for Python's frames. */
static uint32_t search_all(struct gm_filled *filled, const uint64_t *registers, uint32_t frames)
{
	struct locals locals = {.count = frames};
	gm_filled_search(filled, registers, try_locals, &locals);
	return locals.asked;
}

static const int64_t sizes[] = {3, 5}, strides[] = {5, 1};

static void test_a_tensor_is_found_in_each_place_and_layout(void **state)
{
	const struct gm_torch_layout *layout;
	for (size_t i = 0; (layout = gm_torch_layout_at(i)); i++) {
		memset(memory, 0, sizeof(memory));
		put_tensor(layout, IMPL, FLOAT32, sizes, strides, 2);
		put(STACK + 64, IMPL);
		struct gm_filled filled = search(layout, 60);
		gm_filled_try(&filled, IMPL);
		assert_found(&filled);
		filled = search(layout, 60);
		gm_filled_try_python(&filled, WRAPPER);
		assert_found(&filled);
		filled = search(layout, 60);
		search_all(&filled, (const uint64_t[GM_FILLED_REGISTERS]){0}, 0);
		assert_found(&filled);
	}
}

static void test_a_tensor_that_lacks_a_part_does_not_fill_the_storage(void **state)
{
	const struct gm_torch_layout *layout = gm_torch_layout_at(0);
	const struct {
		uint16_t field;
		uint64_t value;
	} changes[] = {
	        {layout->tensor.storage, STORAGE + 8}, /* of another storage */
	        {layout->tensor.storage_offset, 1},
	        {layout->tensor.numel, 14},
	        {layout->tensor.dtype, INT64},
	        {layout->tensor.dtype, 999},
	        {layout->tensor.dimensions, 1},
	        {layout->tensor.dimensions, UINT64_MAX},
	        {layout->tensor.sizes, (uint64_t)-3},
	};
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		memset(memory, 0, sizeof(memory));
		put_tensor(layout, IMPL, FLOAT32, sizes, strides, 2);
		put(IMPL + changes[i].field, changes[i].value);
		struct gm_filled filled = search(layout, 60);
		gm_filled_try(&filled, IMPL);
		assert_int_equal(filled.count, 0);
	}
	const int64_t holes[] = {9, 2}; /* from the first byte to the last, but not each of them */
	memset(memory, 0, sizeof(memory));
	put_tensor(layout, IMPL, FLOAT32, sizes, holes, 2);
	struct gm_filled filled = search(layout, (2 * 9 + 4 * 2 + 1) * 4);
	gm_filled_try(&filled, IMPL);
	assert_int_equal(filled.count, 0);
}

static void test_an_object_that_its_tensor_does_not_refer_to_is_rejected(void **state)
{
	const struct gm_torch_layout *layout = gm_torch_layout_at(0);
	memset(memory, 0, sizeof(memory));
	put_tensor(layout, IMPL, FLOAT32, sizes, strides, 2);
	put(IMPL + layout->tensor.python, WRAPPER + 8);
	struct gm_filled filled = search(layout, 60);
	gm_filled_try_python(&filled, WRAPPER);
	assert_int_equal(filled.count, 0);
}

static void test_two_different_tensors_give_no_value(void **state)
{
	const struct gm_torch_layout *layout = gm_torch_layout_at(0);
	const int64_t flat[] = {15}, one[] = {1};
	memset(memory, 0, sizeof(memory));
	put_tensor(layout, IMPL, FLOAT32, sizes, strides, 2);
	put_tensor(layout, IMPL + 0x200, FLOAT32, sizes, strides, 2);
	struct gm_filled filled = search(layout, 60);
	gm_filled_try(&filled, IMPL);
	gm_filled_try(&filled, IMPL + 0x200);
	assert_int_equal(filled.found.bytes, 60);
	put_tensor(layout, IMPL + 0x200, FLOAT32, flat, one, 1);
	gm_filled_try(&filled, IMPL + 0x200);
	assert_int_equal(filled.count, 3);
	assert_int_equal(filled.found.bytes, 0);
}

static void test_the_stack_is_searched_if_registers_and_locals_have_no_tensor(void **state)
{
	const struct gm_torch_layout *layout = gm_torch_layout_at(0);
	const int64_t flat[] = {15}, one[] = {1};
	uint64_t registers[GM_FILLED_REGISTERS] = {0};
	memset(memory, 0, sizeof(memory));
	put_tensor(layout, IMPL + 0x200, FLOAT32, flat, one, 1);
	put_tensor(layout, IMPL, FLOAT32, sizes, strides, 2);
	put(STACK + 64, IMPL + 0x200);
	struct gm_filled filled = search(layout, 60);
	assert_int_equal(search_all(&filled, registers, 0), 1);
	assert_int_equal(filled.found.dimensions, 1);
	filled = search(layout, 60);
	assert_int_equal(search_all(&filled, registers, 3), 1);
	assert_found(&filled);
	registers[GM_FILLED_REGISTERS - 1] = IMPL;
	filled = search(layout, 60);
	assert_int_equal(search_all(&filled, registers, 3), 0);
	assert_found(&filled);
}

/* Only the fields, without a search for the storage. */
static void test_a_tensors_fields_are_used_if_they_agree(void **state)
{
	const struct gm_torch_layout *layout;
	struct gm_tensor_fields fields;
	const int64_t holes[] = {9, 2}, turned[] = {1, 3};
	for (size_t i = 0; (layout = gm_torch_layout_at(i)); i++) {
		memset(memory, 0, sizeof(memory));
		put_tensor(layout, IMPL, FLOAT32, sizes, holes, 2);
		assert_true(gm_tensor_fields_read(layout, read_memory, NULL, IMPL, &fields));
		assert_int_equal(fields.numel, 15);
		assert_int_equal(fields.storage, STORAGE);
		assert_int_equal(fields.shape.bytes, (2 * 9 + 4 * 2 + 1) * 4);
		put_tensor(layout, IMPL, FLOAT32, sizes, turned, 2); /* without holes again */
		assert_true(gm_tensor_fields_read(layout, read_memory, NULL, IMPL, &fields));
		assert_int_equal(fields.shape.bytes, 60);
		put(IMPL + layout->tensor.numel, 16);
		assert_false(gm_tensor_fields_read(layout, read_memory, NULL, IMPL, &fields));
		assert_false(gm_tensor_fields_read(layout, read_memory, NULL, IMPL + 4, &fields));
	}
}

static void test_many_dimensions_are_in_an_array(void **state)
{
	const struct gm_torch_layout *layout = gm_torch_layout_at(0);
	const int64_t many[] = {1, 2, 1, 3, 1, 2, 1}, steps[] = {12, 6, 6, 2, 2, 1, 1};
	memset(memory, 0, sizeof(memory));
	put_tensor(layout, IMPL, FLOAT32, many, steps, 7);
	struct gm_filled filled = search(layout, 48);
	gm_filled_try(&filled, IMPL);
	assert_int_equal(filled.count, 1);
	assert_int_equal(filled.found.dimensions, 7);
	put(IMPL + layout->tensor.sizes, BASE + MEMORY - 8); /* goes beyond what is there */
	filled = search(layout, 48);
	gm_filled_try(&filled, IMPL);
	assert_int_equal(filled.count, 0);
}

static void test_any_memory_can_be_searched(void **state)
{
	enum { WORDS = MEMORY / 8 };
	for (uint64_t round = 0; round < random_rounds(20); round++) {
		struct random random = random_of_round(round);
		struct gm_filled filled =
		        search(gm_torch_layout_at(round % 3), 8 * (1 + random_below(&random, 64)));
		for (size_t i = 0; i < sizeof(memory); i += 8)
			put(BASE + i, random_once_in(&random, 4)
			                      ? BASE + 8 * (uint64_t)random_below(&random, WORDS)
			                      : random_below(&random, 20));
		filled.storage = random_below(&random, 20);
		filled.sp = (random_once_in(&random, 2) ? FAR : 0) + BASE +
		            8 * (uint64_t)random_below(&random, WORDS);
		for (uint64_t address = BASE - 512; address < BASE + MEMORY + 512; address += 8) {
			gm_filled_try(&filled, address);
			gm_filled_try_python(&filled, address);
		}
		search_all(&filled, (const uint64_t[GM_FILLED_REGISTERS]){0}, 0);
		assert_true(filled.count == 0 || filled.found.bytes == 0 ||
		            filled.found.bytes == filled.bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_tensor_is_found_in_each_place_and_layout),
	        cmocka_unit_test(test_a_tensor_that_lacks_a_part_does_not_fill_the_storage),
	        cmocka_unit_test(test_an_object_that_its_tensor_does_not_refer_to_is_rejected),
	        cmocka_unit_test(test_two_different_tensors_give_no_value),
	        cmocka_unit_test(test_the_stack_is_searched_if_registers_and_locals_have_no_tensor),
	        cmocka_unit_test(test_a_tensors_fields_are_used_if_they_agree),
	        cmocka_unit_test(test_many_dimensions_are_in_an_array),
	        cmocka_unit_test(test_any_memory_can_be_searched),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
