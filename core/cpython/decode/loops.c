/*
 * Loops of the source, found from the backward jumps of the bytecode.
 *
 * Jumps to one head form one loop (`continue` and the loop's end). A `while` has its condition
 * compiled twice, before the loop and at its end, and so two heads: those overlap and have the same
 * line, and are merged. The inner loop of `await` and `yield from` (its head is SEND) is not a loop
 * of the source.
 */
#include <stdlib.h>

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

bool gm_py_loops_find(struct gm_code_entry *entry, int version, const struct gm_opcode *opcodes)
{
	enum { MAX_LOOPS = 4096 };
	uint32_t argument = 0;

	for (uint32_t at = 0; at + 1 < entry->bytecode_size;) {
		const struct gm_opcode *opcode = &opcodes[entry->bytecode[at]];
		struct gm_decoded decoded = {
		        .start = at, .argument = argument << 8 | entry->bytecode[at + 1]};
		uint32_t next = at + 2 + 2u * opcode->caches;
		uint32_t target = target_of(version, opcode, &decoded, next);
		if (target <= at && target + 1 < entry->bytecode_size &&
		        entry->loops.count < MAX_LOOPS &&
		        !(opcodes[entry->bytecode[target]].flags & GM_OPCODE_SEND) &&
		        !add_jump(entry, target, at,
		                next < entry->bytecode_size ? next : entry->bytecode_size))
			return false;
		argument = opcode->flags & GM_OPCODE_EXTENDED ? decoded.argument : 0;
		at = next;
	}
	if (entry->loops.count) {
		qsort(entry->loops.items, entry->loops.count, sizeof(struct gm_loop), by_extent);
		merge(entry);
	}
	entry->code.loops = entry->loops.items;
	entry->code.loop_count = (uint32_t)entry->loops.count;
	return true;
}
