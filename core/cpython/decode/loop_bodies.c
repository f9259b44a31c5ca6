/*
 * Which code is in a loop: the instructions from which a jump back to its head is reached without
 * passing the head (its natural loop: Aho, Lam, Sethi, Ullman, "Compilers", 9.6.6). An instruction
 * that an exception may leave leads to its handler too. Since CPython 3.12 handlers are at the end
 * of the code, behind what follows the loop.
 *
 * A loop is described by a range of offsets and a range of lines: what follows it and lies between
 * its parts has other lines (gm_loop_contains()).
 */
#include <stdlib.h>

#include "cpython/python.h"

struct bodies {
	struct gm_code_entry *entry;
	const struct gm_opcode *opcodes;
	int version;
	uint32_t count; /* code units */
	const uint32_t *handlers;
	const uint8_t *jumps;
	uint32_t *next; /* of each unit where an instruction begins: the one after it; else 0 */
	uint32_t *line; /* of each such unit; 0: none */
	/* What leads to a unit: from[first[unit]] to from[first[unit + 1]]. */
	uint32_t *first, *from;
	uint32_t *loop; /* of each unit: the last loop that it was found in, from 1 */
	GM_ARRAY(uint32_t) todo;
	/* Instructions that may still be followed: damaged code takes no longer. The compiler nests
	 * 20 loops at most, and each instruction is followed once for each. */
	uint64_t left;
};

static void find_instructions(struct bodies *bodies)
{
	struct gm_decoded at;

	for (uint32_t unit = 0; unit < bodies->count; unit = bodies->next[unit]) {
		if (!gm_py_decode(bodies->entry, bodies->opcodes, 2 * unit, &at))
			return;
		bodies->line[unit] = gm_py_line_at(bodies->entry, 2 * unit);
		bodies->next[unit] = gm_py_next_unit(bodies->opcodes, &at);
	}
}

/* Where the instruction that begins at a unit leads; to 0 units where none begins. */
static size_t follow(const struct bodies *bodies, uint32_t unit, uint32_t ret_to[3])
{
	return bodies->next[unit] ? gm_py_leads_to(bodies->entry, bodies->opcodes, bodies->version,
	                                    bodies->handlers, unit, ret_to)
	                          : 0;
}

static void find_edges(struct bodies *bodies)
{
	uint32_t to[3];

	/* Counted two places further on, so that filling them in makes first[unit + 1] the end. */
	for (uint32_t unit = 0; unit < bodies->count; unit++)
		for (size_t i = follow(bodies, unit, to); i-- > 0;)
			bodies->first[to[i] + 2]++;
	for (uint32_t unit = 2; unit < bodies->count + 2; unit++)
		bodies->first[unit] += bodies->first[unit - 1];
	for (uint32_t unit = 0; unit < bodies->count; unit++)
		for (size_t i = follow(bodies, unit, to); i-- > 0;)
			bodies->from[bodies->first[to[i] + 1]++] = unit;
}

/* Takes in what leads to a unit. False: no memory. */
static bool see_before(struct bodies *bodies, uint32_t unit, uint32_t loop, bool jumps_only)
{
	for (uint32_t i = bodies->first[unit]; i < bodies->first[unit + 1]; i++) {
		uint32_t from = bodies->from[i];
		if (bodies->loop[from] == loop || (jumps_only && !bodies->jumps[from]))
			continue;
		bodies->loop[from] = loop;
		if (!gm_array_push(&bodies->todo, from))
			return false;
	}
	return true;
}

static bool find_body(struct bodies *bodies, struct gm_loop *loop, uint32_t number)
{
	const uint32_t head = loop->start / 2;

	bodies->todo.count = 0;
	if (!see_before(bodies, head, number, true))
		return false;
	bodies->loop[head] = number;
	while (bodies->todo.count && bodies->left) {
		uint32_t unit = bodies->todo.items[--bodies->todo.count];
		bodies->left--;
		gm_py_loop_take_line(loop, bodies->line[unit]);
		if (2 * bodies->next[unit] > loop->end && bodies->next[unit] <= bodies->count)
			loop->end = 2 * bodies->next[unit];
		if (unit != head && !see_before(bodies, unit, number, false))
			return false;
	}
	return true;
}

bool gm_py_loop_bodies_find(struct gm_code_entry *entry, const struct gm_opcode *opcodes,
        int version, const uint32_t *handlers, const uint8_t *jumps)
{
	struct bodies bodies = {.entry = entry,
	        .opcodes = opcodes,
	        .version = version,
	        .count = entry->bytecode_size / 2,
	        .handlers = handlers,
	        .jumps = jumps,
	        .left = UINT64_C(32) * entry->bytecode_size};
	bodies.line = calloc(bodies.count + 1u, sizeof(bodies.line[0]));
	bodies.next = calloc(bodies.count + 1u, sizeof(bodies.next[0]));
	bodies.first = calloc(bodies.count + 2u, sizeof(bodies.first[0]));
	bodies.from = calloc(3u * bodies.count + 1u, sizeof(bodies.from[0]));
	bodies.loop = calloc(bodies.count + 1u, sizeof(bodies.loop[0]));
	bool done = bodies.line && bodies.next && bodies.first && bodies.from && bodies.loop;
	if (done) {
		find_instructions(&bodies);
		find_edges(&bodies);
	}
	for (uint32_t i = 0; done && i < entry->loops.count; i++)
		done = find_body(&bodies, &entry->loops.items[i], i + 1);
	free(bodies.line);
	free(bodies.next);
	free(bodies.first);
	free(bodies.from);
	free(bodies.loop);
	gm_array_deinit(&bodies.todo);
	return done;
}
