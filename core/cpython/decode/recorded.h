/*
 * Code objects that were written down, decoded without a process: what a log of the agent's is read
 * with. The handle answers gm_python_instruction() for such code, and nothing else.
 */
#ifndef GM_CPYTHON_RECORDED_H
#define GM_CPYTHON_RECORDED_H

#include "cpython/cpython.h"

struct gm_recorded_bytes {
	const uint8_t *at;
	size_t size;
};

/* A code object's parts, as CPython has them. Strings are UTF-8 and end with a NUL. */
struct gm_recorded_code {
	int version; /* PY_VERSION_HEX >> 16 */
	const char *file, *name;
	uint32_t first_line, flags, stack_size;
	struct gm_recorded_bytes bytecode, lines, exceptions;
	const char *const *locals; /* all of localsplus */
	const uint8_t *local_kinds;
	uint32_t local_count;
	const char *const *names; /* co_names */
	uint32_t name_count;
};

/* A decoder; code of one version at a time. GM_CORRUPT: a version without tables. */
struct gm_error *gm_python_recorded_open(int version, struct gm_python **ret_python);
void gm_python_recorded_close(struct gm_python *python);

/* Copies and decodes. The code is the handle's. */
struct gm_error *gm_python_recorded_code(struct gm_python *python,
        const struct gm_recorded_code *recorded, const struct gm_code **ret_code);
/* Where the iterator of the loop that begins at an offset lies, in values of the stack; -1: not
 * known. */
int gm_python_recorded_iterator(
        struct gm_python *python, const struct gm_code *code, uint32_t offset);

#endif
