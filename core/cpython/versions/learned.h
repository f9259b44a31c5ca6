/*
 * A row for a CPython that has no table, learned from the interpreter itself by a probe
 * (core/learn/python). It is text, from the probe or from a saved file, and both are untrusted: an
 * invalid line is refused, and so is a row with which the readers of this room would read out of
 * bounds.
 *
 * This file checks only that a row is complete and plausible. core/learn verifies it on the live
 * probe.
 */
#ifndef GM_CPYTHON_LEARNED_H
#define GM_CPYTHON_LEARNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpython/versions/versions.h"

enum { GM_LEARNED_NAME = 48, GM_LEARNED_ID = 32 /* as in struct gm_module */ };

struct gm_python_learned {
	struct gm_python_tables tables; /* leads into the rest: do not copy the struct */
	struct gm_python_layout layout;
	struct gm_opcode opcodes[256];
	char names[256][GM_LEARNED_NAME];
	uint8_t id[GM_LEARNED_ID]; /* the build that it belongs to */
	uint32_t id_size;
	unsigned long hex; /* PY_VERSION_HEX */
	long looked_for;   /* fields that the gpumem which learned it looked for; 0: it does not say
	                    */
	struct gm_python_learned *next;
};

/* Nothing is known yet. */
void gm_python_learned_init(struct gm_python_learned *learned);
/*
 * Takes one line, without its end:
 *   hexversion NUMBER
 *   build HEXADECIMAL
 *   fields NUMBER
 *   field NAME OFFSET
 *   opcode NUMBER NAME OP RETURNED ARGUMENT BASE CACHES FLAGS|- FORM CONSTANT SLOPE
 *          FORM CONSTANT SLOPE
 *
 * Returns NULL, or why it is refused. Lines of other kinds say nothing here.
 */
const char *gm_python_learned_line(struct gm_python_learned *learned, const char *line);
/* Is the row whole, of the form of the versions that the code knows, and within the bounds of those
 * who read by it? NULL, or why not; `ret_field` (never NULL) is then the field that it is about,
 * NULL: none. */
const char *gm_python_learned_check(struct gm_python_learned *learned, const char **ret_field);

/*
 * Rows that this process has, one per build; they are kept until it ends. A row of a build that has
 * one is destroyed.
 */
void gm_python_learned_keep(struct gm_python_learned *learned);
/* NULL: there is none. */
const struct gm_python_tables *gm_python_learned_of_build(const uint8_t *id, size_t id_size);
/* Of any build of that version: for its opcodes. */
const struct gm_python_tables *gm_python_learned_of_version(int version);

/* --- files (not in the agent) --- */

struct gm_error;
/* The section of a CPython in a file's text, whole and checked. NULL: it has none. The caller frees
 * it. GM_CORRUPT: names the path, the line or field, and why it is refused. */
struct gm_error *gm_python_learned_parse(
        const char *path, const char *text, size_t size, struct gm_python_learned **ret_learned);
/* The section of a row, for gm_layouts_save(). The caller frees it. */
struct gm_error *gm_python_learned_text(const struct gm_python_learned *learned, char **ret_text);
/* Keeps a row for later processes as well, under its build. *ret_path: the file, which the caller
 * frees. */
struct gm_error *gm_python_learned_save(const struct gm_python_learned *learned, char **ret_path);
/* The row of a build: one that this process has, of the file `layouts` (may be NULL), or one that
 * was kept. NULL: none, or what was kept is of a gpumem that looked for other fields: it is to be
 * learned again. */
struct gm_error *gm_python_learned_find(const uint8_t *id, size_t id_size, const char *layouts,
        const struct gm_python_tables **ret_tables);

/* The fields of struct gm_python_layout by name: for whoever writes a row, or moves its fields in a
 * test. NULL: the end. */
const char *gm_python_field_name(size_t index);
int32_t *gm_python_field(struct gm_python_layout *layout, size_t index);
/* Writes an opcode as a line, without "opcode "; false: there is none of that number, or no
 * room. */
bool gm_python_opcode_line(
        const struct gm_python_tables *tables, uint8_t number, char *ret_line, size_t size);

#endif
