/*
 * The current instruction: the names to which a byte offset in the bytecode refers.
 *
 * CPython moves the frame's instruction pointer at the start of each instruction (INSTRUCTION_START
 * in Python/ceval.c), and past the caches when it enters a Python function within the loop. A
 * superinstruction of 3.11 and 3.12 runs its second half without moving it. STORE_FAST__LOAD_FAST
 * can free only in its first half, the LOAD ones never; of STORE_FAST__STORE_FAST either half may
 * be running, and then both names are returned.
 */
#include <stdlib.h>

#include "cpython/python.h"

/*
 * The bytecode was copied when the code was first seen; since then CPython may have combined two
 * stores into one superinstruction. So the target is read, if the object still exists.
 */
static uint8_t opcode_now(struct gm_python *python, const struct gm_code_entry *entry,
        const struct gm_decoded *decoded)
{
	const struct gm_opcode *opcodes = python->opcodes;
	uint8_t unit[2];
	uint64_t address = entry->address + (uint64_t)python->layout.code_adaptive + decoded->start;

	if (python->version < 0x030b || opcodes[decoded->opcode].op != GM_OP_STORE_FAST ||
	        !entry->address /* recorded.c */)
		return decoded->opcode;
	if (!gm_image_try_read(python->image, address, unit, sizeof(unit)) ||
	        unit[1] != (uint8_t)decoded->argument ||
	        opcodes[unit[0]].base != opcodes[decoded->opcode].base)
		return decoded->opcode;
	return unit[0];
}

/* The offset of cells and free variables in localsplus of 3.9 and 3.10: after the locals. */
static const char *local_name(const struct gm_code_entry *entry, uint64_t index)
{
	return index < entry->code.local_count ? entry->code.local_names[index] : NULL;
}

/*
 * `except ... as e` ends with POP_EXCEPT, e = None, del e (Python/compile.c,
 * compiler_try_except()): the store releases the exception, and is not in the source.
 */
static bool ends_except(struct gm_python *python, const struct gm_code_entry *entry,
        const struct gm_decoded *decoded)
{
	const struct gm_opcode *opcodes = python->opcodes;
	uint32_t unit = decoded->start / 2, count = entry->bytecode_size / 2;
	enum gm_op removes;

	switch ((enum gm_op)opcodes[decoded->opcode].op) {
	case GM_OP_STORE_FAST:
		removes = GM_OP_DELETE_FAST;
		break;
	case GM_OP_STORE_NAME:
		removes = GM_OP_DELETE_NAME;
		break;
	case GM_OP_STORE_GLOBAL:
		removes = GM_OP_DELETE_GLOBAL;
		break;
	case GM_OP_STORE_DEREF:
		removes = GM_OP_DELETE_DEREF;
		break;
	default:
		return false;
	}
	/* none of these has caches */
	return !decoded->in_cache && unit >= 2 && unit + 1 < count &&
	       opcodes[entry->bytecode[2 * (unit + 1)]].op == removes &&
	       entry->bytecode[2 * (unit + 1) + 1] == (uint8_t)decoded->argument &&
	       opcodes[entry->bytecode[2 * (unit - 2)]].op == GM_OP_POP_EXCEPT;
}

void gm_python_instruction(struct gm_python *python, const struct gm_code *code, uint32_t lasti,
        struct gm_instruction *ret)
{
	struct gm_code_entry *entry = gm_py_entry_of(code);
	const struct gm_opcode *opcode;
	struct gm_decoded decoded;

	*ret = (struct gm_instruction){.op = GM_OP_OTHER, .line = gm_py_line_at(entry, lasti)};
	if (!gm_py_decode(entry, python->opcodes, lasti, &decoded))
		return;
	opcode = &python->opcodes[opcode_now(python, entry, &decoded)];
	ret->op = (enum gm_op)(decoded.in_cache ? opcode->returned : opcode->op);
	switch ((enum gm_opcode_argument)opcode->argument) {
	case GM_ARGUMENT_NONE:
		break;
	case GM_ARGUMENT_NAME:
		ret->name = gm_py_code_name_at(python, entry, decoded.argument);
		break;
	case GM_ARGUMENT_LOCAL:
		ret->name = local_name(entry, decoded.argument);
		break;
	case GM_ARGUMENT_DEREF:
		ret->name = local_name(entry, (uint64_t)entry->local_plain + decoded.argument);
		break;
	case GM_ARGUMENT_LOCAL_PAIR_FIRST:
		ret->name = local_name(entry, decoded.argument >> 4);
		break;
	case GM_ARGUMENT_LOCAL_PAIR_BOTH:
		ret->name = local_name(entry, decoded.argument >> 4);
		ret->other_name = local_name(entry, decoded.argument & 15);
		break;
	}
	if (ret->op == GM_OP_CALL || ret->op == GM_OP_POP_TOP)
		ret->name = gm_py_called_name(python, entry, &decoded);
	if (ends_except(python, entry, &decoded))
		ret->op = GM_OP_POP_EXCEPT;
	if (opcode->flags & GM_OPCODE_THEN_STORE && decoded.start + 3 < entry->bytecode_size)
		ret->other_name = local_name(entry, entry->bytecode[decoded.start + 3]);
}

static int64_t slot_named(const struct gm_code *code, const char *name)
{
	for (uint32_t i = 0; i < code->local_count; i++) {
		if (code->local_names[i] == name) /* the same string, not an equal one */
			return i;
	}
	return -1;
}

/*
 * Which of two stores is running. Both values were popped, but remain in the value stack's memory,
 * the first to be stored above the second (ceval.c, POP()). While the first store frees the old
 * object, the second slot does not have its new value yet.
 */
void gm_python_frame_instruction(
        struct gm_python *python, const struct gm_python_frame *frame, struct gm_instruction *ret)
{
	struct gm_code_entry *entry = gm_py_entry_of(frame->code);
	uint64_t values[2]; /* the second to be stored, then the first */
	int64_t second_slot;
	int depth;

	gm_python_instruction(python, frame->code, frame->lasti, ret);
	if (!ret->other_name || !ret->name)
		return;
	second_slot = slot_named(frame->code, ret->other_name);
	depth = gm_py_depth_at(python, entry, frame->lasti); /* with one value popped */
	if (second_slot < 0 || depth < 1 ||
	        !gm_image_try_read(python->image,
	                gm_py_slot_address(python, frame->address,
	                        frame->code->local_count + (uint64_t)depth - 1),
	                values, sizeof(values)))
		return;
	if (gm_python_local(python, frame, (uint32_t)second_slot) ==
	        gm_stackref_object(&python->layout, values[0]))
		ret->name = ret->other_name;
	ret->other_name = NULL;
}
