/*
 * Loops of the source, found from the backward jumps of the bytecode.
 *
 * Jumps to one head form one loop (`continue` and the loop's end). A `while` has its condition
 * compiled twice, before the loop and at its end, and so two heads: those overlap and have the same
 * line, and are merged. The inner loop of `await` and `yield from` (its head is SEND) is not a loop
 * of the source.
 *
 * Since 3.12 the code of exception handlers (of `with` too) is at the end, and jumps back to what
 * follows the statement. That is no loop: a loop's head is on every path to the jump, and a handler
 * is reached without what follows its statement. The handlers' places are in co_exceptiontable.
 */
#include <stdlib.h>
#include <string.h>

#include "cpython/python.h"

static uint32_t least_line(uint32_t a, uint32_t b)
{
	return !a || (b && b < a) ? b : a;
}

static bool add_jump(struct gm_code_entry *entry, uint32_t head, uint32_t from, uint32_t end)
{
	uint32_t line = least_line(gm_py_line_at(entry, head), gm_py_line_at(entry, from));

	for (size_t i = 0; i < entry->loops.count; i++) {
		struct gm_loop *loop = &entry->loops.items[i];
		if (loop->start != head)
			continue;
		if (end > loop->end)
			loop->end = end;
		loop->line = least_line(loop->line, line);
		return true;
	}
	return gm_array_push(&entry->loops, ((struct gm_loop){head, end, line, line}));
}

/* The target of a backward jump at `at`; at + 1 or more: it is not one. */
static uint32_t target_of(
        int version, const struct gm_opcode *opcode, const struct gm_decoded *at, uint32_t next)
{
	uint64_t argument = at->argument;

	if (opcode->flags & GM_OPCODE_JUMP_BACK)
		return argument * 2 <= next ? next - (uint32_t)argument * 2 : UINT32_MAX;
	if (opcode->flags & GM_OPCODE_JUMP_ABSOLUTE) {
		argument *= version >= 0x030a ? 2 : 1;
		return argument <= UINT32_MAX ? (uint32_t)argument : UINT32_MAX;
	}
	return UINT32_MAX;
}

/* ---- whether a jump makes a loop ------------------------------------------------------------- */

struct search {
	const struct gm_code_entry *entry;
	const struct gm_opcode *opcodes;
	int version;
	const uint8_t *exceptions;
	size_t exceptions_size;
	uint8_t *seen; /* per code unit */
	GM_ARRAY(uint32_t) todo;
	bool failed;
};

static void see(struct search *search, uint64_t unit)
{
	if (unit >= search->entry->bytecode_size / 2 || search->seen[unit])
		return;
	search->seen[unit] = 1;
	if (!gm_array_push(&search->todo, (uint32_t)unit))
		search->failed = true;
}

/* The handlers of the instructions of [unit, next). */
static void see_handlers(struct search *search, uint32_t unit, uint32_t next)
{
	for (size_t i = 0; i < search->exceptions_size;) {
		uint32_t start, length, target, depth;
		if (!gm_py_exception_next(search->exceptions, search->exceptions_size, &i, &start,
		            &length, &target, &depth))
			return;
		if (next > start && unit < (uint64_t)start + length)
			see(search, target);
	}
}

static void see_next(struct search *search, uint32_t unit)
{
	struct gm_decoded at;
	if (!gm_py_decode(search->entry, search->opcodes, 2 * unit, &at)) {
		search->failed = true;
		return;
	}
	const struct gm_opcode *opcode = &search->opcodes[at.opcode];
	uint32_t next = at.start / 2 + 1 + opcode->caches;
	see_handlers(search, unit, next);
	if (opcode->flags & GM_OPCODE_JUMP_BACK)
		see(search, at.argument <= next ? next - at.argument : UINT32_MAX);
	if (opcode->flags & GM_OPCODE_JUMP_FORWARD)
		see(search, (uint64_t)next + at.argument);
	if (!(opcode->flags & GM_OPCODE_NO_NEXT))
		see(search, next);
}

/* Whether `from` is reached from the start without `head` (byte offsets). */
static bool is_reached_without(struct search *search, uint32_t from, uint32_t head)
{
	memset(search->seen, 0, search->entry->bytecode_size / 2);
	search->seen[head / 2] = 1;
	search->todo.count = 0;
	see(search, 0);
	while (search->todo.count && !search->failed && !search->seen[from / 2])
		see_next(search, search->todo.items[--search->todo.count]);
	return search->seen[from / 2] && !search->failed;
}

/* A jump with an EXTENDED_ARG is reached at that: `from` is the first of its units. */
static bool is_loop(struct search *search, uint32_t from, uint32_t head)
{
	return !search->seen || head == 0 || !is_reached_without(search, from, head);
}

static int by_extent(const void *a, const void *b)
{
	const struct gm_loop *x = a;
	const struct gm_loop *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end > y->end ? -1 : x->end < y->end;
}

static void merge(struct gm_code_entry *entry)
{
	size_t kept = 0;
	struct gm_loop *loops = entry->loops.items;

	for (size_t i = 0; i < entry->loops.count; i++) {
		bool merged = false;
		for (size_t k = 0; k < kept && !merged; k++) {
			if (loops[k].line != loops[i].line || loops[i].start >= loops[k].end)
				continue;
			if (loops[i].end > loops[k].end)
				loops[k].end = loops[i].end;
			merged = true;
		}
		if (!merged)
			loops[kept++] = loops[i];
	}
	entry->loops.count = kept;
	for (size_t i = 0; i < entry->lines.count; i++) {
		const struct gm_line_row *row = &entry->lines.items[i];
		for (size_t k = 0; k < kept; k++) {
			if (row->start >= loops[k].start && row->start < loops[k].end &&
			        row->line > loops[k].line_end)
				loops[k].line_end = row->line;
		}
	}
}

static bool find(struct gm_code_entry *entry, struct search *search)
{
	enum { MAX_LOOPS = 4096 };
	const struct gm_opcode *opcodes = search->opcodes;
	uint32_t argument = 0, first = 0;

	for (uint32_t at = 0; at + 1 < entry->bytecode_size;) {
		const struct gm_opcode *opcode = &opcodes[entry->bytecode[at]];
		struct gm_decoded decoded = {
		        .start = at, .argument = argument << 8 | entry->bytecode[at + 1]};
		uint32_t next = at + 2 + 2u * opcode->caches;
		uint32_t target = target_of(search->version, opcode, &decoded, next);
		if (target <= at && target + 1 < entry->bytecode_size &&
		        entry->loops.count < MAX_LOOPS &&
		        !(opcodes[entry->bytecode[target]].flags & GM_OPCODE_SEND) &&
		        is_loop(search, first, target) &&
		        !add_jump(entry, target, at,
		                next < entry->bytecode_size ? next : entry->bytecode_size))
			return false;
		argument = opcode->flags & GM_OPCODE_EXTENDED ? decoded.argument : 0;
		at = next;
		if (!(opcode->flags & GM_OPCODE_EXTENDED))
			first = next;
	}
	return true;
}

bool gm_py_loops_find(struct gm_code_entry *entry, int version, const struct gm_opcode *opcodes,
        const uint8_t *exceptions, size_t exceptions_size)
{
	struct search search = {.entry = entry,
	        .opcodes = opcodes,
	        .version = version,
	        .exceptions = exceptions,
	        .exceptions_size = exceptions_size};

	if (exceptions_size && version >= GM_HANDLERS_AT_THE_END) {
		search.seen = malloc(entry->bytecode_size / 2 + 1u);
		if (!search.seen)
			return false;
	}
	bool done = find(entry, &search);
	free(search.seen);
	gm_array_deinit(&search.todo);
	if (!done)
		return false;
	if (entry->loops.count) {
		qsort(entry->loops.items, entry->loops.count, sizeof(struct gm_loop), by_extent);
		merge(entry);
	}
	entry->code.loops = entry->loops.items;
	entry->code.loop_count = (uint32_t)entry->loops.count;
	return true;
}
