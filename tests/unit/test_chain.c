/* The sentence of a chain of references (core/render/chain.c). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "render/chain.h"
#include "render/native_owner.h"

/* A step owns its strings; the test never frees these. */
#define TEXT(literal) ((char *)(uintptr_t)(literal))

/* Root first, as an answer has them. */
static void assert_sentence(
        struct gm_holder_step *steps, size_t count, enum gm_chain_end end, const char *expected)
{
	const struct gm_holder holder = {
	        .steps = steps, .step_count = count, .end = end, .references = 1};
	char *text = gm_chain_text(&holder);
	assert_non_null(text);
	assert_string_equal(text, expected);
	free(text);
}

static void steps_are_said_from_the_tensor_outwards(void **state)
{
	struct gm_holder_step steps[] = {
	        {.form = GM_STEP_LOCAL,
	                .name = TEXT("output"),
	                .function = TEXT("train"),
	                .file = TEXT("/srv/models/train.py"),
	                .line = 12},
	        {.form = GM_STEP_KEY, .name = TEXT("loss"), .type = TEXT("dict")},
	        {.form = GM_STEP_ITEM, .index = 3, .type = TEXT("list")},
	        {.form = GM_STEP_PLAIN},
	        {.form = GM_STEP_PLAIN},
	};
	assert_sentence(steps, 5, GM_CHAIN_ROOTED,
	        "item 3 of list: key 'loss' of dict: local 'output' of train() at train.py:12");
	assert_sentence(steps + 1, 4, GM_CHAIN_UNKNOWN,
	        "item 3 of list: key 'loss' of dict: nothing was found that refers to it");
	assert_sentence(steps + 3, 2, GM_CHAIN_UNKNOWN, "nothing was found that refers to it");
	assert_sentence(steps + 2, 1, GM_CHAIN_GARBAGE,
	        "item 3 of list: a garbage cycle: nothing else holds it, gc.collect() would "
	        "free it");
}

static void a_graph_is_said_once_for_all_of_its_nodes(void **state)
{
	struct gm_holder_step steps[] = {
	        {.form = GM_STEP_GLOBAL, .name = TEXT("loss"), .function = TEXT("model")},
	        {.form = GM_STEP_GRAPH},
	        {.form = GM_STEP_PLAIN},
	        {.form = GM_STEP_GRAPH},
	        {.form = GM_STEP_SAVED, .of = TEXT("MulBackward0"), .slot = TEXT("self")},
	};
	assert_sentence(steps, 5, GM_CHAIN_ROOTED,
	        "saved 'self' of MulBackward0, in the graph of: global 'loss' of module model");
	steps[2] = (struct gm_holder_step){.form = GM_STEP_SAVED, .of = TEXT("Function")};
	assert_sentence(steps, 5, GM_CHAIN_ROOTED,
	        "saved 'self' of MulBackward0, in the graph of: saved by Function, in the graph "
	        "of: global 'loss' of module model");
}

static void neighbours_in_a_container_are_one_line(void **state)
{
	struct gm_holder_step steps[] = {
	        {.form = GM_STEP_ITEM, .index = 7, .type = TEXT("tuple")},
	        {.form = GM_STEP_ITEM, .index = 4, .type = TEXT("list")},
	};
	const struct gm_holder holder = {.steps = steps, .step_count = 2, .references = 10};
	char *text = gm_chain_text(&holder);
	assert_string_equal(text, "items 4 to 13 of list: item 7 of tuple");
	free(text);
}

static void the_main_script_is_named_by_its_file(void **state)
{
	struct gm_holder_step step = {.form = GM_STEP_GLOBAL,
	        .name = TEXT("kept"),
	        .function = TEXT("__main__"),
	        .file = TEXT("/srv/run.py"),
	        .line = 3};
	assert_sentence(&step, 1, GM_CHAIN_ROOTED, "global 'kept' of module __main__ (run.py)");
	step.function = TEXT("other");
	assert_sentence(&step, 1, GM_CHAIN_ROOTED, "global 'kept' of module other");
}

static void words_of_native_memory_are_said_as_they_are_known(void **state)
{
	struct gm_native_part parts[] = {
	        {.form = GM_NATIVE_ITEM, .index = 0, .number = 2},
	        {.form = GM_NATIVE_CLASS, .name = "c10::ivalue::Future"},
	        {.form = GM_NATIVE_STATIC, .name = "cache", .of = "libfoo.so"},
	};
	struct gm_native_owner owner = {.parts = parts, .count = 3};
	struct gm_holder_step steps[] = {
	        {.form = GM_STEP_NATIVE, .native = &owner},
	        {.form = GM_STEP_NATIVE},
	};
	assert_sentence(steps, 2, GM_CHAIN_ROOTED,
	        "item 0 of a vector of 2 tensors, held by a c10::ivalue::Future, held by static "
	        "'cache' of libfoo.so");
}

static void assert_native(struct gm_native_part part, const char *expected)
{
	struct gm_native_owner owner = {.parts = &part, .count = 1};
	char *text = gm_native_owner_text(&owner);
	assert_non_null(text);
	assert_string_equal(text, expected);
	free(text);
}

static void each_part_of_a_native_owner_has_its_words(void **state)
{
	assert_native(
	        (struct gm_native_part){GM_NATIVE_CLASS, "at::Node", NULL, 0, 0}, "an at::Node");
	assert_native((struct gm_native_part){GM_NATIVE_ITEM, NULL, NULL, 0, 1},
	        "item 0 of a vector of 1 tensor");
	assert_native((struct gm_native_part){GM_NATIVE_STATIC, NULL, "libfoo.so", 0, 0},
	        "static data of libfoo.so");
	assert_native((struct gm_native_part){GM_NATIVE_STACK, "f", NULL, 0, 12},
	        "the native stack of thread 12, in f");
	assert_native((struct gm_native_part){GM_NATIVE_STACK, NULL, NULL, 0, 12},
	        "the native stack of thread 12");
	assert_native((struct gm_native_part){GM_NATIVE_UNKNOWN_STACK, NULL, NULL, 1, 0},
	        "a native stack (the main thread's)");
	assert_native((struct gm_native_part){GM_NATIVE_BUCKET, "bucket_views_in", NULL, 2, 1},
	        "bucket_views_in[2] of DDP's bucket 1");
	assert_native((struct gm_native_part){GM_NATIVE_BUCKET, "gradients", NULL, -1, 0},
	        "gradients of DDP's bucket 0");
	assert_native((struct gm_native_part){GM_NATIVE_OPERAND, "f", "/srv/run.py", 0, 3},
	        "an operand of f() at run.py:3");
	assert_native((struct gm_native_part){GM_NATIVE_FIELD, "list", NULL, 0, 0x7f00},
	        "a field of a list object at 0x7f00");
	for (int form = 0; form < GM_NATIVE_FORM_COUNT; form++) {
		struct gm_native_part bare = {.form = (enum gm_native_form)form};
		struct gm_native_owner owner = {.parts = &bare, .count = 1};
		char *text = gm_native_owner_text(&owner);
		assert_non_null(text);
		assert_true(text[0]);
		assert_null(strstr(text, "(null)"));
		free(text);
	}
}

/* Also with names that a hostile target chose. */
static void a_native_owner_is_read_back_from_its_json(void **state)
{
	static const char *const names[] = {NULL, "", "a", "f\n\t", "\"quoted\""};
	struct gm_native_owner *all[GM_NATIVE_FORM_COUNT * 5];
	for (size_t i = 0; i < GM_NATIVE_FORM_COUNT * 5; i++) {
		const struct gm_native_part part = {.form = (enum gm_native_form)(i / 5),
		        .name = names[i % 5],
		        .of = names[(i + 1) % 5],
		        .index = (int64_t)i - 4,
		        .number = i % 3 ? UINT64_MAX - i : 0};
		assert_non_null(all[i] = gm_native_owner_create(part));
		assert_true(i % 2 || gm_native_owner_add(all[i], part));
		json_t *json = gm_native_owner_json(all[i]);
		struct gm_native_owner *read = gm_native_owner_read(json);
		assert_non_null(read);
		assert_int_equal(gm_native_owner_compare(read, all[i]), 0);
		assert_true(gm_native_owner_hash(read) == gm_native_owner_hash(all[i]));
		for (size_t j = 0; j < i; j++) {
			int order = gm_native_owner_compare(all[i], all[j]);
			assert_true(order != 0);
			assert_int_equal(order > 0 ? 1 : -1,
			        gm_native_owner_compare(all[j], all[i]) > 0 ? -1 : 1);
		}
		gm_native_owner_release(read);
		json_decref(json);
	}
	for (size_t i = 0; i < GM_NATIVE_FORM_COUNT * 5; i++)
		gm_native_owner_release(all[i]);
}

static void json_that_is_no_native_owner_is_refused(void **state)
{
	static const char *const texts[] = {"[]", "{}", "[1]", "[{}]", "[{\"form\": \"other\"}]",
	        "[{\"form\": 1}]", "[{\"form\": \"stack\"}, {}]"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *json = json_loads(texts[i], 0, NULL);
		assert_non_null(json);
		assert_null(gm_native_owner_read(json));
		json_decref(json);
	}
}

/* A form without a sentence would leave a gap in the answer. */
static void every_form_has_a_sentence_with_and_without_its_operands(void **state)
{
	struct gm_native_part part = {.form = GM_NATIVE_ARGUMENT};
	struct gm_native_owner owner = {.parts = &part, .count = 1};
	for (int form = GM_STEP_PLAIN + 1; form < GM_STEP_FORM_COUNT; form++) {
		struct gm_holder_step full = {.form = (enum gm_step_form)form,
		                              .name = TEXT("NAME"),
		                              .function = TEXT("FUNCTION"),
		                              .file = TEXT("FILE"),
		                              .type = TEXT("TYPE"),
		                              .of = TEXT("OF"),
		                              .slot = TEXT("SLOT"),
		                              .native = &owner,
		                              .line = 1},
		                      bare = {.form = (enum gm_step_form)form,
		                              .index = -1,
		                              .native = form == GM_STEP_NATIVE ? &owner : NULL};
		const struct gm_holder holders[] = {
		        {.steps = &full, .step_count = 1}, {.steps = &bare, .step_count = 1}};
		for (int i = 0; i < 2; i++) {
			char *text = gm_chain_text(&holders[i]);
			assert_non_null(text);
			assert_true(text[0]);
			assert_null(strstr(text, "(null)"));
			free(text);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(steps_are_said_from_the_tensor_outwards),
	        cmocka_unit_test(a_graph_is_said_once_for_all_of_its_nodes),
	        cmocka_unit_test(neighbours_in_a_container_are_one_line),
	        cmocka_unit_test(the_main_script_is_named_by_its_file),
	        cmocka_unit_test(words_of_native_memory_are_said_as_they_are_known),
	        cmocka_unit_test(each_part_of_a_native_owner_has_its_words),
	        cmocka_unit_test(a_native_owner_is_read_back_from_its_json),
	        cmocka_unit_test(json_that_is_no_native_owner_is_refused),
	        cmocka_unit_test(every_form_has_a_sentence_with_and_without_its_operands),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
