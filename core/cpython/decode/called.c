/*
 * The called function, if the bytecode names it: `clear` of `kept.clear()`, `collect` of
 * `gc.collect()`. Only names of C functions that release references are returned; the object is not
 * examined.
 */
#include <string.h>

#include "cpython/python.h"

static const char *base_name(
        const struct gm_python *python, const struct gm_code_entry *entry, uint32_t unit)
{
	const char *name = python->opcodes[python->opcodes[entry->bytecode[2 * unit]].base].name;

	return name ? name : ""; /* no opcode has this number */
}

/* The instruction before the one that begins at `unit`; UINT32_MAX if there is none. */
static uint32_t before(const struct gm_code_entry *entry, uint32_t unit)
{
	return unit == 0 ? UINT32_MAX : unit - 1 - entry->units[unit - 1];
}

static uint32_t after(const struct gm_code_entry *entry, uint32_t unit)
{
	uint32_t count = entry->bytecode_size / 2;

	for (unit++; unit < count && entry->units[unit]; unit++)
		;
	return unit;
}

/* The number of stack values from the callable on, without arguments; 0: not a call with plain
 * arguments. */
static int call_slots(const char *name)
{
	static const struct {
		const char *name;
		int slots;
	} calls[] = {{"PRECALL", 2}, {"CALL", 2}, {"CALL_METHOD", 2}, {"CALL_FUNCTION", 1}};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(name, calls[i].name) == 0)
			return calls[i].slots;
	return 0;
}

static const char *loaded_name(struct gm_python *python, struct gm_code_entry *entry, uint32_t unit)
{
	struct gm_decoded load;
	const char *name = base_name(python, entry, unit);
	unsigned shift;

	if (!gm_py_decode(entry, python->opcodes, 2 * unit, &load))
		return NULL;
	/* the low bit: also push NULL (Python/bytecodes.c) */
	if (!strcmp(name, "LOAD_METHOD") || !strcmp(name, "LOAD_NAME"))
		shift = 0;
	else if (!strcmp(name, "LOAD_ATTR"))
		shift = python->version >= 0x030c;
	else if (!strcmp(name, "LOAD_GLOBAL"))
		shift = python->version >= 0x030b;
	else
		return NULL;
	return gm_py_code_name_at(python, entry, load.argument >> shift);
}

static bool may_release(const char *name)
{
	static const char *const names[] = {"pop", "clear", "popitem", "popleft", "remove",
	        "discard", "update", "append", "appendleft", "extend", "insert", "__delitem__",
	        "__setitem__", "delattr", "setattr", "__delattr__", "__setattr__", "collect",
	        "close", "cache_clear", "get", "get_nowait", "heappop", "heapreplace",
	        "heappushpop", "reset"};

	for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

const char *gm_py_called_name(
        struct gm_python *python, struct gm_code_entry *entry, const struct gm_decoded *decoded)
{
	uint32_t unit = decoded->start / 2;
	struct gm_decoded call;
	const char *name;
	int slots, loaded;

	/* a result that nobody used: of the previous call */
	if (python->opcodes[decoded->opcode].op == GM_OP_POP_TOP)
		unit = before(entry, unit);
	if (unit == UINT32_MAX || !(slots = call_slots(base_name(python, entry, unit))) ||
	        !gm_py_decode(entry, python->opcodes, 2 * unit, &call) ||
	        gm_py_depth_at(python, entry, call.start) < 0)
		return NULL;
	/* The callable was on the stack before its arguments: go back to the instruction that
	 * loaded it. */
	loaded = entry->depths[unit] - (int)call.argument;
	while ((unit = before(entry, unit)) != UINT32_MAX && entry->depths[unit] >= loaded)
		;
	/* an attribute replaces its object on the stack */
	for (uint32_t next = after(entry, unit);
	        next < call.start / 2 && entry->depths[next] == loaded &&
	        !strcmp(base_name(python, entry, next), "LOAD_ATTR");
	        next = after(entry, next))
		unit = next;
	/* 3.13 has the NULL above the callable */
	if (unit != UINT32_MAX && slots == 2 &&
	        !strcmp(base_name(python, entry, unit), "PUSH_NULL"))
		unit = before(entry, unit);
	name = unit != UINT32_MAX ? loaded_name(python, entry, unit) : NULL;
	return may_release(name) ? name : NULL;
}
