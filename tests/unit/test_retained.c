/*
 * Retained bytes of thousands of random processes: how much each variable alone keeps, and which
 * variables share the rest. The test removes each variable and searches for what is still reached.
 * Each byte is counted once.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "holders/retained/paths.h"
#include "holders/retained/retained.h"
#include "holders/graph/graph.h"
#include "holders/retained/reach.h"
#include "holders/retained/reach_build.h"
#include "holders/retained/variables.h"
#include "random_process.h"
#include "render/retained_name.h"

/* --- a plain search over what reaches blocks -------------------------------------------------- */

enum { MOST_REACHED = 3 * MOST_VERTICES, MOST_VARIABLES = 64, TEXT = 96 };

struct plain {
	const struct gm_reach *reach;
	struct gm_retained_name
	        names[MOST_VARIABLES]; /* of variables; those that are called alike are one */
	size_t variable_count;
	bool reaches[MOST_VARIABLES][MOST_REACHED];
	uint64_t sharers[MOST_VARIABLES]; /* by block: a bit for each variable that reaches it */
};

static void search(struct plain *plain, struct gm_reach *reach)
{
	*plain = (struct plain){.reach = reach, .variable_count = reach->variables.count};
	assert_true(plain->variable_count <= MOST_VARIABLES && reach->count <= MOST_REACHED);
	for (size_t i = 0; i < plain->variable_count; i++) {
		bool *reached = plain->reaches[i];
		uint32_t label = gm_reach_variable_label(reach, &reach->variables.items[i]);
		assert_true(label && gm_reach_label_name(reach, label, &plain->names[i]));
		reached[reach->variables.items[i].vertex] = true;
		for (bool changed = true; changed;) {
			changed = false;
			for (size_t e = 0; e < reach->edges.count; e++) {
				const struct gm_reach_edge *edge = &reach->edges.items[e];
				if (reached[edge->from] && !reached[edge->to])
					changed = reached[edge->to] = true;
			}
		}
		for (size_t b = 0; b < reach->blocks.count; b++)
			if (reached[reach->blocks.items[b].vertex])
				plain->sharers[b] |= UINT64_C(1) << i;
	}
}

static void end_search(struct plain *plain)
{
	for (size_t i = 0; i < plain->variable_count; i++)
		gm_retained_name_deinit(&plain->names[i]);
}

/* Bytes of a device's blocks that these variables reach, and no others. */
static uint64_t bytes_of(
        const struct plain *plain, int device, uint64_t sharers, uint64_t *ret_blocks)
{
	uint64_t bytes = 0;
	*ret_blocks = 0;
	for (size_t b = 0; b < plain->reach->blocks.count; b++) {
		const struct gm_reach_block *block = &plain->reach->blocks.items[b];
		if (block->device != device || plain->sharers[b] != sharers)
			continue;
		bytes += block->bytes;
		++*ret_blocks;
	}
	return bytes;
}

static uint64_t sharers_of(uint64_t round, const struct plain *plain,
        const struct gm_retained_name *names, size_t count)
{
	uint64_t sharers = 0;
	for (size_t k = 0; k < count; k++) {
		size_t i = 0;
		while (i < plain->variable_count &&
		        gm_retained_names_compare(&plain->names[i], 1, &names[k], 1, true) != 0)
			i++;
		check_in_round(round, i < plain->variable_count);
		check_in_round(round, !(sharers >> i & 1));
		sharers |= UINT64_C(1) << i;
	}
	return sharers;
}

/* --- comparisons ------------------------------------------------------------------------------ */

static void check_sums(uint64_t round, const struct gm_retained_node *node)
{
	uint64_t bytes = 0, blocks = 0;
	for (size_t i = 0; i < node->child_count; i++) {
		bytes += node->children[i].bytes;
		blocks += node->children[i].blocks;
		check_in_round(round, node->children[i].blocks > 0);
		check_in_round(
		        round, i == 0 || node->children[i - 1].bytes >= node->children[i].bytes);
		check_sums(round, &node->children[i]);
	}
	check_in_round(round, node->child_count == 0 || bytes == node->bytes);
	check_in_round(round, node->child_count == 0 || blocks == node->blocks);
	check_in_round(round, node->name_count > 0);
}

static enum gm_retained_kind kind_of(const struct plain *plain, uint64_t sharers)
{
	static const enum gm_retained_kind kinds[] = {
	        [GM_VARIABLE_NAMED] = GM_RETAINED_VARIABLE,
	        [GM_VARIABLE_MISSING] = GM_RETAINED_UNKNOWN,
	        [GM_VARIABLE_GARBAGE] = GM_RETAINED_GARBAGE,
	        [GM_VARIABLE_CYCLES] = GM_RETAINED_CYCLE,
	        [GM_VARIABLE_NATIVE] = GM_RETAINED_LIBRARY,
	};
	return sharers == 0 ? GM_RETAINED_UNKNOWN
	       : (sharers & (sharers - 1))
	               ? GM_RETAINED_SHARED
	               : kinds[plain->reach->variables.items[__builtin_ctzll(sharers)].kind];
}

/* Each group of sharers has one node, with all of its bytes. */
static void check_groups(
        uint64_t round, const struct plain *plain, const struct gm_retained_device *device)
{
	uint64_t seen[MOST_VARIABLES], shared = 0, unknown = 0;
	for (size_t n = 0; n < device->node_count; n++) {
		const struct gm_retained_node *node = &device->nodes[n];
		uint64_t sharers = 0, blocks;
		if (node->kind == GM_RETAINED_SHARED)
			sharers = sharers_of(
			        round, plain, node->names[0].members, node->names[0].member_count);
		else if (node->root)
			sharers = sharers_of(round, plain, node->names, 1);
		check_in_round(
		        round, bytes_of(plain, device->device, sharers, &blocks) == node->bytes);
		check_in_round(round, blocks == node->blocks && blocks > 0);
		check_in_round(round, kind_of(plain, sharers) == node->kind);
		for (size_t k = 0; k < n; k++)
			check_in_round(round, seen[k] != sharers);
		seen[n] = sharers;
		shared += node->kind == GM_RETAINED_SHARED ? node->bytes : 0;
		unknown += node->kind == GM_RETAINED_UNKNOWN ? node->bytes : 0;
	}
	check_in_round(round, device->shared == shared && device->unknown == unknown);
}

/* A variable that holds a block only through an autograd graph does not share it if others hold it
 * directly. */
static void check_variables(
        uint64_t round, const struct plain *plain, const struct gm_retained_device *device)
{
	for (size_t n = 0; n < device->node_count; n++) {
		const struct gm_retained_node *node = &device->nodes[n];
		uint64_t blocks, sharers;
		if (!node->root) {
			(void)sharers_of(
			        round, plain, node->names[0].members, node->names[0].member_count);
			continue;
		}
		sharers = sharers_of(round, plain, node->names, 1);
		check_in_round(
		        round, bytes_of(plain, device->device, sharers, &blocks) == node->bytes);
	}
}

static void check_device(uint64_t round, const struct process *process, const struct plain *plain,
        const struct gm_retained_device *device, bool graph)
{
	uint64_t bytes = 0, blocks = 0, of_nodes = 0, pending = 0, pending_blocks = 0;
	for (size_t b = 0; b < plain->reach->blocks.count; b++) {
		bool is = plain->reach->blocks.items[b].device == device->device;
		bytes += is ? plain->reach->blocks.items[b].bytes : 0;
		blocks += is;
	}
	for (size_t b = 0; b < process->graph->block_count; b++) {
		const struct gm_block_record *block = &process->graph->blocks[b];
		if (block->device != device->device || block->allocated || !block->event_count)
			continue;
		pending += block->size;
		pending_blocks++;
	}
	for (size_t n = 0; n < device->node_count; n++) {
		of_nodes += device->nodes[n].bytes;
		check_sums(round, &device->nodes[n]);
	}
	check_in_round(round, device->allocated == bytes && device->allocated_blocks == blocks);
	check_in_round(round, of_nodes == bytes);
	check_in_round(round, device->pending == pending);
	check_in_round(round, device->pending_blocks == pending_blocks);
	if (graph)
		check_variables(round, plain, device);
	else
		check_groups(round, plain, device);
}

static void each_byte_belongs_to_the_variables_that_reach_it(void **state)
{
	static struct plain plain;
	size_t shared = 0, alone = 0, unknown = 0, garbage = 0, cycles = 0, inner = 0;
	for (uint64_t round = 0; round < random_rounds(4000); round++) {
		unsigned kind = (unsigned)round & (RANDOM_DEVICE | RANDOM_UNCOUNTED);
		bool graph = round % 16 >= 12;
		struct process process;
		struct gm_reach *reach;
		struct gm_retained retained;
		process_make_random(&process, round, kind | (graph ? 0 : RANDOM_NO_GRAPH));
		const struct gm_reach_options options = {.host = !(kind & RANDOM_DEVICE)};
		assert_null(gm_reach_create(process.graph, &options, &reach));
		search(&plain, reach);
		assert_null(gm_holders_retained(process.graph, options.host, &retained));
		check_in_round(round, retained.storages == reach->storages);
		check_in_round(round, retained.storages_complete == reach->storages_complete);
		for (size_t d = 0; d < retained.device_count; d++) {
			const struct gm_retained_device *device = &retained.devices[d];
			check_device(round, &process, &plain, device, graph);
			for (size_t n = 0; n < device->node_count; n++) {
				shared += device->nodes[n].kind == GM_RETAINED_SHARED;
				alone += device->nodes[n].kind == GM_RETAINED_VARIABLE;
				unknown += device->nodes[n].kind == GM_RETAINED_UNKNOWN;
				garbage += device->nodes[n].kind == GM_RETAINED_GARBAGE;
				cycles += device->nodes[n].kind == GM_RETAINED_CYCLE;
				inner += device->nodes[n].child_count > 1;
			}
		}
		gm_retained_deinit(&retained);
		end_search(&plain);
		gm_reach_destroy(reach);
		process_end(&process);
	}
	assert_true(shared > 1000 && alone > 300 && unknown > 300 && inner > 50);
	assert_true(garbage > 100 && cycles > 100);
}

/* --- trees with known texts ------------------------------------------------------------------- */

/* "TEXT BYTES/BLOCKS" a line, children two further in. */
static void put_tree(const struct gm_retained_node *nodes, size_t count, int level, FILE *out)
{
	for (size_t i = 0; i < count; i++) {
		char *text = gm_retained_node_text(&nodes[i]);
		fprintf(out, "%*s%s %ju/%ju\n", 2 * level, "", text, (uintmax_t)nodes[i].bytes,
		        (uintmax_t)nodes[i].blocks);
		free(text);
		put_tree(nodes[i].children, nodes[i].child_count, level + 1, out);
	}
}

/* Of host memory, or of the allocator's blocks where there are some: then each device's tree is
 * under its number. */
static void assert_tree(struct process *process, const char *expected)
{
	struct gm_retained retained;
	char *text = NULL;
	size_t size;
	bool host = process->graph->block_count == 0;
	process_ready(process);
	assert_null(gm_holders_retained(process->graph, host, &retained));
	FILE *out = open_memstream(&text, &size);
	for (size_t i = 0; i < retained.device_count; i++) {
		if (!host)
			fprintf(out, "device %d\n", retained.devices[i].device);
		put_tree(retained.devices[i].nodes, retained.devices[i].node_count, 0, out);
	}
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
	gm_retained_deinit(&retained);
	process_end(process);
}

/* A wrapped tensor in a block of its own. */
static uint32_t tensor_of(struct process *process, uint64_t bytes, uint32_t *ret_tensor)
{
	uint64_t data = BLOCK + process->graph->storages.count * 0x100000;
	uint32_t tensor =
	        process_tensor(process, process_storage(process, data, bytes, GM_DEVICE_CPU));
	if (ret_tensor)
		*ret_tensor = tensor;
	return process_wrapper(process, tensor);
}

static void a_models_tree_has_parameters_gradients_and_buffers(void **state)
{
	struct process process;
	uint32_t dict, layer_dict, tensors[2];
	process_begin(&process);
	uint32_t frame = process_frame(&process);
	uint32_t model = process_instance(&process, PROCESS_MODULE, &dict);
	uint32_t layer = process_instance(&process, PROCESS_MODULE, &layer_dict);
	uint32_t modules = process_dict(&process), parameters = process_dict(&process);
	uint32_t buffers = process_dict(&process);
	process_key(&process, dict, "_modules", modules);
	process_key(&process, modules, "layer", layer);
	process_key(&process, layer_dict, "_parameters", parameters);
	process_key(&process, layer_dict, "_buffers", buffers);
	process_key(&process, parameters, "weight", tensor_of(&process, 1000, &tensors[0]));
	process_key(&process, parameters, "bias", tensor_of(&process, 10, &tensors[1]));
	process_key(&process, buffers, "mean", tensor_of(&process, 7, NULL));
	for (int i = 0; i < 2; i++) {
		uint64_t data = BLOCK + process.graph->storages.count * 0x100000;
		uint32_t grad = process_tensor(
		        &process, process_storage(&process, data, i ? 10 : 1000, GM_DEVICE_CPU));
		gm_graph_refer(process.graph, tensors[i], grad, GM_REF_GRAD, 0, 0);
	}
	process_local(&process, frame, 0, model);
	assert_tree(&process, "local 'v0' of f0() 2027/5\n"
	                      "  .grad: layer 1010/2\n"
	                      "    layer.weight 1000/1\n"
	                      "    layer.bias 10/1\n"
	                      "  parameters: layer 1010/2\n"
	                      "    layer.weight 1000/1\n"
	                      "    layer.bias 10/1\n"
	                      "  buffers: layer.mean 7/1\n");
}

static void an_optimizers_state_is_recognized_by_name_and_then_by_parameter(void **state)
{
	struct process process;
	uint32_t dict, state_dict;
	process_begin(&process);
	uint32_t frame = process_frame(&process);
	uint32_t model = process_instance(&process, PROCESS_MODULE, &dict);
	uint32_t optimizer = process_instance(&process, PROCESS_OPTIMIZER, &state_dict);
	uint32_t parameters = process_dict(&process), by_parameter = process_dict(&process);
	process_key(&process, dict, "_parameters", parameters);
	process_key(&process, state_dict, "state", by_parameter);
	for (int i = 0; i < 2; i++) {
		uint32_t parameter = tensor_of(&process, 100, NULL), entry = process_dict(&process);
		process_key(&process, parameters, i ? "bias" : "weight", parameter);
		process_key_by_object(&process, by_parameter, parameter, entry);
		process_key(&process, entry, "exp_avg", tensor_of(&process, i ? 30 : 20, NULL));
		process_key(&process, entry, "exp_avg_sq", tensor_of(&process, i ? 3 : 2, NULL));
	}
	process_local(&process, frame, 0, model);
	process_local(&process, frame, 1, optimizer);
	assert_tree(&process, "shared by local 'v0' of f0() and local 'v1' of f0() 200/2\n"
	                      "  parameters 200/2\n"
	                      "    bias 100/1\n"
	                      "    weight 100/1\n"
	                      "local 'v1' of f0() .state 55/4\n"
	                      "  exp_avg 50/2\n"
	                      "    bias 30/1\n"
	                      "    weight 20/1\n"
	                      "  exp_avg_sq 5/2\n"
	                      "    bias 3/1\n"
	                      "    weight 2/1\n");
}

static void items_are_counted_and_a_list_owns_what_it_does_not_share(void **state)
{
	struct process process;
	process_begin(&process);
	uint32_t frame = process_frame(&process), list = process_list(&process);
	uint32_t other = process_list(&process), shared = tensor_of(&process, 500, NULL);
	for (int i = 0; i < 4; i++)
		process_item(&process, list, tensor_of(&process, 10, NULL));
	process_item(&process, list, shared);
	process_item(&process, other, shared);
	process_item(&process, other, shared);
	process_local(&process, frame, 0, list);
	process_local(&process, frame, 1, other);
	assert_tree(&process, "shared by local 'v0' of f0() and local 'v1' of f0() 500/1\n"
	                      "  1 item 500/1\n"
	                      "local 'v0' of f0(): 4 items 40/4\n");
}

static void parts_of_one_variable_share_within_it(void **state)
{
	struct process process;
	uint32_t dict;
	process_begin(&process);
	uint32_t frame = process_frame(&process);
	uint32_t thing = process_instance(&process, PROCESS_THING, &dict);
	uint32_t shared = tensor_of(&process, 500, NULL);
	uint32_t a = process_list(&process), b = process_list(&process);
	process_item(&process, a, shared);
	process_item(&process, b, shared);
	process_item(&process, b, tensor_of(&process, 3, NULL));
	process_key(&process, dict, "c", shared);
	process_key(&process, dict, "a", a);
	process_key(&process, dict, "b", b);
	process_local(&process, frame, 0, thing);
	assert_tree(&process, "local 'v0' of f0() 503/2\n"
	                      "  shared by .a, .b and .c 500/1\n"
	                      "    .c 500/1\n"
	                      "  .b: 1 item 3/1\n");
}

static void an_item_with_several_blocks_is_counted_once_on_each_device(void **state)
{
	struct process process;
	process_begin(&process);
	uint32_t frame = process_frame(&process), list = process_list(&process);
	process.graph->blocks = calloc(8, sizeof(*process.graph->blocks));
	assert_non_null(process.graph->blocks);
	process.graph->block_count = 8;
	for (uint64_t i = 0; i < 8; i++)
		process.graph->blocks[i] =
		        (struct gm_block_record){.address = BLOCK + i * BLOCK_SIZE,
		                .size = 100,
		                .device = (int8_t)(i & 1),
		                .allocated = true,
		                .mapped = true};
	for (uint64_t item = 0; item < 2; item++) {
		uint32_t pair = process_dict(&process);
		process_item(&process, list, pair);
		for (uint64_t i = 4 * item; i < 4 * item + 4; i++) {
			uint32_t storage = process_storage(
			        &process, BLOCK + i * BLOCK_SIZE, 100, GM_DEVICE_CUDA);
			process_key(&process, pair, i & 1 ? "odd" : "even",
			        process_wrapper(&process, process_tensor(&process, storage)));
		}
	}
	process_local(&process, frame, 0, list);
	assert_tree(&process, "device 0\n"
	                      "local 'v0' of f0(): 2 items['even'] 400/4\n"
	                      "device 1\n"
	                      "local 'v0' of f0(): 2 items['odd'] 400/4\n");
}

/* A graph of autograd owns what its nodes saved, but not a parameter that it uses. */
static void saved_tensors_of_a_graph_belong_to_the_variable_that_leads_to_it(void **state)
{
	struct process process;
	uint32_t parameter_tensor, loss_tensor, saved_tensor;
	process_begin(&process);
	uint32_t frame = process_frame(&process), node = process_node(&process);
	uint32_t parameter = tensor_of(&process, 100, &parameter_tensor);
	uint32_t loss = tensor_of(&process, 4, &loss_tensor);
	(void)tensor_of(&process, 900, &saved_tensor);
	uint32_t list = process_list(&process);
	process_item(&process, list, parameter);
	gm_graph_refer(process.graph, loss_tensor, node, GM_REF_GRAD_FN, 0, 0);
	gm_graph_refer(process.graph, node, saved_tensor, GM_REF_SAVED, GM_SAVED_NOWHERE, 0);
	gm_graph_refer(process.graph, node, parameter_tensor, GM_REF_SAVED, GM_SAVED_NOWHERE, 0);
	process_local(&process, frame, 0, loss);
	process_local(&process, frame, 1, parameter);
	process_local(&process, frame, 2, list);
	assert_tree(&process,
	        "local 'v0' of f0() 904/2\n"
	        "  saved for backward: ? 900/1\n"
	        "  itself 4/1\n"
	        "shared by local 'v1' of f0() and local 'v2' of f0(), and the graph of "
	        "local 'v0' of f0() 100/1\n");
}

/* --- ways ------------------------------------------------------------------------------------- */

/* The steps to a vertex, by going down the tree with a list: what repeats itself is told once. */
static size_t plain_steps(const struct gm_reach *reach, const struct gm_paths *paths, uint32_t v,
        struct gm_step *ret_steps)
{
	uint32_t edges[MOST_REACHED];
	size_t depth = 0, count = 0;
	for (; v != 0; v = reach->edges.items[reach->tree[v]].from)
		edges[depth++] = reach->tree[v];
	while (depth-- > 0) {
		const struct gm_reach_edge *edge = &reach->edges.items[edges[depth]];
		struct gm_step step = {edge->part, edge->name};
		struct gm_step last = count ? ret_steps[count - 1] : (struct gm_step){0};
		bool of_graph = last.part == GM_PART_GRAPH || last.part == GM_PART_SAVED;
		bool same = last.part == step.part && last.name == step.name;
		if (edge->part == GM_PART_INTERNAL_EDGE ||
		        (of_graph && (edge->part == GM_PART_GRAPH || edge->part == GM_PART_VIEW)) ||
		        (edge->part == GM_PART_ITEM && last.part == GM_PART_ITEM) ||
		        (same && (edge->part == GM_PART_ATTRIBUTE || edge->part == GM_PART_KEY ||
		                         edge->part == GM_PART_DICT_KEY ||
		                         edge->part == GM_PART_LOCAL ||
		                         edge->part == GM_PART_FIELD ||
		                         edge->part == GM_PART_TRACEBACK)))
			continue;
		if (edge->part == GM_PART_GRAPH || edge->part == GM_PART_ITEM)
			step.name = 0;
		if (edge->part == GM_PART_SAVED && of_graph)
			count--;
		if (edge->part == GM_PART_VARIABLE)
			step.name = paths->paths.items[paths->of[edge->to]].step.name;
		if (count == GM_PATH_MAX)
			continue;
		ret_steps[count++] = step;
	}
	return count;
}

static void check_path(
        uint64_t round, const struct gm_reach *reach, const struct gm_paths *paths, uint32_t v)
{
	struct gm_step expected[MOST_REACHED], steps[GM_PATH_MAX];
	size_t count = plain_steps(reach, paths, v, expected);
	bool graph = false;
	check_in_round(round, gm_paths_between(paths, 0, v, steps) == count);
	for (size_t i = 0; i < count; i++) {
		check_in_round(round, steps[i].part == expected[i].part);
		check_in_round(round, steps[i].name == expected[i].name);
	}
	for (uint32_t at = v; at != 0; at = reach->edges.items[reach->tree[at]].from) {
		uint8_t part = reach->edges.items[reach->tree[at]].part;
		graph |= part == GM_PART_GRAPH || part == GM_PART_SAVED;
	}
	check_in_round(round, gm_paths_through_graph(paths, 0, v) == graph);
}

/* A tree with random parts: each vertex comes from one before it. In some, one way is as long as
 * the tree is big. */
static void make_tree(struct gm_reach *reach, struct random *random, uint32_t count)
{
	bool is_long = random_once_in(random, 4);
	reach->count = reach->reached_count = count;
	reach->tree = calloc(count, sizeof(*reach->tree));
	reach->order = calloc(count, sizeof(*reach->order));
	assert_true(reach->tree && reach->order);
	for (uint32_t v = 1; v < count; v++) {
		bool branches = !is_long && random_once_in(random, 4);
		uint32_t from = branches ? random_below(random, v) : v - 1;
		struct gm_reach_edge edge = {.from = from,
		        .to = v,
		        .part = (uint8_t)random_below(random, GM_PART_ENTRY + 1),
		        .name = random_below(random, 3)};
		if (edge.part == GM_PART_VARIABLE)
			edge.part = GM_PART_INTERNAL_EDGE;
		reach->tree[v] = (uint32_t)reach->edges.count;
		reach->order[v] = v;
		assert_true(gm_array_push(&reach->edges, edge));
	}
}

static void ways_are_those_of_a_walk_down_the_tree(void **state)
{
	for (uint64_t round = 0; round < random_rounds(2000); round++) {
		struct random random = random_of_round(round);
		struct gm_reach reach = {0};
		struct gm_paths paths;
		make_tree(&reach, &random, 2 + random_below(&random, MOST_REACHED - 2));
		assert_true(gm_paths_init(&paths, &reach));
		for (uint32_t v = 1; v < reach.count; v++)
			check_path(round, &reach, &paths, v);
		gm_paths_deinit(&paths);
		gm_array_deinit(&reach.edges);
		free(reach.tree);
		free(reach.order);
	}
}

static void a_graph_is_found_below_the_steps_that_are_shown(void **state)
{
	enum { STEPS = GM_PATH_MAX + 6 };
	struct gm_reach reach = {.count = STEPS + 1, .reached_count = STEPS + 1};
	struct gm_paths paths;
	struct gm_step steps[GM_PATH_MAX];
	reach.tree = calloc(STEPS + 1, sizeof(*reach.tree));
	reach.order = calloc(STEPS + 1, sizeof(*reach.order));
	assert_true(reach.tree && reach.order);
	for (uint32_t v = 1; v <= STEPS; v++) {
		struct gm_reach_edge edge = {.from = v - 1,
		        .to = v,
		        .part = v < STEPS ? GM_PART_ATTRIBUTE : GM_PART_GRAPH,
		        .name = v};
		reach.tree[v] = v - 1;
		reach.order[v] = v;
		assert_true(gm_array_push(&reach.edges, edge));
	}
	assert_true(gm_paths_init(&paths, &reach));
	assert_int_equal(gm_paths_between(&paths, 0, STEPS, steps), GM_PATH_MAX);
	assert_true(gm_paths_through_graph(&paths, 0, STEPS));
	assert_false(gm_paths_through_graph(&paths, 0, STEPS - 1));
	gm_paths_deinit(&paths);
	gm_array_deinit(&reach.edges);
	free(reach.tree);
	free(reach.order);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(each_byte_belongs_to_the_variables_that_reach_it),
	        cmocka_unit_test(a_models_tree_has_parameters_gradients_and_buffers),
	        cmocka_unit_test(an_optimizers_state_is_recognized_by_name_and_then_by_parameter),
	        cmocka_unit_test(items_are_counted_and_a_list_owns_what_it_does_not_share),
	        cmocka_unit_test(parts_of_one_variable_share_within_it),
	        cmocka_unit_test(an_item_with_several_blocks_is_counted_once_on_each_device),
	        cmocka_unit_test(saved_tensors_of_a_graph_belong_to_the_variable_that_leads_to_it),
	        cmocka_unit_test(ways_are_those_of_a_walk_down_the_tree),
	        cmocka_unit_test(a_graph_is_found_below_the_steps_that_are_shown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
