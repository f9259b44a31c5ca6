/*
 * Instructions among code units: where each begins, its caches, and its argument. Decoding only;
 * the agent uses it too.
 */
#include <stdlib.h>

#include "cpython/python.h"

bool gm_py_units_mark(struct gm_code_entry *entry, const struct gm_opcode *opcodes)
{
	uint32_t count = entry->bytecode_size / 2;

	entry->units = calloc(count ? count : 1, 1);
	if (!entry->units)
		return false;
	/* Nothing in the code marks where instructions begin: caches can be recognized only from
	 * the start on. */
	for (uint32_t at = 0; at < count;) {
		uint8_t caches = opcodes[entry->bytecode[2 * at]].caches;
		for (uint8_t i = 0; i <= caches && at + i < count; i++)
			entry->units[at + i] = i;
		at += 1u + caches;
	}
	return true;
}

bool gm_py_decode(const struct gm_code_entry *entry, const struct gm_opcode *opcodes,
        uint32_t offset, struct gm_decoded *ret)
{
	uint32_t count = entry->bytecode_size / 2;
	uint32_t at = offset / 2;
	uint32_t argument = 0;
	bool in_cache;

	if (at >= count)
		return false;
	in_cache = entry->units[at] != 0;
	at -= entry->units[at];
	/* 3.9 and 3.10 stay at the EXTENDED_ARG while the instruction after it runs. */
	while (opcodes[entry->bytecode[2 * at]].flags & GM_OPCODE_EXTENDED && at + 1 < count)
		at++;
	for (uint32_t back = 3; back > 0; back--) {
		/* the EXTENDED_ARGs directly before it, outermost first */
		bool all = at >= back;
		for (uint32_t i = 1; all && i <= back; i++)
			all = opcodes[entry->bytecode[2 * (at - i)]].flags & GM_OPCODE_EXTENDED &&
			      entry->units[at - i] == 0;
		if (all)
			argument = argument << 8 | entry->bytecode[2 * (at - back) + 1];
	}
	*ret = (struct gm_decoded){2 * at, argument << 8 | entry->bytecode[2 * at + 1],
	        entry->bytecode[2 * at], in_cache};
	return true;
}

uint32_t gm_py_jump_target(const struct gm_opcode *opcode, int version, uint32_t next,
        uint32_t argument, uint32_t count)
{
	uint64_t target;

	if (version < 0x030a)
		argument /= 2; /* bytes */
	if (opcode->flags & GM_OPCODE_JUMP_BACK)
		target = (uint64_t)next - argument; /* huge, if it is before the code */
	else if (opcode->flags & GM_OPCODE_JUMP_ABSOLUTE)
		target = argument;
	else if (opcode->flags & GM_OPCODE_JUMP_FORWARD)
		target = (uint64_t)next + argument;
	else
		target = UINT64_MAX;
	/* Damaged code may end within the caches of its last instruction: then the next instruction
	 * is after its end. */
	return target < count ? (uint32_t)target : UINT32_MAX;
}

size_t gm_py_leads_to(const struct gm_code_entry *entry, const struct gm_opcode *opcodes,
        int version, const uint32_t *handlers, uint32_t unit, uint32_t ret_to[3])
{
	const uint32_t count = entry->bytecode_size / 2;
	struct gm_decoded at;
	size_t found = 0;

	if (!gm_py_decode(entry, opcodes, 2 * unit, &at))
		return 0;
	const struct gm_opcode *opcode = &opcodes[at.opcode];
	const uint32_t next = gm_py_next_unit(opcodes, &at);
	const uint32_t to[] = {
	        handlers[unit],
	        gm_py_jump_target(opcode, version, next, at.argument, count),
	        opcode->flags & GM_OPCODE_NO_NEXT ? UINT32_MAX : next,
	};
	for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++)
		if (to[i] < count)
			ret_to[found++] = to[i];
	return found;
}
