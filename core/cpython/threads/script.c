/*
 * Where CPython 3.14 and later accepts a script from a debugger (PEP 768), according to its own
 * _Py_DebugOffsets (Include/internal/pycore_debug_offsets.h, debugger_support). Writing there
 * changes the program, so everything is checked: offsets must be within their structs, and must
 * agree with the headers of the version.
 *
 * Only the main thread's state is returned: it is part of the main interpreter's, which is static
 * data of the library. States of other threads are freed when these end, and a write from outside
 * could come later.
 */
#include <string.h>

#include "cpython/python.h"

enum { STRUCT_MOST = 8 << 20, PATH_LEAST = 64 };

static uint64_t word(const uint8_t *published, uint16_t at)
{
	uint64_t value;
	memcpy(&value, published + at, sizeof(value));
	return value;
}

static bool lies_within(uint64_t offset, uint64_t size, uint64_t struct_size)
{
	return struct_size <= STRUCT_MOST && offset < struct_size && size <= struct_size - offset;
}

/* The offsets that it publishes; false: they do not match its version. */
struct offsets {
	uint64_t interpreter_size, main_thread, enabled, thread_size, breaker, support, pending,
	        path, path_size;
};

static bool read_offsets(
        const uint8_t *published, const struct gm_script_offsets *row, struct offsets *ret_offsets)
{
	const struct offsets own = {
	        .interpreter_size = word(published, row->at_interpreter_size),
	        .main_thread = word(published, row->at_main_thread),
	        .enabled = word(published, row->at_enabled),
	        .thread_size = word(published, row->at_thread_size),
	        .breaker = word(published, row->at_breaker),
	        .support = word(published, row->at_support),
	        .pending = word(published, row->at_pending),
	        .path = word(published, row->at_path),
	        .path_size = word(published, row->at_path_size),
	};
	*ret_offsets = own;
	return own.pending == (uint64_t)row->pending && own.path == (uint64_t)row->path &&
	       own.path_size == (uint64_t)row->path_size && own.path_size >= PATH_LEAST &&
	       lies_within(own.main_thread, 8, own.interpreter_size) &&
	       lies_within(own.enabled, 4, own.interpreter_size) &&
	       lies_within(own.breaker, 8, own.thread_size) && own.breaker % 8 == 0 &&
	       lies_within(own.support, own.path + own.path_size, own.thread_size) &&
	       own.support % 4 == 0;
}

enum gm_python_takes gm_python_takes_script(
        struct gm_python *python, struct gm_python_script_place *ret_place)
{
	const struct gm_python_layout *layout = &python->layout;
	const struct gm_python_tables *tables = gm_python_tables_of(python->version);
	const struct gm_script_offsets *row = tables ? tables->script : NULL;
	uint8_t published[GM_PUBLISHED_MOST];
	struct offsets own;
	uint32_t enabled, pending;
	if (!row || !row->at_support)
		return GM_TAKES_NONE;
	if (!gm_image_try_read(python->image, python->runtime, published, sizeof(published)) ||
	        memcmp(published, "xdebugpy", 8) != 0 || !read_offsets(published, row, &own))
		return GM_TAKES_UNKNOWN;
	uint64_t interpreter =
	        gm_py_field(python, python->runtime, layout->runtime_interpreters_head);
	/* new interpreters come before older ones: the last is the main one */
	for (int i = 0; i < GM_MAX_INTERPRETERS; i++) {
		uint64_t next = gm_py_field(python, interpreter, layout->interpreter_next);
		if (!next)
			break;
		interpreter = next;
	}
	uint64_t thread = 0, owner = 0;
	if (!gm_py_u64(python, interpreter + own.main_thread, &thread) ||
	        !gm_image_try_u32(python->image, interpreter + own.enabled, &enabled))
		return GM_TAKES_UNKNOWN;
	if (enabled != 1)
		return enabled == 0 ? GM_TAKES_NONE_OFF : GM_TAKES_UNKNOWN;
	/* in a child that another thread forked it is that thread's, which may end */
	if (thread < interpreter ||
	        !lies_within(thread - interpreter, own.thread_size, own.interpreter_size) ||
	        !gm_py_u64(python, thread + (uint64_t)layout->thread_interpreter, &owner) ||
	        owner != interpreter ||
	        !gm_image_try_u32(python->image, thread + own.support + own.pending, &pending) ||
	        pending > 1)
		return GM_TAKES_UNKNOWN;
	*ret_place = (struct gm_python_script_place){
	        .pending = thread + own.support + own.pending,
	        .path = thread + own.support + own.path,
	        .path_size = own.path_size,
	        .breaker = thread + own.breaker,
	        .stop = (uint8_t)row->stop,
	        .harmless = (uint8_t)row->harmless,
	};
	return GM_TAKES_SCRIPTS;
}
