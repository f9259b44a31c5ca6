/* Holders of a block in processes made by hand: each is told by exactly the steps that a user would
 * name. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "random_process.h"
#include "render/chain.h"

/* A block with one tensor; both roots are frames or globals of the caller's. */
struct held {
	struct process process;
	uint32_t tensor, wrapper, frame;
};

static void begin(struct held *held)
{
	process_begin(&held->process);
	held->frame = process_frame(&held->process);
	held->tensor = process_tensor(
	        &held->process, process_storage(&held->process, BLOCK, BLOCK_SIZE, GM_DEVICE_CPU));
	held->wrapper = process_wrapper(&held->process, held->tensor);
}

/* The holders, one a line, and nothing else: the answer is complete. */
static void assert_holders(struct held *held, const char *expected)
{
	struct gm_holders_answer answer;
	char *text = NULL;
	size_t size;
	process_ready(&held->process);
	assert_null(gm_holders_find(held->process.graph, BLOCK, &answer));
	FILE *out = open_memstream(&text, &size);
	for (size_t i = 0; i < answer.holder_count; i++) {
		char *line = gm_chain_text(&answer.holders[i]);
		fprintf(out, "%s\n", line);
		free(line);
	}
	fclose(out);
	assert_string_equal(text, expected);
	assert_true(answer.complete);
	free(text);
	gm_holders_answer_deinit(&answer);
	process_end(&held->process);
}

static void containers_are_recognized_by_item_key_and_attribute(void **state)
{
	struct held held;
	uint32_t dict;
	begin(&held);
	uint32_t list = process_list(&held.process), keys = process_dict(&held.process);
	uint32_t thing = process_instance(&held.process, PROCESS_THING, &dict);
	process_item(&held.process, list, keys);
	process_key(&held.process, keys, "output", thing);
	process_key(&held.process, dict, "kept", held.wrapper);
	process_local(&held.process, held.frame, 2, list);
	assert_holders(&held, "attribute 'kept' of Thing: key 'output' of dict: item 0 of list: "
	                      "local 'v2' of f0() at run.py:10\n");
}

static void a_global_is_of_its_module(void **state)
{
	struct held held;
	begin(&held);
	process_key(&held.process, process_globals(&held.process, "__main__"), "x", held.wrapper);
	process_key(&held.process, process_globals(&held.process, "lib.cache"), "y", held.wrapper);
	assert_holders(&held, "global 'x' of module __main__\nglobal 'y' of module lib.cache\n");
}

static void neighbours_in_a_list_are_one_holder_and_others_are_not(void **state)
{
	struct held held;
	begin(&held);
	uint32_t list = process_list(&held.process), other = process_list(&held.process);
	for (int i = 0; i < 4; i++)
		process_item(&held.process, list, held.wrapper);
	process_item(&held.process, list, other);
	process_item(&held.process, list, held.wrapper);
	process_local(&held.process, held.frame, 0, list);
	assert_holders(&held, "items 0 to 3 of list: local 'v0' of f0() at run.py:10\n"
	                      "item 5 of list: local 'v0' of f0() at run.py:10\n");
}

static void a_modules_parameter_is_recognized_by_its_module(void **state)
{
	struct held held;
	uint32_t dict, layer_dict;
	begin(&held);
	uint32_t model = process_instance(&held.process, PROCESS_MODULE, &dict);
	uint32_t layer = process_instance(&held.process, PROCESS_MODULE, &layer_dict);
	uint32_t modules = process_dict(&held.process), parameters = process_dict(&held.process);
	process_key(&held.process, dict, "_modules", modules);
	process_key(&held.process, modules, "layer", layer);
	process_key(&held.process, layer_dict, "_parameters", parameters);
	process_key(&held.process, parameters, "weight", held.wrapper);
	process_local(&held.process, held.frame, 0, model);
	assert_holders(&held, "parameter 'weight' of Module: module 'layer' of Module: "
	                      "local 'v0' of f0() at run.py:10\n");
}

static void a_variable_that_functions_share_is_shown_through_its_cell(void **state)
{
	struct held held;
	begin(&held);
	process_local(&held.process, held.frame, 1, process_cell(&held.process, held.wrapper));
	assert_holders(&held, "local 'v1' of f0() at run.py:10\n");
}

/* A cell that no function and no frame has, held under a name. */
static void a_cell_that_something_else_holds_is_a_cell(void **state)
{
	struct held held;
	begin(&held);
	uint32_t dict = process_dict(&held.process);
	process_key(&held.process, dict, "cell", process_cell(&held.process, held.wrapper));
	process_local(&held.process, held.frame, 0, dict);
	assert_holders(&held, "a cell: key 'cell' of dict: local 'v0' of f0() at run.py:10\n");
}

static void what_a_graph_saved_is_shown_with_what_leads_to_the_graph(void **state)
{
	struct held held;
	begin(&held);
	uint32_t loss = process_tensor(&held.process,
	        process_storage(&held.process, BLOCK + BLOCK_SIZE, 4, GM_DEVICE_CPU));
	uint32_t node = process_node(&held.process), before = process_node(&held.process);
	gm_graph_refer(held.process.graph, loss, node, GM_REF_GRAD_FN, 0, 0);
	gm_graph_refer(held.process.graph, node, before, GM_REF_NEXT, 0, 0);
	gm_graph_refer(held.process.graph, before, held.tensor, GM_REF_SAVED, GM_SAVED_NOWHERE, 0);
	process_local(&held.process, held.frame, 0, process_wrapper(&held.process, loss));
	assert_holders(
	        &held, "saved by a node, in the graph of: local 'v0' of f0() at run.py:10\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(containers_are_recognized_by_item_key_and_attribute),
	        cmocka_unit_test(a_global_is_of_its_module),
	        cmocka_unit_test(neighbours_in_a_list_are_one_holder_and_others_are_not),
	        cmocka_unit_test(a_modules_parameter_is_recognized_by_its_module),
	        cmocka_unit_test(a_variable_that_functions_share_is_shown_through_its_cell),
	        cmocka_unit_test(a_cell_that_something_else_holds_is_a_cell),
	        cmocka_unit_test(what_a_graph_saved_is_shown_with_what_leads_to_the_graph),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
