/*
 * Code objects with numbers. Each is written to the file completely when it is first seen, so that
 * its lines, loops and instructions can be decoded later without the program.
 *
 * A code object may be freed and another one allocated at its address. A fingerprint distinguishes
 * them. 3.12+ numbers code objects (co_version). Before, the fingerprint consists of the pointers
 * and numbers that an object never changes. For code without a file ("<string>",
 * "<eval_with_key>.7"), which programs create and drop in loops with equal sizes, it also includes
 * the text of the file name, the hash of the name, and the beginning of the line table.
 *
 * Equal code at another address (a function that is compiled again) gets the same number.
 */
#include "agent/stacks/inside.h"

#include "agent/gap.h"
#include "agent/put.h"
#include "agent/stacks/memory.h"
#include "base/packages.h"

enum {
	SLOT_BITS = 16,
	SLOTS = 1 << SLOT_BITS, /* how far a slot's chain (`older`) is followed */
	CONTENT_SLOTS = GM_STACKS_CODES_MAX * 2,
	NAME_MAX_BYTES = 4096,
	NAMES_MAX = 1 << 14,
	CHAIN_MAX = 64,
};

struct content_slot {
	_Atomic uint64_t hash;
	_Atomic uint32_t id;
};

static _Atomic(struct gm_stack_code *) *slots;
static struct content_slot *contents;
static _Atomic uint32_t code_count;
static _Atomic bool reported_full;

bool gm_codes_init(void)
{
	if (!slots)
		slots = gm_stacks_map(SLOTS * sizeof(*slots));
	if (!contents)
		contents = gm_stacks_map(CONTENT_SLOTS * sizeof(*contents));
	return slots && contents;
}

void gm_codes_clear(void)
{
	gm_stacks_clear((void *)slots, SLOTS * sizeof(*slots));
	gm_stacks_clear(contents, CONTENT_SLOTS * sizeof(*contents));
	atomic_store(&code_count, 0);
	atomic_store(&reported_full, false);
}

/* --- objects of Python, as they lie in memory --- */

static inline uint64_t field(uint64_t object, int32_t offset)
{
	return offset == GM_NO_FIELD ? 0 : gm_load(object + (uint64_t)(int64_t)offset);
}

static inline int32_t number_field(uint64_t object, int32_t offset)
{
	return offset == GM_NO_FIELD ? 0 : (int32_t)gm_load32(object + (uint64_t)(int64_t)offset);
}

struct bytes {
	const uint8_t *at;
	size_t size;
};

static struct bytes bytes_of(uint64_t object)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint64_t size = object ? field(object, layout->object_size) : 0;

	if (!object || size > 1 << 24)
		return (struct bytes){NULL, 0};
	return (struct bytes){
	        (const uint8_t *)(uintptr_t)(object + (uint64_t)layout->bytes_data), (size_t)size};
}

/* A str's characters: kind (bytes for each character) and data. Include/cpython/unicodeobject.h:
 * state is interned:2, kind:3, compact:1, ascii:1 (3.9-3.13; 3.12 and 3.13 have the same order from
 * bit 2 on). */
static const uint8_t *characters(uint64_t object, unsigned *ret_kind, size_t *ret_length)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint32_t state = (uint32_t)number_field(object, layout->str_state);
	uint64_t length = field(object, layout->str_length);
	uint64_t data;

	*ret_kind = state >> 2 & 7;
	*ret_length = length < 1 << 20 ? (size_t)length : 0;
	if (state >> 5 & 1)
		data = object + (uint64_t)(state >> 6 & 1 ? layout->str_ascii_size
		                                          : layout->str_compact_size);
	else
		data = field(object, layout->str_data);
	return (const uint8_t *)(uintptr_t)data;
}

uint8_t *gm_put_utf8(uint8_t *at, uint32_t c)
{
	if (c < 0x80) {
		*at++ = (uint8_t)c;
	} else if (c < 0x800) {
		*at++ = (uint8_t)(0xc0 | c >> 6);
		*at++ = (uint8_t)(0x80 | (c & 63));
	} else if (c < 0x10000) {
		*at++ = (uint8_t)(0xe0 | c >> 12);
		*at++ = (uint8_t)(0x80 | (c >> 6 & 63));
		*at++ = (uint8_t)(0x80 | (c & 63));
	} else {
		*at++ = (uint8_t)(0xf0 | (c >> 18 & 7));
		*at++ = (uint8_t)(0x80 | (c >> 12 & 63));
		*at++ = (uint8_t)(0x80 | (c >> 6 & 63));
		*at++ = (uint8_t)(0x80 | (c & 63));
	}
	return at;
}

/* A str as UTF-8, truncated if it is very long; surrogates become '?'. Returns the number of bytes.
 * */
static size_t text_of(uint64_t object, uint8_t *ret)
{
	unsigned kind;
	size_t length;
	uint8_t *at = ret;
	const uint8_t *data;

	if (!object)
		return 0;
	data = characters(object, &kind, &length);
	if (!data || (kind != 1 && kind != 2 && kind != 4))
		return 0;
	for (size_t i = 0; i < length && at < ret + NAME_MAX_BYTES - 4; i++) {
		uint32_t c = kind == 1   ? data[i]
		             : kind == 2 ? ((const uint16_t *)(const void *)data)[i]
		                         : ((const uint32_t *)(const void *)data)[i];
		at = gm_put_utf8(
		        at, c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? '?' : c);
	}
	return (size_t)(at - ret);
}

/* --- fingerprints ----------------------------------------------------------------------------- */

static inline uint64_t mix(uint64_t print, uint64_t value)
{
	return (print ^ value) * UINT64_C(0x9e3779b97f4a7c15) + (print >> 29);
}

static uint64_t mix_content(uint64_t print, uint64_t code)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	enum {
		HASH = 24
	}; /* PyASCIIObject.hash: after the object's head and the length, in all versions */
	unsigned kind;
	size_t length;
	const uint8_t *file = characters(field(code, layout->code_filename), &kind, &length);
	uint64_t name = field(code, layout->code_name);
	struct bytes lines = bytes_of(field(code, layout->code_lines));

	for (size_t i = 0; i < length * kind && i < 256; i++)
		print = mix(print, file[i]);
	print = mix(print, name ? gm_load(name + HASH) : 0);
	print = mix(print, lines.size);
	for (size_t i = 0; i < lines.size && i < 64; i++)
		print = mix(print, lines.at[i]);
	return print;
}

uint64_t gm_code_print(uint64_t code)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint64_t print = gm_code_quick(code), file;

	if (GM_LIKELY(!(print & GM_PRINT_MADE)))
		return print;
	file = gm_load(code + (uint64_t)layout->code_filename);
	/* the first character of an ASCII name; for another name a word of its head, which is not
	 * '<' */
	if (GM_UNLIKELY(
	            *(const uint8_t *)(uintptr_t)(file + (uint64_t)layout->str_ascii_size) == '<'))
		return mix_content(print, code) | GM_PRINT_MADE | GM_PRINT_CONTENT;
	return print;
}

/* --- writing one --- */

/* co_code as it runs, with the original opcodes where a tracer has replaced them (3.12+:
 * Python/instrumentation.c). */
static void copy_code(uint64_t code, struct bytes from, uint8_t *to)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint64_t monitoring = field(code, layout->code_monitoring), lines, originals;
	const struct gm_opcode *const opcodes = gm_stacks_python.opcodes;
	size_t count = from.size / 2;

	memcpy(to, from.at, from.size);
	if (!monitoring)
		return;
	lines = field(monitoring, layout->monitoring_lines);
	originals = field(monitoring, layout->monitoring_opcodes);
	size_t line_size = (size_t)layout->monitoring_line_size, lines_at = 0;
	if (lines && !line_size) { /* 3.14+: bytes_per_entry, then the entries */
		line_size = *(const uint8_t *)(uintptr_t)lines;
		lines_at = 1;
	}
	for (size_t at = 0; at < count;) {
		uint8_t *opcode = &to[2 * at];
		const char *name = opcodes[*opcode].name;
		if (name && lines && !strcmp(name, "INSTRUMENTED_LINE"))
			*opcode = ((const uint8_t *)(uintptr_t)lines)[lines_at + line_size * at];
		name = opcodes[*opcode].name;
		if (name && originals && !strcmp(name, "INSTRUMENTED_INSTRUCTION"))
			*opcode = ((const uint8_t *)(uintptr_t)originals)[at];
		at += 1u + opcodes[*opcode].caches;
	}
}

struct record {
	uint8_t *at, *end;
	bool full;
};

static void put_number(struct record *record, uint64_t value)
{
	if (record->end - record->at < 10)
		record->full = true;
	else
		record->at = gm_put_varint(record->at, value);
}

static void put_bytes(struct record *record, const void *bytes, size_t size)
{
	if ((size_t)(record->end - record->at) < size + 10)
		record->full = true;
	else
		record->at = gm_write_string(record->at, bytes, size);
}

static void put_text(struct record *record, uint64_t object)
{
	uint8_t text[NAME_MAX_BYTES];

	put_bytes(record, text, text_of(object, text));
}

static uint64_t tuple_size(uint64_t tuple)
{
	uint64_t size = tuple ? field(tuple, gm_stacks_python.layout.object_size) : 0;

	return size <= NAMES_MAX ? size : 0;
}

static void put_locals(struct record *record, uint64_t tuple, struct bytes kinds, uint8_t kind)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;

	for (uint64_t i = 0; i < tuple_size(tuple); i++) {
		put_text(record, field(tuple, layout->tuple_items + 8 * (int32_t)i));
		put_number(record, kind ? kind : i < kinds.size ? kinds.at[i] : 0);
	}
}

static void put_all_locals(struct record *record, uint64_t code)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	enum { LOCAL = 0x20, CELL = 0x40, FREE = 0x80 }; /* Include/internal/pycore_code.h */
	uint64_t names = field(code, layout->code_locals_names);

	if (layout->code_locals_names != GM_NO_FIELD) {
		put_number(record, tuple_size(names));
		put_locals(record, names, bytes_of(field(code, layout->code_locals_kinds)), 0);
		return;
	}
	uint64_t plain = field(code, layout->code_varnames),
	         cells = field(code, layout->code_cellvars),
	         free_ones = field(code, layout->code_freevars);
	put_number(record, tuple_size(plain) + tuple_size(cells) + tuple_size(free_ones));
	put_locals(record, plain, (struct bytes){0}, LOCAL);
	put_locals(record, cells, (struct bytes){0}, CELL);
	put_locals(record, free_ones, (struct bytes){0}, FREE);
}

static struct bytes bytecode_of(uint64_t code)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint64_t units;

	if (layout->code_adaptive == GM_NO_FIELD)
		return bytes_of(field(code, layout->code_bytes));
	units = field(code, layout->object_size);
	return (struct bytes){(const uint8_t *)(uintptr_t)(code + (uint64_t)layout->code_adaptive),
	        units < 1 << 23 ? 2 * (size_t)units : 0};
}

/* Everything of a code object except its number. Without `bytecode` its operations and loops cannot
 * be determined later. */
static size_t put_code(struct record *record, uint64_t code, bool bytecode)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint8_t *begin = record->at;
	uint64_t name = field(code, layout->code_qualname);
	uint64_t names = field(code, layout->code_names);
	struct bytes ops = bytecode ? bytecode_of(code) : (struct bytes){0};
	struct bytes lines = bytes_of(field(code, layout->code_lines));
	struct bytes exceptions = bytes_of(bytecode ? field(code, layout->code_exceptions) : 0);

	put_number(record, (uint32_t)number_field(code, layout->code_first_line));
	put_number(record, (uint32_t)number_field(code, layout->code_flags));
	put_text(record, field(code, layout->code_filename));
	put_text(record, name ? name : field(code, layout->code_name));
	if ((size_t)(record->end - record->at) < ops.size + 10) {
		record->full = true;
		return 0;
	}
	record->at = gm_put_varint(record->at, ops.size);
	if (ops.size)
		copy_code(code, ops, record->at);
	record->at += ops.size;
	put_bytes(record, lines.at, lines.size);
	put_bytes(record, exceptions.at, exceptions.size);
	put_all_locals(record, code);
	put_number(record, bytecode ? tuple_size(names) : 0);
	for (uint64_t i = 0; bytecode && i < tuple_size(names); i++)
		put_text(record, field(names, layout->tuple_items + 8 * (int32_t)i));
	put_number(record, (uint32_t)number_field(code, layout->code_stacksize));
	put_number(record, (uint64_t)gm_stacks_python.version);
	return (size_t)(record->at - begin);
}

static uint64_t hash_of(const uint8_t *bytes, size_t size)
{
	uint64_t hash = size + 1;

	for (; size >= 8; bytes += 8, size -= 8) {
		uint64_t word;
		memcpy(&word, bytes, 8);
		hash = mix(hash, word);
	}
	for (; size > 0; size--)
		hash = mix(hash, *bytes++);
	return hash ? hash : 1;
}

/* The number of the code with the record `bytes`, which is written if it is new. 0: no space. */
static uint32_t number_of(const uint8_t *body, size_t size)
{
	uint64_t hash = hash_of(body, size);
	uint32_t id;

	for (uint32_t i = (uint32_t)(hash >> 32) % CONTENT_SLOTS, tries = 0;
	        tries < CONTENT_SLOTS / 2; i = (i + 1) % CONTENT_SLOTS, tries++) {
		uint64_t there = atomic_load(&contents[i].hash);
		if (there == hash && (id = atomic_load(&contents[i].id)) != 0)
			return id;
		if (there)
			continue;
		if (atomic_load(&code_count) >= GM_STACKS_CODES_MAX)
			break;
		id = atomic_fetch_add(&code_count, 1) + 1;
		if (id > GM_STACKS_CODES_MAX)
			break;
		if (!gm_agent_put(GM_AGENT_CODE, id, body, size))
			return 0;
		if (atomic_compare_exchange_strong(&contents[i].hash, &there, hash))
			atomic_store(&contents[i].id, id);
		return id;
	}
	if (!atomic_exchange(&reported_full, true))
		gm_agent_gap("the agent's table of Python code is full: stacks with code not seen "
		             "before are left out "
		             "from here on");
	return 0;
}

/* --- looking up a code object ----------------------------------------------------------------- */

static bool ends_with(const uint8_t *text, size_t size, const char *end)
{
	size_t length = strlen(end);

	return size >= length && memcmp(text + size - length, end, length) == 0;
}

static uint8_t kind_of(uint64_t code)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint8_t file[NAME_MAX_BYTES], name[NAME_MAX_BYTES];
	size_t size = text_of(field(code, layout->code_filename), file);

	file[size] = 0; /* text_of() leaves room */
	/* torch/autograd/graph.py: the Python function through which backward() and grad() enter
	 * the engine; in 2.0 to 2.2 torch/autograd/__init__.py calls the engine directly */
	if (ends_with(file, size, "torch/autograd/graph.py") &&
	        text_of(field(code, layout->code_name), name) == 20 &&
	        !memcmp(name, "_engine_run_backward", 20))
		return GM_CODE_ENGINE;
	const char *path = (const char *)file;
	gm_packages_see(path, size);
	if (gm_packages_other(path, size))
		return GM_CODE_INSTALLED;
	if (gm_file_is_in_torch(path, "/torch/_native/"))
		return GM_CODE_OVERRIDE;
	return gm_packages_library(path, size) ? GM_CODE_LIBRARY : GM_CODE_OTHER;
}

static struct gm_stack_code *make(struct gm_stacks_thread *thread, uint64_t code, uint64_t print)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	struct record record = {thread->record, thread->record + GM_STACKS_RECORD, false};
	struct gm_stack_code *made;
	struct bytes ops = bytecode_of(code);
	uint64_t type = 0;
	size_t size;
	int32_t first;

	if (!gm_read_checked(code + (uint64_t)layout->object_type, &type, 8) ||
	        type != gm_stacks_python.code_type)
		return NULL;
	made = gm_arena_take(&gm_stacks_arena, sizeof(*made));
	if (!made)
		return NULL;
	size = put_code(&record, code, true);
	if (record.full) {
		record = (struct record){thread->record, thread->record + GM_STACKS_RECORD, false};
		size = put_code(&record, code, false);
	}
	if (record.full)
		return NULL;
	made->id = number_of(thread->record, size);
	if (!made->id)
		return NULL;
	made->address = code;
	made->print = print;
	made->flags = (uint32_t)number_field(code, layout->code_flags);
	made->is_coroutine = gm_task_is_coroutine(made->flags);
	made->stack_size = (uint32_t)number_field(code, layout->code_stacksize);
	made->kind = kind_of(code);
	if (layout->code_locals_names != GM_NO_FIELD)
		made->local_count = (uint32_t)tuple_size(field(code, layout->code_locals_names));
	else
		made->local_count = (uint32_t)(tuple_size(field(code, layout->code_varnames)) +
		                               tuple_size(field(code, layout->code_cellvars)) +
		                               tuple_size(field(code, layout->code_freevars)));
	if (layout->code_adaptive != GM_NO_FIELD) {
		first = number_field(code, layout->code_first_traceable);
		made->first_traceable =
		        first < 0 || (size_t)first > ops.size / 2 ? 0 : 2 * (uint32_t)first;
		/* FRAME_SPECIALS_SIZE + co_nlocalsplus + co_stacksize words */
		made->frame_size = (uint32_t)layout->frame_localsplus +
		                   8 * (made->local_count + made->stack_size);
	}
	if (made->kind == GM_CODE_OTHER || made->kind == GM_CODE_INSTALLED) {
		struct bytes lines = bytes_of(field(code, layout->code_lines));
		struct bytes exceptions = bytes_of(field(code, layout->code_exceptions));
		gm_iterators_prepare(thread, made,
		        &(struct gm_code_tables){.bytecode = ops.at,
		                .bytecode_size = ops.size,
		                .lines = lines.at,
		                .lines_size = lines.size,
		                .exceptions = exceptions.at,
		                .exceptions_size = exceptions.size,
		                .first_line =
		                        (uint32_t)number_field(code, layout->code_first_line)});
	}
	return made;
}

const struct gm_stack_code *gm_code_at(
        struct gm_stacks_thread *thread, uint64_t code, uint64_t print)
{
	_Atomic(struct gm_stack_code *) *slot =
	        &slots[code * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SLOT_BITS)];
	struct gm_stack_code *first = atomic_load_explicit(slot, memory_order_acquire), *made;
	unsigned length = 0;

	for (struct gm_stack_code *at = first; at; at = at->older, length++) {
		if (at->address == code && at->print == print)
			return at;
		if (length > CHAIN_MAX)
			at->older = NULL; /* code that programs create and drop; if it is seen
			                     again, it counts as new */
	}
	made = make(thread, code, print);
	if (!made)
		return NULL;
	made->older = first;
	/* another thread has taken it meanwhile: then our code is not found again, which is
	 * harmless */
	if (!atomic_compare_exchange_strong(slot, &first, made))
		made->older = NULL;
	return made;
}
