/*
 * What locating the interpreter reads from files, and the struct that CPython 3.13+ publishes about
 * itself.
 */
#ifndef GM_CPYTHON_LOCATE_H
#define GM_CPYTHON_LOCATE_H

#include <stdbool.h>
#include <stdint.h>

#include "image/image.h"

/* _Py_DebugOffsets of CPython 3.13 (Include/internal/pycore_runtime.h), up to what is used here. */
struct gm_debug_offsets {
	char cookie[8];   /* "xdebugpy" */
	uint64_t version; /* PY_VERSION_HEX */
	uint64_t free_threaded;
	uint64_t runtime_size, runtime_finalizing, runtime_interpreters_head;
	uint64_t interpreter_size, interpreter_id, interpreter_next, interpreter_threads,
	        interpreter_gc, interpreter_modules, interpreter_sysdict, interpreter_builtins,
	        interpreter_ceval_gil, interpreter_gil, interpreter_gil_enabled,
	        interpreter_gil_locked, interpreter_gil_holder;
	uint64_t thread_size, thread_prev, thread_next, thread_interpreter, thread_frame,
	        thread_ident, thread_native_id, thread_chunk, thread_status;
	uint64_t frame_size, frame_previous, frame_code, frame_instruction, frame_locals,
	        frame_owner;
};

/* "libpython3.10.so.1.0" -> 0x030a0000; 0 where a name tells nothing. */
unsigned long gm_python_version_of_name(const char *name, bool *ret_free_threaded);

/* The address in the file of a section; false: no such file or section. */
bool gm_python_find_section(
        const struct gm_image *image, const char *path, const char *section, uint64_t *ret_address);

/* The version string in a file's .rodata, as PY_VERSION_HEX without the release level; `minor_hex`
 * (0x030a, or 0 for any) is the version that the file's name told. 0: none found. */
unsigned long gm_python_version_in_file(
        const struct gm_image *image, const char *path, unsigned long minor_hex);

/* The same in bytes already at hand. */
unsigned long gm_python_version_in_bytes(const char *bytes, size_t size, unsigned long minor_hex);

#endif
