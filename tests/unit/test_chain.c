/* The sentence of a chain of references (core/render/chain.c). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "render/chain.h"

/* A step owns its strings; these are never freed. */
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
	struct gm_holder_step steps[] = {
	        {.form = GM_STEP_NATIVE, .of = TEXT("static 'cache' of libfoo.so")},
	        {.form = GM_STEP_NATIVE, .of = TEXT("")},
	};
	assert_sentence(steps, 2, GM_CHAIN_ROOTED, "static 'cache' of libfoo.so");
}

/* A form that no sentence is made of would leave a hole in the answer. */
static void every_form_has_a_sentence_with_and_without_its_operands(void **state)
{
	for (int form = GM_STEP_PLAIN + 1; form < GM_STEP_FORM_COUNT; form++) {
		struct gm_holder_step full = {.form = (enum gm_step_form)form,
		                              .name = TEXT("NAME"),
		                              .function = TEXT("FUNCTION"),
		                              .file = TEXT("FILE"),
		                              .type = TEXT("TYPE"),
		                              .of = TEXT("OF"),
		                              .slot = TEXT("SLOT"),
		                              .line = 1},
		                      bare = {.form = (enum gm_step_form)form,
		                              .index = -1,
		                              .of = form == GM_STEP_NATIVE ? TEXT("word") : NULL};
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
	        cmocka_unit_test(every_form_has_a_sentence_with_and_without_its_operands),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
