/*
 * Finds CPython among the loaded files, and the layout of its structs: by its version, and since
 * 3.13 from the offsets that it publishes.
 */
#include <stdlib.h>

#include "agent/stacks/inside.h"
#include "agent/gap.h"

struct gm_stacks_python gm_stacks_python;

void gm_python_refuse(const char *why)
{
	gm_stacks_python.refused = true;
	gm_stacks_python.on = false;
	gm_agent_gap(why);
}

/* False: a build that cannot be read. */
static bool use_tables(struct gm_stacks_python *python, const struct gm_python_tables *tables)
{
	const struct gm_published_head *own = (const void *)(uintptr_t)python->runtime;

	python->layout = *tables->layout;
	python->opcodes = tables->opcodes;
	python->code_mask = ~(uint64_t)tables->layout->stackref_tags;
	if (!own || python->version < 0x030d || memcmp(own->cookie, "xdebugpy", 8) != 0)
		return true;
	if (own->free_threaded == 1)
		return false;
	gm_python_put_published(tables, &python->layout, (const uint8_t *)own);
	return true;
}

static int version_here(void)
{
	/* unsigned long Py_Version, 3.11+ (Include/pylifecycle.h) */
	uint64_t address = gm_module_symbol("Py_Version");
	const char *(*get_version)(void);
	const char *text;
	long minor;

	if (address)
		return (int)(gm_load(address) >> 16);
	/* Python/getversion.c: writes to a static buffer, always the same text */
	get_version = (const char *(*)(void))(uintptr_t)gm_module_symbol("Py_GetVersion");
	text = get_version ? get_version() : "";
	if (text[0] != '3' || text[1] != '.')
		return 0;
	minor = strtol(text + 2, NULL, 10);
	return minor >= 0 && minor < 256 ? 0x0300 | (int)minor : 0;
}

void gm_python_seek(void)
{
	struct gm_stacks_python *python = &gm_stacks_python;
	static const char *const iterators[] = {
	        "PyRangeIter_Type", "PyListIter_Type", "PyTupleIter_Type", "PyEnum_Type"};
	static const char *const generators[] = {"PyGen_Type", "PyCoro_Type", "PyAsyncGen_Type"};
	uint64_t this_thread;

	if (python->on || python->refused)
		return;
	this_thread = gm_module_symbol("PyGILState_GetThisThreadState");
	if (!this_thread)
		return;
	python->version = version_here();
	python->runtime = gm_module_symbol("_PyRuntime");
	python->code_type = gm_module_symbol("PyCode_Type");
	for (size_t i = 0; i < 4; i++)
		python->iterator_types[i] = gm_module_symbol(iterators[i]);
	for (size_t i = 0; i < 3; i++)
		python->generator_types[i] = gm_module_symbol(generators[i]);
	const struct gm_python_tables *tables = gm_python_tables_of(python->version);
	if (!tables) {
		gm_python_refuse("this version of CPython is not known (" GM_PYTHON_VERSIONS
		                 " are): events have no Python stacks");
		return;
	}
	if (!python->code_type || !use_tables(python, tables)) {
		gm_python_refuse("this build of CPython (free-threaded, or stripped) is not known: "
		                 "events have no Python stacks");
		return;
	}
	bool is_pointer = python->layout.frame_instruction != GM_NO_FIELD;
	python->instruction_at = (uint64_t)(is_pointer ? python->layout.frame_instruction
	                                               : python->layout.frame_lasti);
	python->instruction_mask = is_pointer ? UINT64_MAX : UINT32_MAX; /* int f_lasti */
	/* its number; before 3.12 there is none, and the address of its line table is used */
	bool is_numbered = python->layout.code_version != GM_NO_FIELD;
	uint64_t shape_at =
	        (uint64_t)(is_numbered ? python->layout.code_version : python->layout.code_lines);
	python->shape_at = shape_at & ~UINT64_C(7);
	python->shape_mask = is_numbered ? (uint64_t)UINT32_MAX << 8 * (shape_at & 7) : UINT64_MAX;
	python->this_thread = (void *(*)(void))(uintptr_t)this_thread;
	__atomic_store_n(&python->on, true, __ATOMIC_RELEASE);
}
