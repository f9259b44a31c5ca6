/*
 * Code objects: copied from the target once, found again by address, checked at each use.
 *
 * A code object may be freed and another one allocated at its address (exec() in a loop). At each
 * walk the pointers and numbers of the struct's head that never change while an object lives are
 * compared (not its reference count, warm-up counter, weak references and caches). 3.12+ numbers
 * code objects (co_version); before, an object that is equal in all of these to a freed one at the
 * same address is taken for it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/packages.h"
#include "cpython/python.h"

static size_t bucket(uint64_t address)
{
	return (size_t)(gm_hash_mix(address) & (GM_CODE_BUCKETS - 1));
}

bool gm_py_code_same(
        const struct gm_python *python, const struct gm_code_entry *entry, const uint8_t *head)
{
	const struct gm_python_layout *layout = &python->layout;
	const int32_t words[] = {layout->object_type, layout->code_names, layout->code_consts,
	        layout->code_filename, layout->code_name, layout->code_lines, layout->code_qualname,
	        layout->code_locals_names, layout->code_varnames, layout->code_bytes};
	const int32_t halves[] = {layout->code_first_line, layout->code_stacksize,
	        layout->code_nlocals, layout->code_version};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (words[i] != GM_NO_FIELD &&
		        gm_u64_at(head, words[i]) != gm_u64_at(entry->key, words[i]))
			return false;
	}
	for (size_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++) {
		if (halves[i] != GM_NO_FIELD &&
		        gm_i32_at(head, halves[i]) != gm_i32_at(entry->key, halves[i]))
			return false;
	}
	return layout->code_adaptive == GM_NO_FIELD ||
	       gm_u64_at(head, layout->object_size) == gm_u64_at(entry->key, layout->object_size);
}

void gm_py_code_destroy(struct gm_code_entry *entry)
{
	if (!entry)
		return;
	free((char *)(uintptr_t)entry->code.file);
	free((char *)(uintptr_t)entry->code.name);
	for (uint32_t i = 0; entry->code.local_names && i < entry->code.local_count; i++)
		free((char *)(uintptr_t)entry->code.local_names[i]);
	free((void *)(uintptr_t)entry->code.local_names);
	free((void *)(uintptr_t)entry->code.local_kinds);
	for (uint32_t i = 0; entry->name_cache && i < entry->name_count; i++)
		free(entry->name_cache[i]);
	free(entry->name_cache);
	free(entry->bytecode);
	free(entry->units);
	free(entry->depths);
	gm_array_deinit(&entry->lines);
	gm_array_deinit(&entry->loops);
	free(entry);
}

uint8_t *gm_py_bytes(struct gm_python *python, uint64_t object, size_t *ret_size)
{
	uint64_t size;
	uint8_t *bytes;

	if (!gm_py_u64(python, object + (uint64_t)python->layout.object_size, &size) ||
	        size > GM_MAX_CODE_BYTES)
		return NULL;
	bytes = malloc(size ? size : 1);
	if (bytes && size &&
	        !gm_image_try_read(
	                python->image, object + (uint64_t)python->layout.bytes_data, bytes, size)) {
		free(bytes);
		return NULL;
	}
	*ret_size = (size_t)size;
	return bytes;
}

static char *read_name(struct gm_python *python, uint64_t object)
{
	char *name;

	return gm_python_str(python, object, GM_MAX_NAME_LENGTH * 4, &name) ? name : strdup("?");
}

/* Reads an array of monitoring data of `size` bytes; NULL if there is none. */
static uint8_t *read_array(struct gm_python *python, uint64_t pointer, size_t size)
{
	uint64_t address = 0;
	uint8_t *array;

	if (!gm_py_u64(python, pointer, &address) || !address)
		return NULL;
	array = malloc(size);
	if (array && !gm_image_try_read(python->image, address, array, size)) {
		free(array);
		array = NULL;
	}
	return array;
}

/*
 * With a tracer or debugger, 3.12+ replaces opcodes by INSTRUMENTED_LINE and
 * INSTRUMENTED_INSTRUCTION and stores the originals in _co_monitoring (Python/instrumentation.c).
 * They are restored in the copy.
 */
static void undo_instrumentation(struct gm_python *python, struct gm_code_entry *entry)
{
	const struct gm_python_layout *layout = &python->layout;
	uint32_t count = entry->bytecode_size / 2;
	uint64_t monitoring = layout->code_monitoring == GM_NO_FIELD
	                              ? 0
	                              : gm_u64_at(entry->key, layout->code_monitoring);
	_cleanup_free_ uint8_t *lines = NULL;
	size_t line_size, lines_at = 0;
	_cleanup_free_ uint8_t *opcodes = NULL;

	if (!monitoring || !count)
		return;
	line_size = (size_t)layout->monitoring_line_size;
	if (!line_size) { /* 3.14+: bytes_per_entry, then the entries */
		uint64_t address = gm_py_field(python, monitoring, layout->monitoring_lines);
		uint8_t bytes = 0;
		(void)gm_image_try_read(python->image, address, &bytes, 1);
		line_size = bytes;
		lines_at = 1;
	}
	lines = line_size ? read_array(python, monitoring + (uint64_t)layout->monitoring_lines,
	                            lines_at + line_size * count)
	                  : NULL;
	opcodes = read_array(python, monitoring + (uint64_t)layout->monitoring_opcodes, count);
	for (uint32_t at = 0; at < count;) {
		uint8_t *opcode = &entry->bytecode[2 * at];
		const char *name = python->opcodes[*opcode].name;
		if (name && lines && !strcmp(name, "INSTRUMENTED_LINE"))
			*opcode = lines[lines_at + line_size * at];
		name = python->opcodes[*opcode].name;
		if (name && opcodes && !strcmp(name, "INSTRUMENTED_INSTRUCTION"))
			*opcode = opcodes[at];
		at += 1u + python->opcodes[*opcode].caches;
	}
}

static bool read_bytecode(struct gm_python *python, struct gm_code_entry *entry)
{
	const struct gm_python_layout *layout = &python->layout;
	size_t size = 0;

	if (layout->code_adaptive == GM_NO_FIELD) {
		entry->bytecode =
		        gm_py_bytes(python, gm_u64_at(entry->key, layout->code_bytes), &size);
	} else {
		uint64_t units = gm_u64_at(entry->key, layout->object_size);
		if (!units || units > GM_MAX_CODE_BYTES / 2)
			return false;
		size = (size_t)units * 2;
		entry->bytecode = malloc(size);
		if (entry->bytecode && !gm_image_try_read(python->image,
		                               entry->address + (uint64_t)layout->code_adaptive,
		                               entry->bytecode, size))
			return false;
	}
	entry->bytecode_size = (uint32_t)size & ~1u;
	if (!entry->bytecode)
		return false;
	undo_instrumentation(python, entry);
	return gm_py_units_mark(entry, python->opcodes);
}

enum { KIND_LOCAL = 0x20, KIND_CELL = 0x40, KIND_FREE = 0x80 }; /* Include/internal/pycore_code.h */

/* Adds the names of a tuple to localsplus, all of one kind, or of the given kinds. */
static bool add_locals(struct gm_python *python, struct gm_code_entry *entry, uint64_t tuple,
        const uint8_t *kinds, size_t kind_count, uint8_t kind)
{
	struct gm_code *code = &entry->code;
	uint64_t count;
	const char **names;
	uint8_t *all;
	uint64_t items[128] = {0};

	if (!gm_py_u64(python, tuple + (uint64_t)python->layout.object_size, &count) ||
	        count > GM_MAX_LOCALS || count + code->local_count > GM_MAX_LOCALS ||
	        (kinds && count > kind_count))
		return false;
	names = realloc((void *)(uintptr_t)code->local_names,
	        (code->local_count + count + 1) * sizeof(*names));
	if (!names)
		return false;
	code->local_names = names;
	all = realloc((void *)(uintptr_t)code->local_kinds, code->local_count + count + 1);
	if (!all)
		return false;
	code->local_kinds = all;
	for (uint64_t i = 0; i < count; i++) {
		if (i % 128 == 0 && !gm_image_try_read(python->image,
		                            tuple + (uint64_t)python->layout.tuple_items + 8 * i,
		                            items, 8 * (count - i < 128 ? count - i : 128)))
			return false;
		names[code->local_count] = read_name(python, items[i % 128]);
		if (!names[code->local_count])
			return false;
		all[code->local_count++] = kinds ? kinds[i] : kind;
	}
	return true;
}

static bool read_locals(struct gm_python *python, struct gm_code_entry *entry)
{
	const struct gm_python_layout *layout = &python->layout;
	_cleanup_free_ uint8_t *kinds = NULL;
	uint64_t tuple;
	size_t size = 0;

	if (layout->code_locals_names == GM_NO_FIELD) {
		/* 3.9, 3.10: f_localsplus is locals, then cells, then free variables */
		if (!add_locals(python, entry, gm_u64_at(entry->key, layout->code_varnames), NULL,
		            0, KIND_LOCAL))
			return false;
		entry->local_plain = entry->code.local_count;
		return add_locals(python, entry, gm_u64_at(entry->key, layout->code_cellvars), NULL,
		               0, KIND_CELL) &&
		       add_locals(python, entry, gm_u64_at(entry->key, layout->code_freevars), NULL,
		               0, KIND_FREE);
	}
	tuple = gm_u64_at(entry->key, layout->code_locals_names);
	kinds = gm_py_bytes(python, gm_u64_at(entry->key, layout->code_locals_kinds), &size);
	/* the tuple's length is read once: a running process may change it in between */
	return kinds && add_locals(python, entry, tuple, kinds, size, 0);
}

static bool read_lines(struct gm_python *python, struct gm_code_entry *entry)
{
	size_t size = 0;
	_cleanup_free_ uint8_t *table =
	        gm_py_bytes(python, gm_u64_at(entry->key, python->layout.code_lines), &size);

	return table && gm_py_lines_decode(entry, python->version, table, size,
	                        entry->code.first_line, entry->bytecode_size);
}

/* co_exceptiontable is read only where there is a jump back that may be a handler's. */
static bool find_loops(struct gm_python *python, struct gm_code_entry *entry)
{
	const struct gm_python_layout *layout = &python->layout;
	size_t size = 0;

	if (!gm_py_loops_find(
	            entry, python->version, python->opcodes, python->layout.loop_slots, NULL, 0))
		return false;
	if (!entry->loops.count || python->version < GM_HANDLERS_AT_THE_END ||
	        layout->code_exceptions == GM_NO_FIELD)
		return true;
	_cleanup_free_ uint8_t *exceptions =
	        gm_py_bytes(python, gm_u64_at(entry->key, layout->code_exceptions), &size);
	if (!size)
		return true;
	entry->loops.count = 0;
	return gm_py_loops_find(entry, python->version, python->opcodes, python->layout.loop_slots,
	        exceptions, size);
}

static bool is_code_type(struct gm_python *python, uint64_t address)
{
	const struct gm_type *type;

	if (python->code_type)
		return address == python->code_type;
	type = gm_py_type(python, address);
	if (!type || type->kind != GM_TYPE_CODE)
		return false;
	python->code_type = address;
	return true;
}

static struct gm_code_entry *copy(struct gm_python *python, uint64_t address, const uint8_t *head)
{
	const struct gm_python_layout *layout = &python->layout;
	struct gm_code_entry *entry;
	uint64_t name = 0;
	int32_t stack = gm_i32_at(head, layout->code_stacksize);

	if (python->code_count >= GM_MAX_CODES ||
	        !is_code_type(python, gm_u64_at(head, layout->object_type)))
		return NULL;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->address = address;
	memcpy(entry->key, head, (size_t)layout->code_size);
	if (layout->code_qualname != GM_NO_FIELD)
		name = gm_u64_at(head, layout->code_qualname);
	if (!name)
		name = gm_u64_at(head, layout->code_name);
	entry->code.file = read_name(python, gm_u64_at(head, layout->code_filename));
	if (entry->code.file)
		gm_packages_see(entry->code.file, strlen(entry->code.file));
	entry->code.name = read_name(python, name);
	entry->code.first_line = (uint32_t)gm_i32_at(head, layout->code_first_line);
	entry->names = gm_u64_at(head, layout->code_names);
	entry->stack_size = stack < 0 || stack > GM_MAX_LOCALS ? 0 : (uint32_t)stack;
	if (!entry->code.file || !entry->code.name || !read_bytecode(python, entry) ||
	        !read_locals(python, entry) || !read_lines(python, entry) ||
	        !find_loops(python, entry)) {
		gm_py_code_destroy(entry);
		return NULL;
	}
	if (layout->code_adaptive != GM_NO_FIELD) {
		int32_t first = gm_i32_at(head, layout->code_first_traceable);
		entry->first_traceable = first < 0 || (uint32_t)first > entry->bytecode_size / 2
		                                 ? 0
		                                 : 2 * (uint32_t)first;
		/* FRAME_SPECIALS_SIZE + co_nlocalsplus + co_stacksize words */
		entry->frame_size = (uint32_t)layout->frame_localsplus +
		                    8 * (entry->code.local_count + entry->stack_size);
	}
	entry->code.id = ++python->code_count;
	entry->next = python->codes[bucket(address)];
	python->codes[bucket(address)] = entry;
	return entry;
}

struct gm_code_entry *gm_py_code_find(struct gm_python *python, uint64_t address)
{
	struct gm_code_entry *entry = python->codes[bucket(address)];

	while (entry && entry->address != address)
		entry = entry->next;
	return entry; /* the newest at this address, because entries are added at the front */
}

struct gm_code_entry *gm_py_code(struct gm_python *python, uint64_t address, const uint8_t *head)
{
	struct gm_code_entry *entry = gm_py_code_find(python, address);

	return entry && gm_py_code_same(python, entry, head) ? entry : copy(python, address, head);
}

struct gm_code_entry *gm_py_code_at(struct gm_python *python, uint64_t address)
{
	uint8_t head[GM_CODE_KEY_SIZE];

	if (!address || address & 7 ||
	        !gm_image_try_read(python->image, address, head, (size_t)python->layout.code_size))
		return NULL;
	return gm_py_code(python, address, head);
}

const char *gm_py_code_name_at(
        struct gm_python *python, struct gm_code_entry *entry, uint32_t index)
{
	uint64_t object;
	char *name;

	if (!entry->name_cache) {
		uint64_t count = gm_py_size(python, entry->names);
		if (!count || count > GM_MAX_NAMES)
			return NULL;
		entry->name_cache = calloc((size_t)count, sizeof(char *));
		if (!entry->name_cache)
			return NULL;
		entry->name_count = (uint32_t)count;
	}
	if (index >= entry->name_count)
		return NULL;
	if (!entry->name_cache[index]) {
		object = gm_py_field(
		        python, entry->names, python->layout.tuple_items + (int32_t)(8 * index));
		if (object && gm_python_str(python, object, GM_MAX_NAME_LENGTH, &name))
			entry->name_cache[index] = name;
	}
	return entry->name_cache[index];
}
