/*
 * The number of values on a frame's value stack at an instruction.
 *
 * A running frame keeps its stack pointer in a register. But in the compiler's code the depth at
 * each instruction is always the same. So it is followed through the bytecode once, from the start
 * and from each exception handler (in 3.11+ its depth is in co_exceptiontable,
 * Objects/exception_handling_notes.txt). If two paths to an instruction disagree, nothing is known
 * about the code.
 */
#include <stdlib.h>

#include "cpython/python.h"

enum { NOT_REACHED = -1, MAX_DEPTH = 30000 };

struct follow {
	const struct gm_opcode *opcodes;
	struct gm_code_entry *entry;
	int version;
	uint32_t count; /* code units */
	GM_ARRAY(uint32_t) todo;
	bool failed;
};

static int effect_of(const struct gm_effect *effect, uint32_t argument, bool *ret_known)
{
	int64_t term = 0;

	switch ((enum gm_effect_form)effect->form) {
	case GM_EFFECT_UNKNOWN:
		*ret_known = false;
		return 0;
	case GM_EFFECT_CONSTANT:
		break;
	case GM_EFFECT_ARGUMENT:
		term = argument;
		break;
	case GM_EFFECT_BIT_0:
		term = argument & 1;
		break;
	case GM_EFFECT_BIT_2:
		term = argument >> 2 & 1;
		break;
	case GM_EFFECT_IS_3:
		term = argument == 3;
		break;
	case GM_EFFECT_BITS:
		term = __builtin_popcount(argument & 15);
		break;
	case GM_EFFECT_BYTES:
		term = (argument & 0xff) + (argument >> 8);
		break;
	}
	term = effect->constant + effect->slope * term;
	if (term > MAX_DEPTH || term < -MAX_DEPTH)
		*ret_known = false;
	return *ret_known ? (int)term : 0;
}

static void reach(struct follow *follow, uint32_t unit, int depth)
{
	int16_t *known = &follow->entry->depths[unit];

	if (*known == depth)
		return;
	if (*known != NOT_REACHED || depth < 0 || (uint32_t)depth > follow->entry->stack_size ||
	        !gm_array_push(&follow->todo, unit)) {
		follow->failed = true;
		return;
	}
	*known = (int16_t)depth;
}

static void follow_one(struct follow *follow, uint32_t unit)
{
	const struct gm_code_entry *entry = follow->entry;
	const struct gm_opcode *opcode;
	struct gm_decoded at;
	int depth = entry->depths[unit];
	uint32_t next;
	bool known = true;
	int effect;

	if (entry->units[unit] != 0 || !gm_py_decode(entry, follow->opcodes, 2 * unit, &at)) {
		follow->failed = true;
		return;
	}
	/* decoding continues from an EXTENDED_ARG to its instruction */
	opcode = &follow->opcodes[at.opcode];
	next = gm_py_next_unit(follow->opcodes, &at);
	if (opcode->flags &
	        (GM_OPCODE_JUMP_BACK | GM_OPCODE_JUMP_ABSOLUTE | GM_OPCODE_JUMP_FORWARD)) {
		uint32_t target = gm_py_jump_target(
		        opcode, follow->version, next, at.argument, follow->count);
		effect = effect_of(&opcode->jump, at.argument, &known);
		if (!known || target == UINT32_MAX)
			follow->failed = true;
		else
			reach(follow, target, depth + effect);
	}
	for (uint32_t i = unit; i <= at.start / 2; i++) /* its EXTENDED_ARGs have its depth */
		follow->entry->depths[i] = (int16_t)depth;
	if (opcode->flags & GM_OPCODE_NO_NEXT || next >= follow->count)
		return;
	effect = effect_of(&opcode->next, at.argument, &known);
	if (!known)
		follow->failed = true;
	else
		reach(follow, next, depth + effect);
}

static void follow_all(struct follow *follow)
{
	while (follow->todo.count && !follow->failed)
		follow_one(follow, follow->todo.items[--follow->todo.count]);
}

static void follow_handlers(struct follow *follow, const uint8_t *table, size_t size)
{
	for (size_t i = 0; i < size && !follow->failed;) {
		uint32_t start;
		uint32_t length;
		uint32_t target;
		uint32_t depth;
		if (!gm_py_exception_next(table, size, &i, &start, &length, &target, &depth) ||
		        target >= follow->count || depth >> 1 > MAX_DEPTH) {
			follow->failed = true;
			return;
		}
		/* the exception is pushed, and before it the instruction's offset if the low bit is
		 * set */
		reach(follow, target, (int)(depth >> 1) + (int)(depth & 1) + 1);
		follow_all(follow);
	}
}

bool gm_py_depths_find(struct gm_code_entry *entry, int version, const struct gm_opcode *opcodes,
        const uint8_t *exceptions, size_t exceptions_size)
{
	struct follow follow = {opcodes, entry, version, entry->bytecode_size / 2, {0}, false};

	if (!follow.count)
		return false;
	entry->depths = malloc(follow.count * sizeof(entry->depths[0]));
	if (!entry->depths)
		return false;
	for (uint32_t i = 0; i < follow.count; i++)
		entry->depths[i] = NOT_REACHED;
	reach(&follow, 0, 0);
	follow_all(&follow);
	follow_handlers(&follow, exceptions, exceptions_size);
	gm_array_deinit(&follow.todo);
	if (follow.failed) {
		free(entry->depths);
		entry->depths = NULL;
	}
	return !follow.failed;
}

int gm_py_depth_at(struct gm_python *python, struct gm_code_entry *entry, uint32_t offset)
{
	const struct gm_python_layout *layout = &python->layout;
	_cleanup_free_ uint8_t *exceptions = NULL;
	size_t size = 0;
	struct gm_decoded at;
	int depth;

	if (!entry->depths_sought) {
		entry->depths_sought = true;
		if (layout->code_exceptions != GM_NO_FIELD)
			exceptions = gm_py_bytes(
			        python, gm_u64_at(entry->key, layout->code_exceptions), &size);
		gm_py_depths_find(entry, python->version, python->opcodes, exceptions, size);
	}
	if (!entry->depths || !gm_py_decode(entry, python->opcodes, offset, &at))
		return -1;
	depth = entry->depths[at.start / 2];
	switch ((enum gm_op)python->opcodes[at.opcode].op) {
	case GM_OP_STORE_FAST:
	case GM_OP_STORE_NAME:
	case GM_OP_STORE_GLOBAL:
	case GM_OP_STORE_DEREF:
	case GM_OP_POP_TOP:
		return depth - 1; /* popped before anything can be released */
	default:
		return depth; /* operands stay until it is done */
	}
}
