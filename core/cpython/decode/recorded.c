#include "cpython/decode/recorded.h"

#include <string.h>

#include "cpython/python.h"

struct gm_error *gm_python_recorded_open(int version, struct gm_python **ret_python)
{
	const struct gm_python_tables *tables = gm_python_tables_of(version);
	if (!tables)
		return gm_error_create(GM_CORRUPT,
		        "Python %d.%d: gpumem has no table of its instructions: lines and "
		        "operations are missing",
		        version >> 8, version & 0xff);
	struct gm_python *python = calloc(1, sizeof(*python));
	if (!python)
		return &gm_error_no_memory;
	gm_py_use_tables(python, tables);
	*ret_python = python;
	return NULL;
}

void gm_python_recorded_close(struct gm_python *python)
{
	if (!python)
		return;
	for (size_t i = 0; i < GM_CODE_BUCKETS; i++) {
		while (python->codes[i]) {
			struct gm_code_entry *entry = python->codes[i];
			python->codes[i] = entry->next;
			gm_py_code_destroy(entry);
		}
	}
	free(python);
}

static char **copy_strings(const char *const *strings, uint32_t count)
{
	char **copies = calloc(count + 1u, sizeof(*copies));
	bool good = copies != NULL;
	for (uint32_t i = 0; good && i < count; i++) {
		copies[i] = strdup(strings[i]);
		good = copies[i] != NULL;
	}
	if (good)
		return copies;
	for (uint32_t i = 0; copies && i < count; i++)
		free(copies[i]);
	free(copies);
	return NULL;
}

static bool fill(struct gm_python *python, struct gm_code_entry *entry,
        const struct gm_recorded_code *recorded)
{
	struct gm_code *code = &entry->code;
	code->file = strdup(recorded->file);
	code->name = strdup(recorded->name);
	code->first_line = recorded->first_line;
	code->local_names =
	        (const char *const *)copy_strings(recorded->locals, recorded->local_count);
	code->local_count = code->local_names ? recorded->local_count : 0;
	uint8_t *kinds = malloc(recorded->local_count + 1u);
	code->local_kinds = kinds;
	entry->bytecode_size = (uint32_t)recorded->bytecode.size & ~1u;
	entry->bytecode = malloc(recorded->bytecode.size + 1);
	entry->name_cache = copy_strings(recorded->names, recorded->name_count);
	entry->name_count = entry->name_cache ? recorded->name_count : 0;
	entry->stack_size = recorded->stack_size;
	if (!code->file || !code->name || !code->local_names || !kinds || !entry->bytecode ||
	        !entry->name_cache)
		return false;
	if (recorded->local_count)
		memcpy(kinds, recorded->local_kinds, recorded->local_count);
	if (recorded->bytecode.size)
		memcpy(entry->bytecode, recorded->bytecode.at, recorded->bytecode.size);
	/* 3.9, 3.10: names of cells are counted from the end of the plain locals */
	while (entry->local_plain < code->local_count && kinds[entry->local_plain] & 0x20 &&
	        python->version < 0x030b)
		entry->local_plain++;
	if (!gm_py_units_mark(entry, python->opcodes) ||
	        !gm_py_lines_decode(entry, python->version, recorded->lines.at,
	                recorded->lines.size, code->first_line, entry->bytecode_size) ||
	        !gm_py_loops_find(entry, python->version, python->opcodes,
	                python->layout.loop_slots, recorded->exceptions.at,
	                recorded->exceptions.size))
		return false;
	entry->depths_sought = true;
	gm_py_depths_find(entry, python->version, python->opcodes, recorded->exceptions.at,
	        recorded->exceptions.size);
	return true;
}

struct gm_error *gm_python_recorded_code(struct gm_python *python,
        const struct gm_recorded_code *recorded, const struct gm_code **ret_code)
{
	if (recorded->bytecode.size > GM_MAX_CODE_BYTES || recorded->stack_size > GM_MAX_LOCALS)
		return gm_error_create(
		        GM_CORRUPT, "code of %zu bytes: too large", recorded->bytecode.size);
	struct gm_code_entry *entry = calloc(1, sizeof(*entry));
	if (!entry || !fill(python, entry, recorded)) {
		gm_py_code_destroy(entry);
		return &gm_error_no_memory;
	}
	entry->code.id = ++python->code_count;
	entry->next = python->codes[0];
	python->codes[0] = entry;
	*ret_code = &entry->code;
	return NULL;
}

int gm_python_recorded_iterator(
        struct gm_python *python, const struct gm_code *code, uint32_t offset)
{
	int depth = gm_py_depth_at(python, gm_py_entry_of(code), offset);

	return depth < python->layout.loop_slots ? -1 : depth - python->layout.loop_slots;
}
