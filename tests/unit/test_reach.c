/*
 * What reaches blocks, in thousands of random processes: blocks, objects, variables and their
 * names, missing references, garbage, distances and completeness equal those of a simple search.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "holders/retained/reach.h"
#include "holders/graph/collect.h"
#include "holders/graph/graph.h"
#include "base/strings.h"
#include "holders/retained/reach_build.h"
#include "holders/retained/variables.h"
#include "random_process.h"
#include "render/retained_name.h"

enum { MOST_REACHED = 3 * MOST_VERTICES };

struct plain {
	const struct process *process;
	const struct gm_holders *graph;
	const struct gm_reach *reach;
	size_t count; /* vertices of the graph */
	uint64_t blocks[MOST_VERTICES];
	size_t block_count;
	uint64_t block_of[MOST_VERTICES]; /* by storage's row; 0: none */
	/* garbage: nothing holds it; held: also by garbage that gc.collect() does not free */
	bool marked[MOST_VERTICES], held[MOST_VERTICES], garbage[MOST_VERTICES],
	        collected[MOST_VERTICES];
};

static bool is_root(const struct gm_holders *graph, uint32_t vertex)
{
	const struct gm_vertex *at = &graph->vertices.items[vertex];
	return at->kind == GM_VERTEX_FRAME || at->kind == GM_VERTEX_THREAD ||
	       at->kind == GM_VERTEX_NATIVE || (at->flags & GM_VERTEX_ROOT_MODULE);
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* Storages that begin at lower addresses come first; of those that begin at one, the biggest. */
static bool comes_before(const struct gm_storage *a, const struct gm_storage *b)
{
	return a->data < b->data || (a->data == b->data && a->size > b->size);
}

static void find_host_blocks(struct plain *plain)
{
	const struct gm_storage *storages = plain->graph->storages.items;
	bool done[MOST_VERTICES] = {0};
	for (size_t n = 0; n < plain->graph->storages.count; n++) {
		size_t next = SIZE_MAX;
		for (size_t i = 0; i < plain->graph->storages.count; i++)
			if (!done[i] &&
			        (next == SIZE_MAX || comes_before(&storages[i], &storages[next])))
				next = i;
		done[next] = true;
		uint64_t begin = 0;
		for (size_t i = 0; i < plain->graph->storages.count; i++)
			if (plain->block_of[i] == storages[i].data &&
			        storages[i].data <= storages[next].data &&
			        storages[next].data < storages[i].data + storages[i].size)
				begin = storages[i].data;
		if (!begin)
			plain->blocks[plain->block_count++] = begin = storages[next].data;
		plain->block_of[next] = begin;
	}
}

static void find_device_blocks(struct plain *plain)
{
	for (size_t b = 0; b < plain->graph->block_count; b++) {
		const struct gm_block_record *block = &plain->graph->blocks[b];
		if (!block->allocated)
			continue;
		plain->blocks[plain->block_count++] = block->address;
		for (size_t i = 0; i < plain->graph->storages.count; i++) {
			uint64_t data = plain->graph->storages.items[i].data;
			if (data >= block->address && data < block->address + block->size)
				plain->block_of[i] = block->address;
		}
	}
}

/* --- what leads there ------------------------------------------------------------------------- */

static bool lacks(const struct plain *plain, uint32_t v)
{
	enum gm_vertex_kind kind = plain->graph->vertices.items[v].kind;
	return plain->process->uncounted[v] && kind >= GM_VERTEX_STORAGE &&
	       kind <= GM_VERTEX_PYTHON;
}

static void spread(const struct plain *plain, bool *reached)
{
	const struct gm_holders *graph = plain->graph;
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < graph->edges.count; i++) {
			const struct gm_edge *edge = &graph->edges.items[i];
			if (reached[edge->from] && !reached[edge->to] && plain->marked[edge->to])
				changed = reached[edge->to] = true;
		}
	}
}

static void search(struct plain *plain, const struct process *process, const struct gm_reach *reach,
        bool device)
{
	const struct gm_holders *graph = process->graph;
	*plain = (struct plain){
	        .process = process, .graph = graph, .reach = reach, .count = graph->vertices.count};
	if (device)
		find_device_blocks(plain);
	else
		find_host_blocks(plain);
	for (size_t i = 0; i < graph->storages.count; i++)
		if (plain->block_of[i])
			plain->marked[gm_graph_find(graph, graph->storages.items[i].address)] =
			        true;
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < graph->edges.count; i++) {
			const struct gm_edge *edge = &graph->edges.items[i];
			if (plain->marked[edge->to] && !plain->marked[edge->from] &&
			        !is_root(graph, edge->from))
				changed = plain->marked[edge->from] = true;
		}
	}
	for (size_t i = 0; i < graph->edges.count; i++) {
		const struct gm_edge *edge = &graph->edges.items[i];
		if (is_root(graph, edge->from) && plain->marked[edge->to])
			plain->held[edge->to] = true;
	}
	for (uint32_t v = 0; v < plain->count; v++)
		plain->held[v] |= plain->marked[v] && lacks(plain, v);
	spread(plain, plain->held);
	for (uint32_t v = 0; v < plain->count; v++)
		plain->garbage[v] = plain->marked[v] && !plain->held[v];
	uint32_t vertices[MOST_VERTICES];
	bool freed[MOST_VERTICES] = {0};
	size_t count = 0;
	for (uint32_t v = 0; v < plain->count; v++)
		if (plain->garbage[v])
			vertices[count++] = v;
	assert_true(gm_graph_collect(graph, vertices, count, freed));
	for (size_t i = 0; i < count; i++) {
		plain->collected[vertices[i]] = freed[i];
		plain->held[vertices[i]] = !freed[i];
	}
}

/* --- comparisons ------------------------------------------------------------------------------ */

static bool is_held(const struct plain *plain, uint64_t block)
{
	bool held = false;
	for (size_t s = 0; s < plain->graph->storages.count; s++)
		held |= plain->block_of[s] == block &&
		        plain->held[gm_graph_find(
		                plain->graph, plain->graph->storages.items[s].address)];
	return held;
}

/* The allocator's, or those of the biggest storage that begins there. */
static uint64_t bytes_of(const struct plain *plain, uint64_t block)
{
	uint64_t bytes = 0;
	for (size_t s = 0; s < plain->graph->storages.count; s++) {
		const struct gm_storage *storage = &plain->graph->storages.items[s];
		if (storage->data == block && storage->size > bytes)
			bytes = storage->size;
	}
	return plain->graph->block_count ? BLOCK_SIZE : bytes;
}

/* A storage refers to its block, but for one that is garbage where another one holds the block. */
static void check_blocks(uint64_t round, const struct plain *plain)
{
	const struct gm_reach *reach = plain->reach;
	check_in_round(round, reach->blocks.count == plain->block_count);
	for (size_t i = 0; i < plain->block_count; i++) {
		const struct gm_reach_block *block = &reach->blocks.items[i];
		check_in_round(round, block->address == plain->blocks[i]);
		check_in_round(round, block->bytes == bytes_of(plain, plain->blocks[i]));
		check_in_round(round, i == 0 || block[-1].address < block->address);
		for (size_t s = 0; s < plain->graph->storages.count; s++) {
			const struct gm_storage *storage = &plain->graph->storages.items[s];
			uint32_t vertex = gm_graph_find(plain->graph, storage->address);
			uint32_t from = reach->local[vertex];
			bool refers = plain->block_of[s] == block->address &&
			              (plain->held[vertex] || !is_held(plain, block->address));
			size_t edges = 0;
			for (size_t e = 0; from && e < reach->edges.count; e++)
				edges += reach->edges.items[e].from == from &&
				         reach->edges.items[e].to == block->vertex;
			check_in_round(round, edges == refers);
		}
	}
}

/* Each reference between marked objects once, but for what garbage has of others. */
static void check_edges(uint64_t round, const struct plain *plain)
{
	const struct gm_reach *reach = plain->reach;
	size_t expected = 0, found = 0;
	for (uint32_t v = 0; v < plain->count; v++)
		check_in_round(round, (reach->local[v] != 0) == plain->marked[v]);
	for (size_t i = 0; i < plain->graph->edges.count; i++) {
		const struct gm_edge *edge = &plain->graph->edges.items[i];
		if (is_root(plain->graph, edge->from) || !plain->marked[edge->to] ||
		        (plain->collected[edge->from] && !plain->collected[edge->to]))
			continue;
		size_t of_graph = 0, of_reach = 0;
		for (size_t k = 0; k < plain->graph->edges.count; k++) {
			const struct gm_edge *other = &plain->graph->edges.items[k];
			of_graph += other->from == edge->from && other->to == edge->to &&
			            other->kind == edge->kind;
		}
		for (size_t k = 0; k < reach->edges.count; k++) {
			const struct gm_reach_edge *other = &reach->edges.items[k];
			of_reach += other->from == reach->local[edge->from] &&
			            other->to == reach->local[edge->to] &&
			            other->reference == edge->kind;
		}
		check_in_round(round,
		        of_graph == of_reach || (edge->from == edge->to && of_reach >= of_graph));
		expected += edge->from != edge->to;
	}
	for (size_t k = 0; k < reach->edges.count; k++)
		found += reach->edges.items[k].reference != 0 &&
		         reach->edges.items[k].from != reach->edges.items[k].to;
	check_in_round(round, found == expected);
}

static size_t variables_of(const struct gm_reach *reach, enum gm_variable_kind kind)
{
	size_t count = 0;
	for (size_t i = 0; i < reach->variables.count; i++)
		count += reach->variables.items[i].kind == kind;
	return count;
}

static bool variable_refers(const struct gm_reach *reach, enum gm_variable_kind kind, uint32_t to)
{
	for (size_t e = 0; e < reach->edges.count; e++) {
		const struct gm_variable *variable =
		        gm_reach_variable_at(reach, reach->edges.items[e].from);
		if (variable && variable->kind == kind && reach->edges.items[e].to == to)
			return true;
	}
	return false;
}

/* Objects that names refer to, that C++ refers to, and whose counts are too high: each has its
 * variable. */
static void check_variables(uint64_t round, const struct plain *plain)
{
	const struct gm_holders *graph = plain->graph;
	size_t named = 0, missing = 0, native = 0;
	for (uint32_t v = 0; v < plain->count; v++) {
		size_t names = 0, words = 0;
		for (size_t i = 0; i < graph->edges.count; i++) {
			const struct gm_edge *edge = &graph->edges.items[i];
			bool of_native = graph->vertices.items[edge->from].kind == GM_VERTEX_NATIVE;
			names += edge->to == v && is_root(graph, edge->from) && !of_native;
			words += edge->to == v && of_native;
		}
		if (!plain->marked[v])
			continue;
		uint32_t local = plain->reach->local[v];
		named += names > 0;
		native += words > 0;
		missing += lacks(plain, v);
		check_in_round(round,
		        (words > 0) == variable_refers(plain->reach, GM_VARIABLE_NATIVE, local));
		check_in_round(round, lacks(plain, v) == variable_refers(plain->reach,
		                                                 GM_VARIABLE_MISSING, local));
		for (size_t i = 0; i < plain->reach->variables.count; i++) {
			const struct gm_variable *variable = &plain->reach->variables.items[i];
			if (variable->kind == GM_VARIABLE_NAMED && variable->object == local)
				check_in_round(round, variable->name_count == names);
		}
	}
	check_in_round(round, variables_of(plain->reach, GM_VARIABLE_NAMED) == named);
	check_in_round(round, variables_of(plain->reach, GM_VARIABLE_MISSING) == (missing > 0));
	check_in_round(round, variables_of(plain->reach, GM_VARIABLE_NATIVE) == (native > 0));
}

/* Garbage that no other garbage leads to, but what it leads to itself, is given to the root, one of
 * each cycle. What gc.collect() does not free is given to another variable, whatever garbage leads
 * there. */
static void check_garbage(uint64_t round, const struct plain *plain)
{
	static bool leads[MOST_VERTICES][MOST_VERTICES];
	const bool *collected = plain->collected;
	size_t count = 0, of = 0;
	memset(leads, 0, sizeof(leads));
	for (uint32_t v = 0; v < plain->count; v++)
		if (plain->garbage[v]) {
			count++;
			of += collected[v];
			leads[v][v] = true;
			spread(plain, leads[v]);
		}
	check_in_round(round, variables_of(plain->reach, GM_VARIABLE_GARBAGE) == (of > 0));
	check_in_round(round, variables_of(plain->reach, GM_VARIABLE_CYCLES) == (count > of));
	for (uint32_t v = 0; v < plain->count; v++) {
		size_t given = 0;
		bool first = plain->garbage[v];
		for (uint32_t u = 0; u < plain->count; u++) {
			bool above = plain->garbage[u] && leads[u][v] && !leads[v][u];
			first &= !above || (collected[u] && !collected[v]);
			check_in_round(round, !above || collected[u] || !collected[v]);
			given += plain->garbage[u] && leads[u][v] && leads[v][u] &&
			         variable_refers(plain->reach,
			                 collected[u] ? GM_VARIABLE_GARBAGE : GM_VARIABLE_CYCLES,
			                 plain->reach->local[u]);
		}
		check_in_round(round, given == first);
	}
}

/* Distances by relaxing every edge, over the lengths that the edges have. */
static void check_tree(uint64_t round, const struct plain *plain)
{
	const struct gm_reach *reach = plain->reach;
	static uint32_t distances[MOST_REACHED], by_tree[MOST_REACHED];
	size_t reached = 0;
	memset(distances, 0xff, sizeof(distances));
	distances[0] = 0;
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t e = 0; e < reach->edges.count; e++) {
			const struct gm_reach_edge *edge = &reach->edges.items[e];
			uint64_t length = (uint64_t)distances[edge->from] + edge->length;
			if (length < distances[edge->to]) {
				distances[edge->to] = (uint32_t)length;
				changed = true;
			}
		}
	}
	for (uint32_t v = 0; v < reach->count; v++)
		reached += distances[v] != UINT32_MAX;
	check_in_round(round, reach->reached_count == reached);
	for (uint32_t i = 0; i < reach->reached_count; i++) {
		uint32_t v = reach->order[i];
		const struct gm_reach_edge *edge = v ? &reach->edges.items[reach->tree[v]] : NULL;
		check_in_round(round, (v == 0) == (i == 0));
		by_tree[v] = edge ? by_tree[edge->from] + edge->length : 0;
		check_in_round(round, !edge || edge->to == v);
		check_in_round(round, by_tree[v] == distances[v]);
		check_in_round(round, i == 0 || distances[reach->order[i - 1]] <= distances[v]);
	}
	/* all that leads to a block is reached */
	for (uint32_t v = 0; v < plain->count; v++)
		check_in_round(
		        round, !plain->marked[v] || distances[reach->local[v]] != UINT32_MAX);
}

/* A storage with its tensors and their wrappers. */
static void check_complete(uint64_t round, const struct plain *plain)
{
	const struct gm_holders *graph = plain->graph;
	size_t storages = 0, complete = 0;
	for (size_t s = 0; s < graph->storages.count; s++) {
		bool own[MOST_VERTICES] = {0}, whole = true;
		uint32_t storage = gm_graph_find(graph, graph->storages.items[s].address);
		own[storage] = true;
		for (int twice = 0; twice < 2; twice++)
			for (size_t i = 0; i < graph->edges.count; i++) {
				const struct gm_edge *edge = &graph->edges.items[i];
				bool is = edge->kind == GM_REF_STORAGE ||
				          edge->kind == GM_REF_WRAPPER;
				own[edge->from] |= is && own[edge->to];
			}
		for (uint32_t v = 0; v < plain->count; v++)
			whole &= !own[v] || !lacks(plain, v);
		storages += plain->block_of[s] != 0;
		complete += plain->block_of[s] && whole;
	}
	check_in_round(round, plain->reach->storages == storages);
	check_in_round(round, plain->reach->storages_complete == complete);
}

static void what_reaches_a_block_is_what_a_plain_search_finds(void **state)
{
	static struct plain plain;
	size_t garbage = 0, missing = 0, named = 0;
	for (uint64_t round = 0; round < random_rounds(3000); round++) {
		unsigned kind = (unsigned)round & (RANDOM_DEVICE | RANDOM_UNCOUNTED);
		struct process process;
		struct gm_reach *reach;
		process_make_random(&process, round, kind);
		const struct gm_reach_options options = {.host = !(kind & RANDOM_DEVICE)};
		assert_null(gm_reach_create(process.graph, &options, &reach));
		assert_true(reach->count <= MOST_REACHED);
		search(&plain, &process, reach, kind & RANDOM_DEVICE);
		check_blocks(round, &plain);
		check_edges(round, &plain);
		check_variables(round, &plain);
		check_garbage(round, &plain);
		check_tree(round, &plain);
		check_complete(round, &plain);
		garbage += variables_of(reach, GM_VARIABLE_GARBAGE);
		missing += variables_of(reach, GM_VARIABLE_MISSING);
		named += variables_of(reach, GM_VARIABLE_NAMED);
		gm_reach_destroy(reach);
		process_end(&process);
	}
	assert_true(garbage > 300 && missing > 300 && named > 3000);
}

/* --- names ------------------------------------------------------------------------------------ */

static void assert_label(const struct gm_reach *reach, uint32_t label, const char *expected)
{
	struct gm_retained_name name;
	assert_true(label && gm_reach_label_name(reach, label, &name));
	char *text = gm_retained_name_text(&name);
	assert_string_equal(text, expected);
	free(text);
	gm_retained_name_deinit(&name);
}

static void assert_variable(struct gm_reach *reach, size_t number, const char *expected)
{
	assert_label(
	        reach, gm_reach_variable_label(reach, &reach->variables.items[number]), expected);
}

static void the_best_name_of_an_object_is_a_global_then_an_outer_functions(void **state)
{
	struct process process;
	struct gm_reach *reach;
	process_begin(&process);
	uint32_t tensors[3];
	for (int i = 0; i < 3; i++)
		tensors[i] = process_wrapper(&process,
		        process_tensor(&process,
		                process_storage(&process, BLOCK + (uint64_t)i * BLOCK_SIZE,
		                        BLOCK_SIZE, GM_DEVICE_CPU)));
	uint32_t inner = process_frame(&process), outer = process_frame(&process);
	uint32_t library = process_globals(&process, "library");
	uint32_t globals = process_globals(&process, "__main__");
	process_local(&process, inner, 0, tensors[0]);
	process_local(&process, outer, 1, tensors[0]);
	process_key(&process, library, "of_library", tensors[0]);
	process_key(&process, globals, "mine", tensors[0]);
	process_local(&process, inner, 2, tensors[1]);
	process_local(&process, outer, 3, tensors[1]);
	process_key(&process, library, "again", tensors[1]);
	process_key(&process, library, "first", tensors[2]);
	process_key(&process, library, "second", tensors[2]);
	process_ready(&process);
	assert_null(
	        gm_reach_create(process.graph, &(struct gm_reach_options){.host = true}, &reach));
	assert_int_equal(reach->variables.count, 3);
	static const char *const expected[][4] = {
	        {"global 'mine'", "local 'v1' of f1()", "local 'v0' of f0()",
	                "global 'of_library' of module library"},
	        {"local 'v3' of f1()", "local 'v2' of f0()", "global 'again' of module library"},
	        {"global 'first' of module library", "global 'second' of module library"},
	};
	for (size_t i = 0; i < 3; i++) {
		const struct gm_variable *variable = &reach->variables.items[i];
		size_t row = 0;
		while (row < 2 && variable->object != reach->local[tensors[row]])
			row++;
		assert_int_equal(variable->object, reach->local[tensors[row]]);
		assert_variable(reach, i, expected[row][0]);
		assert_int_equal(variable->name_count, row == 0 ? 4 : row == 1 ? 3 : 2);
		for (uint32_t n = 0; n < variable->name_count; n++) {
			assert_label(reach,
			        gm_reach_name_label(
			                reach, &reach->names.items[variable->first_name + n]),
			        expected[row][n]);
		}
	}
	gm_reach_destroy(reach);
	process_end(&process);
}

/* --- what parts are to a user ----------------------------------------------------------------- */

static const struct gm_reach_edge *edge_to(const struct gm_reach *reach, uint32_t from, uint32_t to)
{
	for (size_t i = 0; i < reach->edges.count; i++) {
		const struct gm_reach_edge *edge = &reach->edges.items[i];
		if (edge->from == reach->local[from] && edge->to == reach->local[to])
			return edge;
	}
	return NULL;
}

static void assert_part(const struct gm_reach *reach, uint32_t from, uint32_t to, enum gm_part part,
        const char *name)
{
	const struct gm_reach_edge *edge = edge_to(reach, from, to);
	assert_non_null(edge);
	assert_int_equal(edge->part, part);
	if (name)
		assert_string_equal(gm_strings_at(&reach->strings, edge->name), name);
}

static void a_modules_dicts_are_parts_by_what_they_are_for(void **state)
{
	struct process process;
	struct gm_reach *reach;
	process_begin(&process);
	uint32_t storage[3], tensor[3], wrapper[3], dict, child_dict, state_dict;
	for (int i = 0; i < 3; i++) {
		storage[i] = process_storage(
		        &process, BLOCK + (uint64_t)i * BLOCK_SIZE, BLOCK_SIZE, GM_DEVICE_CPU);
		tensor[i] = process_tensor(&process, storage[i]);
		wrapper[i] = process_wrapper(&process, tensor[i]);
	}
	uint32_t model = process_instance(&process, PROCESS_MODULE, &dict);
	uint32_t layer = process_instance(&process, PROCESS_MODULE, &child_dict);
	uint32_t thing_dict, thing = process_instance(&process, PROCESS_THING, &thing_dict);
	uint32_t modules = process_dict(&process), parameters = process_dict(&process);
	uint32_t buffers = process_dict(&process), not_modules = process_dict(&process);
	process_key(&process, dict, "_modules", modules);
	process_key(&process, modules, "layer", layer);
	process_key(&process, child_dict, "_parameters", parameters);
	process_key(&process, child_dict, "_buffers", buffers);
	process_key(&process, parameters, "weight", wrapper[0]);
	process_key(&process, buffers, "mean", wrapper[1]);
	process_key(&process, thing_dict, "_modules", not_modules);
	process_key(&process, not_modules, "layer", layer);
	uint32_t optimizer = process_instance(&process, PROCESS_OPTIMIZER, &state_dict);
	uint32_t by_parameter = process_dict(&process), entry = process_dict(&process);
	process_key(&process, state_dict, "state", by_parameter);
	process_key_by_object(&process, by_parameter, wrapper[0], entry);
	process_key(&process, entry, "exp_avg", wrapper[2]);
	gm_graph_refer(process.graph, tensor[0], tensor[1], GM_REF_GRAD, 0, 0);
	uint32_t frame = process_frame(&process);
	process_local(&process, frame, 0, model);
	process_local(&process, frame, 1, optimizer);
	process_local(&process, frame, 2, thing);
	process_ready(&process);
	assert_null(
	        gm_reach_create(process.graph, &(struct gm_reach_options){.host = true}, &reach));
	assert_part(reach, model, dict, GM_PART_INTERNAL_EDGE, NULL);
	assert_part(reach, dict, modules, GM_PART_INTERNAL_EDGE, NULL);
	assert_part(reach, modules, layer, GM_PART_MODULE, "layer");
	assert_part(reach, parameters, wrapper[0], GM_PART_PARAMETER, "weight");
	assert_part(reach, buffers, wrapper[1], GM_PART_BUFFER, "mean");
	assert_part(reach, thing_dict, not_modules, GM_PART_ATTRIBUTE, "_modules");
	assert_part(reach, not_modules, layer, GM_PART_KEY, "layer");
	assert_part(reach, state_dict, by_parameter, GM_PART_ATTRIBUTE, "state");
	assert_part(reach, by_parameter, entry, GM_PART_STATE, NULL);
	assert_int_equal(edge_to(reach, by_parameter, entry)->name, reach->local[wrapper[0]] + 1);
	assert_part(reach, by_parameter, wrapper[0], GM_PART_DICT_KEY, "");
	assert_part(reach, entry, wrapper[2], GM_PART_ENTRY, "exp_avg");
	assert_part(reach, tensor[0], tensor[1], GM_PART_GRAD, NULL);
	assert_part(reach, wrapper[0], tensor[0], GM_PART_INTERNAL_EDGE, NULL);
	gm_reach_destroy(reach);
	process_end(&process);
}

/* To delete a variable empties the cell, whoever has the cell. */
static void a_variable_that_functions_share_is_what_holds_the_cells_content(void **state)
{
	struct process process;
	struct gm_reach *reach;
	process_begin(&process);
	uint32_t storage = process_storage(&process, BLOCK, BLOCK_SIZE, GM_DEVICE_CPU);
	uint32_t tensor = process_wrapper(&process, process_tensor(&process, storage));
	uint32_t cell = process_cell(&process, tensor), list = process_list(&process);
	uint32_t other = process_cell(&process, tensor);
	process_item(&process, list, cell);
	process_item(&process, list, other);
	uint32_t frame = process_frame(&process);
	process_local(&process, frame, 0, cell);
	process_local(&process, frame, 1, list);
	process_ready(&process);
	assert_null(
	        gm_reach_create(process.graph, &(struct gm_reach_options){.host = true}, &reach));
	assert_null(edge_to(reach, list, cell));
	assert_non_null(edge_to(reach, list, other));
	assert_non_null(edge_to(reach, cell, tensor));
	gm_reach_destroy(reach);
	process_end(&process);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(what_reaches_a_block_is_what_a_plain_search_finds),
	        cmocka_unit_test(the_best_name_of_an_object_is_a_global_then_an_outer_functions),
	        cmocka_unit_test(a_modules_dicts_are_parts_by_what_they_are_for),
	        cmocka_unit_test(a_variable_that_functions_share_is_what_holds_the_cells_content),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
