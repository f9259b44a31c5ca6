/*
 * The versions of CPython that are known: for each its structs, its opcodes, and what it publishes
 * about itself. All that differs between versions and is a table is found here and nowhere else; a
 * version that is not known has no entry.
 */
#ifndef GM_CPYTHON_VERSIONS_H
#define GM_CPYTHON_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "cpython/versions/layout.h"
#include "cpython/versions/opcodes.h"

struct gm_python_tables {
	int version; /* PY_VERSION_HEX >> 16 */
	const struct gm_python_layout *layout;
	const struct gm_opcode *opcodes;            /* 256 */
	const struct gm_published_field *published; /* ends with zeros */
	const struct gm_script_offsets *script;
};

/* NULL: the version is not known. */
const struct gm_python_tables *gm_python_tables_of(int version);
/* All of them, oldest first. */
const struct gm_python_tables *gm_python_tables_all(size_t *ret_count);
/* "3.9 to 3.15", for messages. */
#define GM_PYTHON_VERSIONS "3.9 to 3.15"

/*
 * The head of _Py_DebugOffsets, which 3.13 and later have at _PyRuntime, the same in all versions
 * (3.13: Include/internal/ pycore_runtime.h; 3.14+: pycore_debug_offsets.h). What follows it
 * differs: struct gm_published_field.
 */
struct gm_published_head {
	char cookie[8];   /* "xdebugpy" */
	uint64_t version; /* PY_VERSION_HEX */
	uint64_t free_threaded;
};

enum { GM_PUBLISHED_MOST = 1024 }; /* bytes of it that are examined */

/* Puts the offsets that a CPython publishes over those of its version's table: where they differ (a
 * build with other options) they come from the very binary. Absurd ones leave the layout as it is.
 * `bytes`: GM_PUBLISHED_MOST of them. */
void gm_python_put_published(const struct gm_python_tables *tables, struct gm_python_layout *layout,
        const uint8_t *bytes);

#endif
