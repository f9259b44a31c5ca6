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
 *
 * So the code of a loop may be in several parts, and what follows the loop lies between them
 * (loop_bodies.c finds which code is in it).
 */
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "cpython/python.h"

static bool is_named(const struct gm_opcode *opcode, const char *name)
{
	return opcode->name && strcmp(opcode->name, name) == 0;
}

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

/* ---- whether a jump makes a loop ------------------------------------------------------------- */

struct search {
	struct gm_code_entry *entry;
	const struct gm_opcode *opcodes;
	int version;
	uint32_t count;     /* code units */
	uint32_t *handlers; /* of each code unit; NULL: not known, and each jump back is a loop */
	uint8_t *jumps;     /* of each unit: a jump of a loop begins there */
	uint8_t *seen;      /* per code unit */
	GM_ARRAY(uint32_t) todo;
	uint64_t left; /* instructions that may still be followed: damaged code takes no longer */
	bool failed;
	bool has_handlers; /* handlers were seen, or would not be recognized */
};

static void see(struct search *search, uint32_t unit)
{
	if (search->seen[unit])
		return;
	search->seen[unit] = 1;
	if (!gm_array_push(&search->todo, unit))
		search->failed = true;
}

static void see_next(struct search *search, uint32_t unit)
{
	uint32_t to[3];

	if (!search->left) {
		search->failed = true;
		return;
	}
	search->left--;
	for (size_t i = 0, count = gm_py_leads_to(search->entry, search->opcodes, search->version,
	                           search->handlers, unit, to);
	        i < count; i++)
		see(search, to[i]);
}

/* Whether `from` is reached from the start without `head` (byte offsets). */
static bool is_reached_without(struct search *search, uint32_t from, uint32_t head)
{
	const uint64_t cost = search->count / 8; /* of clearing `seen` */
	if (search->left < cost) {
		search->failed = true;
		return false;
	}
	search->left -= cost;
	memset(search->seen, 0, search->count);
	search->seen[head / 2] = 1;
	search->todo.count = 0;
	see(search, 0);
	while (search->todo.count && !search->failed && !search->seen[from / 2])
		see_next(search, search->todo.items[--search->todo.count]);
	return search->seen[from / 2] && !search->failed;
}

/* The compiler's entries are in order and do not overlap; what follows others is damage, and left
 * out. False: no memory. */
static bool read_handlers(struct search *search, const uint8_t *table, size_t size)
{
	uint32_t start, length, target, depth, end = 0;

	search->seen = malloc(search->count);
	search->handlers = malloc(search->count * sizeof(search->handlers[0]));
	search->jumps = calloc(search->count, 1);
	if (!search->seen || !search->handlers || !search->jumps)
		return false;
	memset(search->handlers, 0xff, search->count * sizeof(search->handlers[0]));
	for (size_t i = 0; i < size && gm_py_exception_next(table, size, &i, &start, &length,
	                                       &target, &depth);) {
		if (start < end || start >= search->count || length > search->count - start)
			break;
		for (end = start; end < start + length; end++)
			search->handlers[end] = target;
	}
	return true;
}

/* A jump with an EXTENDED_ARG is reached at that: `from` is the first of its units. */
static bool is_loop(struct search *search, uint32_t from, uint32_t head)
{
	return !search->handlers || head == 0 || !is_reached_without(search, from, head);
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
			if (loops[k].line != loops[i].line || loops[i].start >= loops[k].end ||
			        !loops[k].line_end != !loops[i].line_end)
				continue;
			if (loops[i].end > loops[k].end)
				loops[k].end = loops[i].end;
			if (loops[i].line_end > loops[k].line_end)
				loops[k].line_end = loops[i].line_end;
			merged = true;
		}
		if (!merged)
			loops[kept++] = loops[i];
	}
	entry->loops.count = kept;
}

/* ---- comprehensions -------------------------------------------------------------------------- */

/* How many values of the stack, all of them loops', are above the list, set or dict that an
 * instruction appends to; 0: it is none of a comprehension. In a display such as [*a, b] the list
 * is on top: argument 1. */
static uint32_t values_of_loops(const struct gm_opcode *opcode, uint32_t argument)
{
	static const char *const appends[] = {"LIST_APPEND", "SET_ADD", "MAP_ADD"};

	for (size_t i = 0; i < sizeof(appends) / sizeof(appends[0]); i++)
		if (is_named(opcode, appends[i]))
			return argument ? argument - 1 : 0;
	return 0;
}

/* The innermost loop around an instruction that is not marked yet. */
static struct gm_loop *innermost(struct gm_code_entry *entry, uint32_t at)
{
	struct gm_loop *found = NULL;

	for (size_t i = 0; i < entry->loops.count; i++) {
		struct gm_loop *loop = &entry->loops.items[i];
		if (at >= loop->start && at < loop->end && loop->line_end)
			found = loop; /* outer before inner */
	}
	return found;
}

/* Until 3.11 a comprehension has a code object of its own, with its name. */
static void mark_comprehensions(
        struct gm_code_entry *entry, const struct gm_opcode *opcodes, uint32_t loop_slots)
{
	struct gm_decoded at;

	for (uint32_t next = 0; gm_py_decode(entry, opcodes, next, &at);
	        next = 2 * gm_py_next_unit(opcodes, &at)) {
		struct gm_loop *loop;
		for (uint32_t left = values_of_loops(&opcodes[at.opcode], at.argument) / loop_slots;
		        left && (loop = innermost(entry, at.start)); left--)
			loop->line_end = 0;
	}
}

static bool find(struct gm_code_entry *entry, struct search *search)
{
	enum { MAX_LOOPS = 4096 };
	const struct gm_opcode *opcodes = search->opcodes;
	struct gm_decoded at;

	/* `first` is the first of an instruction's EXTENDED_ARGs */
	for (uint32_t first = 0, next; gm_py_decode(entry, opcodes, first, &at); first = next) {
		const struct gm_opcode *opcode = &opcodes[at.opcode];
		next = 2 * gm_py_next_unit(opcodes, &at);
		search->has_handlers |= is_named(opcode, "PUSH_EXC_INFO");
		uint32_t unit = gm_py_jump_target(
		        opcode, search->version, next / 2, at.argument, search->count);
		uint32_t target = unit == UINT32_MAX ? UINT32_MAX : 2 * unit;
		if (target > at.start || entry->loops.count >= MAX_LOOPS ||
		        (opcodes[entry->bytecode[target]].flags & GM_OPCODE_SEND) ||
		        !is_loop(search, first, target))
			continue;
		if (!add_jump(entry, target, at.start,
		            next < entry->bytecode_size ? next : entry->bytecode_size))
			return false;
		if (search->jumps)
			search->jumps[first / 2] = 1;
	}
	return true;
}

/* Each loop's end and lines. Without a table a loop is one part of the code; where that has
 * handlers, code that is not the loop's may be in it, such as copies of the end of a `with` around
 * the loop: its least line is not looked for then. */
static bool find_bodies(struct search *search)
{
	struct gm_code_entry *entry = search->entry;

	if (search->handlers)
		return gm_py_loop_bodies_find(
		        entry, search->opcodes, search->version, search->handlers, search->jumps);
	for (size_t k = 0; k < entry->loops.count; k++) {
		struct gm_loop *loop = &entry->loops.items[k];
		const struct gm_line_row *rows = entry->lines.items;
		size_t i = gm_partition_point(
		        entry->lines.count, middle, rows[middle].start < loop->start);
		for (; i < entry->lines.count && rows[i].start < loop->end && search->left; i++) {
			search->left--;
			if (!search->has_handlers || rows[i].line > loop->line)
				gm_py_loop_take_line(loop, rows[i].line);
		}
	}
	return true;
}

bool gm_py_loops_find(struct gm_code_entry *entry, int version, const struct gm_opcode *opcodes,
        int loop_slots, const uint8_t *exceptions, size_t exceptions_size)
{
	struct search search = {.entry = entry,
	        .opcodes = opcodes,
	        .version = version,
	        .count = entry->bytecode_size / 2,
	        .left = UINT64_C(256) * entry->bytecode_size,
	        .has_handlers = version < GM_HANDLERS_AT_THE_END};
	bool done = (!exceptions_size || version < GM_HANDLERS_AT_THE_END || !search.count ||
	                    read_handlers(&search, exceptions, exceptions_size)) &&
	            find(entry, &search) && find_bodies(&search);

	free(search.handlers);
	free(search.jumps);
	free(search.seen);
	gm_array_deinit(&search.todo);
	if (!done)
		return false;
	if (entry->loops.count) {
		qsort(entry->loops.items, entry->loops.count, sizeof(struct gm_loop), by_extent);
		if (version >= GM_COMPREHENSIONS_INLINED && loop_slots > 0)
			mark_comprehensions(entry, opcodes, (uint32_t)loop_slots);
		merge(entry);
	}
	entry->code.loops = entry->loops.items;
	entry->code.loop_count = (uint32_t)entry->loops.count;
	return true;
}
