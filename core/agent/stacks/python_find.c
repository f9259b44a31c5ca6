/*
 * Finds CPython among what is loaded, and how its structs are laid out: by its version, and since 3.13 by what it
 * publishes itself.
 */
#include <stdlib.h>

#include "agent/stacks/inside.h"
#include "cpython/locate.h"

struct gm_stacks_python gm_stacks_python;

static const struct {
	int version;
	const struct gm_python_layout *layout;
} tables[] = {
        {0x0309, &gm_python_layout_309},
        {0x030a, &gm_python_layout_310},
        {0x030b, &gm_python_layout_311},
        {0x030c, &gm_python_layout_312},
        {0x030d, &gm_python_layout_313},
};

void gm_python_refuse(const char *why)
{
	gm_stacks_python.refused = true;
	gm_stacks_python.on = false;
	gm_agent_gap(why);
}

/* 3.13 publishes its own offsets: those the walk needs are put over the table's. */
static bool put_debug_offsets(struct gm_stacks_python *python)
{
	const struct gm_debug_offsets *own = (const void *)(uintptr_t)python->runtime;
	struct gm_python_layout *layout = &python->layout;

	if (!own || memcmp(own->cookie, "xdebugpy", 8))
		return true;
	if (own->free_threaded == 1)
		return false;
	const struct {
		uint64_t value;
		int32_t *field;
		uint64_t limit;
	} rows[] = {
	        {own->thread_interpreter, &layout->thread_interpreter, own->thread_size},
	        {own->thread_frame, &layout->thread_frame, own->thread_size},
	        {own->thread_ident, &layout->thread_ident, own->thread_size},
	        {own->frame_previous, &layout->frame_previous, own->frame_size},
	        {own->frame_code, &layout->frame_code, own->frame_size},
	        {own->frame_instruction, &layout->frame_instruction, own->frame_size},
	        {own->frame_locals, &layout->frame_localsplus, own->frame_size},
	        {own->frame_owner, &layout->frame_owner, own->frame_size},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].value >= rows[i].limit || rows[i].limit > 1 << 16)
			return true;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		*rows[i].field = (int32_t)rows[i].value;
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
	/* Python/getversion.c: writes a static buffer, always with the same text */
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
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (tables[i].version != python->version)
			continue;
		python->layout = *tables[i].layout;
		if (!python->code_type || !put_debug_offsets(python)) {
			gm_python_refuse(
			        "this build of CPython (free-threaded, or stripped) is not known: "
			        "events have no "
			        "Python stacks");
			return;
		}
		bool is_pointer = python->layout.frame_instruction != GM_NO_FIELD;
		python->instruction_at = (uint64_t)(is_pointer ? python->layout.frame_instruction
		                                               : python->layout.frame_lasti);
		python->instruction_mask = is_pointer ? UINT64_MAX : UINT32_MAX; /* int f_lasti */
		/* its number; before 3.12, as it has none, where its line table is */
		bool is_numbered = python->layout.code_version != GM_NO_FIELD;
		uint64_t shape_at = (uint64_t)(is_numbered ? python->layout.code_version
		                                           : python->layout.code_lines);
		python->shape_at = shape_at & ~UINT64_C(7);
		python->shape_mask =
		        is_numbered ? (uint64_t)UINT32_MAX << 8 * (shape_at & 7) : UINT64_MAX;
		python->this_thread = (void *(*)(void))(uintptr_t)this_thread;
		__atomic_store_n(&python->on, true, __ATOMIC_RELEASE);
		return;
	}
	gm_python_refuse(
	        "this version of CPython is not known (3.9 to 3.13 are): events have no Python "
	        "stacks");
}
