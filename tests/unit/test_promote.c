/*
 * Which words become references, in thousands of random sets of words: those that a literal
 * implementation of the rule takes, and no others.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "holders/unattributed/unattributed.h"
#include "holders/unattributed/promote.h"
#include "random_process.h"

enum { TARGETS = 3, MOST_WORDS = 12 };

struct words {
	struct process process;
	uint32_t targets[TARGETS], owners[4];
	struct gm_unattributed_list unattributed_list;
};

static void make_word(struct words *words, struct random *random, size_t number)
{
	struct gm_native_owner *owner = gm_native_owner_create(
	        (struct gm_native_part){.form = GM_NATIVE_HEAP, .number = number});
	assert_non_null(owner);
	struct gm_unattributed unattributed = {
	        .vertex = words->targets[random_below(random, TARGETS)],
	        .address = 0x5000 + 8 * number,
	        .class = random_once_in(random, 5) ? GM_STALE : GM_PLAUSIBLE,
	        .kind = "native_heap",
	        .native = owner,
	        .sense = (enum gm_word_evidence)random_below(random, GM_WORD_READ + 1),
	        .words = 1 + random_once_in(random, 4),
	        .owner = (enum gm_owner_kind)random_below(random, GM_OWNER_FRAME + 1),
	        .owner_vertex = words->owners[random_below(random, 4)],
	        .owner_address = 0x9000 + 8 * (uint64_t)random_below(random, 3)};
	assert_true(gm_array_push(&words->unattributed_list.items, unattributed));
}

/* A storage, a tensor and a Python object, each with a few references that were found and some that
 * were not. */
static void make_words(struct words *words, struct random *random)
{
	struct process *process = &words->process;
	*words = (struct words){0};
	process_begin(process);
	words->targets[0] = process_storage(process, BLOCK, BLOCK_SIZE, GM_DEVICE_CPU);
	words->targets[1] = process_tensor(process, words->targets[0]);
	words->targets[2] = process_wrapper(process, words->targets[1]);
	for (int i = 0; i < 4; i++)
		words->owners[i] = i & 1 ? process_list(process) : process_node(process);
	for (uint32_t i = random_below(random, 3); i > 0; i--)
		process_item(process, words->owners[1], words->targets[2]);
	for (int t = 0; t < TARGETS; t++)
		process->uncounted[words->targets[t]] = random_below(random, 5);
	process_ready(process);
	for (size_t i = random_below(random, MOST_WORDS + 1); i > 0; i--)
		make_word(words, random, i);
}

static void end_words(struct words *words)
{
	gm_unattributed_list_deinit(&words->unattributed_list);
	process_end(&words->process);
}

static bool is_owned(const struct gm_unattributed *unattributed)
{
	return unattributed->owner == GM_OWNER_VERTEX || unattributed->owner == GM_OWNER_STATIC ||
	       unattributed->owner == GM_OWNER_CLASS || unattributed->owner == GM_OWNER_CALL;
}

/* The rule, one set of words after the other: what somebody owns; with what lies on stacks; what is
 * known by name; what was read. The first that has as many words as references are missing; but
 * what somebody owns without a name is no better than what lies on a stack. */
static bool of_set(int set, const struct gm_unattributed *unattributed)
{
	switch (set) {
	case 0:
		return is_owned(unattributed);
	case 1:
		return is_owned(unattributed) || unattributed->owner == GM_OWNER_STACK;
	case 2:
		return is_owned(unattributed) && unattributed->sense != GM_WORD_UNKNOWN;
	default:
		return is_owned(unattributed) && unattributed->sense == GM_WORD_READ;
	}
}

static bool is_candidate(const struct gm_unattributed *unattributed, uint32_t target)
{
	return unattributed->vertex == target && unattributed->class == GM_PLAUSIBLE;
}

static bool has_other_guess(const struct words *words, uint32_t target)
{
	bool unknown = false, on_stack = false;
	for (size_t i = 0; i < words->unattributed_list.items.count; i++) {
		const struct gm_unattributed *unattributed =
		        &words->unattributed_list.items.items[i];
		if (!is_candidate(unattributed, target))
			continue;
		unknown |= is_owned(unattributed) && unattributed->sense == GM_WORD_UNKNOWN;
		on_stack |= unattributed->owner == GM_OWNER_STACK;
	}
	return unknown && on_stack;
}

static int chosen_set(const struct words *words, uint32_t target)
{
	for (int set = 0; set < 4 && words->process.uncounted[target]; set++) {
		size_t count = 0;
		for (size_t i = 0; i < words->unattributed_list.items.count; i++) {
			const struct gm_unattributed *unattributed =
			        &words->unattributed_list.items.items[i];
			if (is_candidate(unattributed, target) && of_set(set, unattributed))
				count += unattributed->words;
		}
		if (count == words->process.uncounted[target] &&
		        !(set == 0 && has_other_guess(words, target)))
			return set;
	}
	return -1;
}

/* Edges from C++ to the target that have this word. */
static size_t edges_of(
        const struct gm_holders *graph, uint32_t target, const struct gm_unattributed *unattributed)
{
	const struct gm_vertex *vertex = &graph->vertices.items[target];
	size_t count = 0;
	for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++) {
		const struct gm_edge *edge = &graph->edges.items[e];
		if (edge->kind != GM_REF_NATIVE)
			continue;
		const struct gm_native *native = &graph->natives.items[edge->extra];
		const struct gm_vertex *from = &graph->vertices.items[edge->from];
		bool of_vertex = unattributed->owner == GM_OWNER_VERTEX;
		uint64_t owner = unattributed->owner == GM_OWNER_STACK
		                         ? unattributed->address
		                         : unattributed->owner_address;
		count += gm_native_owner_compare(native->owner, unattributed->native) == 0 &&
		         native->address == unattributed->address &&
		         native->inferred == (unattributed->sense == GM_WORD_UNKNOWN) &&
		         (of_vertex ? edge->from == unattributed->owner_vertex
		                    : from->kind == GM_VERTEX_NATIVE && from->address == owner);
	}
	return count;
}

static void check_target(uint64_t round, const struct words *words, uint32_t target,
        uint32_t before, size_t *promoted)
{
	const struct gm_holders *graph = words->process.graph;
	int set = chosen_set(words, target);
	size_t added = 0;
	for (size_t i = 0; i < words->unattributed_list.items.count; i++) {
		const struct gm_unattributed *unattributed =
		        &words->unattributed_list.items.items[i];
		bool chosen =
		        set >= 0 && is_candidate(unattributed, target) && of_set(set, unattributed);
		size_t expected = chosen ? unattributed->words : 0;
		check_in_round(round, edges_of(graph, target, unattributed) == expected);
		added += expected;
	}
	check_in_round(round, graph->vertices.items[target].count == before + added);
	*promoted += added;
}

static void words_become_references_where_there_are_as_many_as_are_missing(void **state)
{
	size_t sets[5] = {0};
	for (uint64_t round = 0; round < random_rounds(4000); round++) {
		struct random random = random_of_round(round);
		struct words words;
		uint32_t before[TARGETS];
		size_t expected = 0;
		make_words(&words, &random);
		struct gm_holders *graph = words.process.graph;
		for (int t = 0; t < TARGETS; t++)
			before[t] = graph->vertices.items[words.targets[t]].count;
		bool rebuild = true;
		size_t promoted = gm_graph_promote_candidates(
		        graph, words.targets, TARGETS, &words.unattributed_list, &rebuild);
		assert_false(graph->no_memory);
		assert_false(rebuild);
		for (int t = 0; t < TARGETS; t++) {
			check_target(round, &words, words.targets[t], before[t], &expected);
			sets[chosen_set(&words, words.targets[t]) + 1]++;
		}
		check_in_round(round, promoted == expected);
		end_words(&words);
	}
	for (int set = 0; set < 5; set++)
		assert_true(sets[set] > 50);
}

/* All on native stacks (or old operands of frames), and enough: the first ones, as many as are
 * missing. */
static void words_on_stacks_alone_are_a_functions_copies_of_one_reference(void **state)
{
	size_t taken_sets = 0;
	for (uint64_t round = 0; round < random_rounds(4000); round++) {
		struct random random = random_of_round(round);
		struct words words;
		uint32_t before[TARGETS];
		size_t expected = 0, most = 0;
		make_words(&words, &random);
		struct gm_holders *graph = words.process.graph;
		for (size_t i = 0; i < words.unattributed_list.items.count; i++)
			if (!random_once_in(&random, 8))
				words.unattributed_list.items.items[i].owner =
				        random_once_in(&random, 4) ? GM_OWNER_FRAME
				                                   : GM_OWNER_STACK;
		for (int t = 0; t < TARGETS; t++)
			before[t] = graph->vertices.items[words.targets[t]].count;
		size_t promoted = gm_graph_promote_stack_words(
		        graph, words.targets, TARGETS, &words.unattributed_list);
		for (int t = 0; t < TARGETS; t++) {
			uint32_t target = words.targets[t];
			size_t on_stacks = 0, others = 0, missing = words.process.uncounted[target];
			for (size_t i = 0; i < words.unattributed_list.items.count; i++) {
				const struct gm_unattributed *unattributed =
				        &words.unattributed_list.items.items[i];
				if (!is_candidate(unattributed, target))
					continue;
				on_stacks += unattributed->owner == GM_OWNER_STACK
				                     ? unattributed->words
				                     : 0;
				others += unattributed->owner != GM_OWNER_STACK &&
				          unattributed->owner != GM_OWNER_FRAME;
			}
			size_t takes = others == 0 && on_stacks >= missing ? missing : 0;
			expected += takes;
			most += missing;
			taken_sets += takes > 0;
			check_in_round(
			        round, graph->vertices.items[target].count == before[t] + takes);
			for (size_t i = 0; i < words.unattributed_list.items.count; i++) {
				const struct gm_unattributed *unattributed =
				        &words.unattributed_list.items.items[i];
				bool of = is_candidate(unattributed, target) &&
				          unattributed->owner == GM_OWNER_STACK;
				size_t part = !of                           ? 0
				              : unattributed->words < takes ? unattributed->words
				                                            : takes;
				check_in_round(
				        round, edges_of(graph, target, unattributed) == part);
				takes -= part;
			}
		}
		check_in_round(round, promoted == expected && promoted <= most);
		end_words(&words);
	}
	assert_true(taken_sets > 1000);
}

static void a_word_of_a_python_object_asks_for_the_objects_that_were_left_out(void **state)
{
	struct random random = random_of_round(1);
	struct words words;
	make_words(&words, &random);
	struct gm_holders *graph = words.process.graph;
	make_word(&words, &random, MOST_WORDS + 1);
	struct gm_unattributed *unattributed =
	        &words.unattributed_list.items.items[words.unattributed_list.items.count - 1];
	unattributed->owner = GM_OWNER_VERTEX;
	unattributed->owner_vertex = words.owners[1];
	graph->keep_all = false;
	size_t edges = graph->edges.count;
	bool rebuild = false;
	assert_int_equal(gm_graph_promote_candidates(
	                         graph, words.targets, TARGETS, &words.unattributed_list, &rebuild),
	        0);
	assert_true(rebuild);
	assert_int_equal(graph->edges.count, edges);
	end_words(&words);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(words_become_references_where_there_are_as_many_as_are_missing),
	        cmocka_unit_test(words_on_stacks_alone_are_a_functions_copies_of_one_reference),
	        cmocka_unit_test(a_word_of_a_python_object_asks_for_the_objects_that_were_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
