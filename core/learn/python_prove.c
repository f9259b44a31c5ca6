/*
 * The proof of a layout: the results of the readers of core/cpython for a stopped probe, compared
 * with the probe's own data (core/learn/python/of_self.py has the lines).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "learn/python_prove.h"

enum { MAX_FRAMES = 2048, MAX_EDGES = 1 << 16, MAX_LINE = 1 << 17, MAX_KINDS = 16 };

struct addresses {
	GM_ARRAY(uint64_t) all;
	bool no_memory;
};

struct proof {
	struct gm_python *python;
	struct gm_image *image;
	const struct gm_python_tables *tables;
	struct gm_python_frame frames[MAX_FRAMES];
	size_t frame_count;
	pid_t frames_of;
	struct addresses tracked, held, modules;
	size_t compared; /* lines that were compared */
};

/* --- the readers' results --------------------------------------------------------------------- */

static bool note(struct addresses *addresses, uint64_t address)
{
	if (!gm_array_push(&addresses->all, address))
		addresses->no_memory = true;
	return !addresses->no_memory && addresses->all.count < MAX_EDGES * 16;
}

static bool note_object(void *context, uint64_t object)
{
	return note(context, object);
}

static bool note_edge(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	return kind == GM_EDGE_TYPE || kind == GM_EDGE_GUESS || note(context, target);
}

static bool note_module(void *context, const char *name, uint64_t module, uint64_t dict)
{
	return note(context, module) && note(context, dict);
}

/* Is it among them? It is removed, so that each counts once. */
static bool take_out(struct addresses *addresses, uint64_t address)
{
	for (size_t i = 0; i < addresses->all.count; i++) {
		if (addresses->all.items[i] == address) {
			addresses->all.items[i] = 0;
			return true;
		}
	}
	return false;
}

static const struct gm_python_frame *frame_of(struct proof *proof, long thread, long index)
{
	if (proof->frames_of != (pid_t)thread) {
		proof->frames_of = (pid_t)thread;
		proof->frame_count =
		        gm_python_stack(proof->python, (pid_t)thread, proof->frames, MAX_FRAMES);
	}
	return index >= 0 && (size_t)index < proof->frame_count ? &proof->frames[index] : NULL;
}

/* --- lines: each true if the readers give the same -------------------------------------------- */

static bool same_thread(struct proof *proof, const char *line)
{
	struct gm_python_thread threads[64];
	size_t count = 0;
	uint64_t ident;
	long native;

	if (sscanf(line, "%ld %" SCNu64, &native, &ident) != 2)
		return false;
	_cleanup_error_ struct gm_error *error =
	        gm_python_threads(proof->python, threads, 64, &count);
	for (size_t i = 0; !error && i < count; i++)
		if (threads[i].native_id == (pid_t)native)
			return threads[i].ident == ident;
	return false;
}

static bool same_frame(struct proof *proof, const char *line)
{
	long thread, index, lasti, at;
	int name = 0;

	if (sscanf(line, "%ld %ld %ld %ld %n", &thread, &index, &lasti, &at, &name) != 4 || !name)
		return false;
	const struct gm_python_frame *frame = frame_of(proof, thread, index);
	const char *file = strchr(line + name, ' ');
	return frame && file && frame->line == (uint32_t)at && frame->lasti == (uint32_t)lasti &&
	       strcmp(frame->code->file, file + 1) == 0 &&
	       strlen(frame->code->name) <= (size_t)(file - line - name) &&
	       /* before 3.11 code has no qualified name; then the probe prints the plain one */
	       strncmp(frame->code->name, line + name, (size_t)(file - line - name)) == 0;
}

static bool same_local(struct proof *proof, const char *line)
{
	long thread, index, slot;
	uint64_t object;

	if (sscanf(line, "%ld %ld %ld %" SCNu64, &thread, &index, &slot, &object) != 4)
		return false;
	const struct gm_python_frame *frame = frame_of(proof, thread, index);
	return frame && gm_python_local(proof->python, frame, (uint32_t)slot) == object;
}

static bool same_value(struct proof *proof, const char *line)
{
	uint64_t object, found = 0;
	int expression = 0;
	long thread;

	if (sscanf(line, "%ld %" SCNu64 " %n", &thread, &object, &expression) != 2 || !expression)
		return false;
	_cleanup_error_ struct gm_error *error =
	        gm_python_evaluate(proof->python, (pid_t)thread, 0, line + expression, &found);
	return !error && found == object;
}

static bool is_held(struct proof *proof, const char *line)
{
	uint64_t object;

	if (!proof->held.all.count)
		gm_python_thread_references(proof->python, note_edge, &proof->held);
	return sscanf(line, "%" SCNu64, &object) == 1 && take_out(&proof->held, object);
}

static bool same_object(struct proof *proof, const char *line)
{
	uint64_t object, size;
	const char *name;
	int at = 0;

	return sscanf(line, "%" SCNu64 " %" SCNu64 " %n", &object, &size, &at) == 2 && at &&
	       gm_python_type_name(proof->python, object, &name) && !strcmp(name, line + at) &&
	       gm_python_size(proof->python, object, NULL) == size;
}

/* All objects that the collector reports for an object are among its references. */
static bool same_references(struct proof *proof, const char *line)
{
	struct addresses edges = {0};
	uint64_t object, target;
	bool good;
	int used;

	if (sscanf(line, "%" SCNu64 "%n", &object, &used) != 1)
		return false;
	good = gm_python_references(proof->python, object, note_edge, &edges);
	for (line += used; good && sscanf(line, "%" SCNu64 "%n", &target, &used) == 1; line += used)
		good = take_out(&edges, target);
	good = good && !edges.no_memory;
	gm_array_deinit(&edges.all);
	return good;
}

static bool same_count(struct proof *proof, const char *line)
{
	uint64_t object, count, found;

	return sscanf(line, "%" SCNu64 " %" SCNu64, &object, &count) == 2 &&
	       gm_python_refcount(proof->python, object, &found) && found == count;
}

/* Hexadecimal UTF-8, as the probe writes it; frees `string`. */
static bool is_text(char *string, const char *hex)
{
	const size_t length = string ? strlen(string) : 0;
	bool good = string && strlen(hex) == 2 * length;

	for (size_t i = 0; good && i < length; i++) {
		char byte[3];
		snprintf(byte, sizeof(byte), "%02x", (unsigned char)string[i]);
		good = !memcmp(byte, hex + 2 * i, 2);
	}
	free(string);
	return good;
}

static bool same_text(struct proof *proof, const char *line)
{
	char *string = NULL;
	uint64_t object;
	int at = 0;

	return sscanf(line, "%" SCNu64 " %n", &object, &at) == 1 && at &&
	       gm_python_str(proof->python, object, 4096, &string) && is_text(string, line + at);
}

static bool same_said(struct proof *proof, const char *line)
{
	char *string = NULL;
	uint64_t object;
	int at = 0;

	return sscanf(line, "%" SCNu64 " %n", &object, &at) == 1 && at &&
	       gm_python_exception_text(proof->python, object, 4096, &string) &&
	       is_text(string, line + at);
}

static bool same_trace(struct proof *proof, const char *line)
{
	struct gm_python_frame frames[64];
	unsigned index, at;
	uint64_t error;
	int name = 0;

	if (sscanf(line, "%" SCNu64 " %u %u %n", &error, &index, &at, &name) != 3 || !name)
		return false;
	size_t count = gm_python_traceback(proof->python, error, frames, 64);
	return index < count && frames[index].line == at &&
	       strcmp(frames[index].code->name, line + name) == 0;
}

static bool is_module(struct proof *proof, const char *line)
{
	uint64_t module, dict;

	if (!proof->modules.all.count) {
		_cleanup_error_ struct gm_error *error =
		        gm_python_modules(proof->python, note_module, &proof->modules);
		if (error)
			return false;
	}
	return sscanf(line, "%" SCNu64 " %" SCNu64, &module, &dict) == 2 &&
	       take_out(&proof->modules, module) && take_out(&proof->modules, dict);
}

/* A word that must be at the offset of a field. */
static bool is_there(struct proof *proof, const char *line)
{
	const struct gm_python_tables *tables = proof->tables;
	struct gm_python_layout layout = *tables->layout;
	uint64_t address, value, found = 0;
	unsigned width;
	char name[64];

	if (sscanf(line, "%63s %" SCNu64 " %u %" SCNu64, name, &address, &width, &value) != 4 ||
	        width > 8)
		return false;
	for (size_t i = 0; gm_python_field_name(i); i++) {
		if (strcmp(gm_python_field_name(i), name) != 0)
			continue;
		const int32_t offset = *gm_python_field(&layout, i);
		return offset == GM_NO_FIELD || /* the code for this form of version does not read
		                                   it */
		       (gm_image_try_read(
		                proof->image, address + (uint64_t)(int64_t)offset, &found, width) &&
		               found == value);
	}
	return true; /* a field that this gpumem does not know */
}

/* The size of a struct, from its type or from a pointer into itself; and other numbers that are not
 * offsets. */
static bool same_size(struct proof *proof, const char *line)
{
	struct gm_python_layout layout = *proof->tables->layout;
	char name[64];
	int size;

	if (sscanf(line, "%63s %d", name, &size) != 2)
		return false;
	for (size_t i = 0; gm_python_field_name(i); i++)
		if (!strcmp(gm_python_field_name(i), name))
			return *gm_python_field(&layout, i) == size;
	return true;
}

static bool is_tracked(struct proof *proof, const char *line)
{
	uint64_t object;
	size_t count;

	if (!proof->tracked.all.count) {
		_cleanup_error_ struct gm_error *error =
		        gm_python_tracked(proof->python, note_object, &proof->tracked, &count);
		if (error)
			return false;
	}
	return sscanf(line, "%" SCNu64, &object) == 1 && take_out(&proof->tracked, object);
}

/* --- the whole proof -------------------------------------------------------------------------- */

static const struct {
	const char *kind;
	bool (*same)(struct proof *proof, const char *line);
	const char *of; /* the difference, for the error */
} lines[] = {
        {"thread", same_thread, "its threads"},
        {"frame", same_frame, "the frames of its threads"},
        {"local", same_local, "local variables"},
        {"evaluate", same_value, "attributes and items"},
        {"held", is_held, "what its threads hold"},
        {"object", same_object, "types"},
        {"refers", same_references, "what its objects refer to"},
        {"count", same_count, "reference counts"},
        {"text", same_text, "strings"},
        {"said", same_said, "an exception's text"},
        {"trace", same_trace, "an exception's traceback"},
        {"module", is_module, "its modules"},
        {"claim", is_there, "the fields of its structs"},
        {"size", same_size, "the sizes of its structs"},
        {"tracked", is_tracked, "what its collector tracks"},
};
enum { KINDS = sizeof(lines) / sizeof(lines[0]) };

static struct gm_error *differs(const char *version, const char *of, const char *line)
{
	return gm_error_create(GM_TARGET,
	        "learn: CPython %s: the layout failed verification: %s, read with it, differ from "
	        "what the probe reports (%.80s): its stacks and variables cannot be read",
	        version, of, line);
}

static struct gm_error *compare(struct proof *proof, const char *text)
{
	size_t seen[KINDS] = {0};

	for (const char *next; *text; text = next) {
		const size_t length = strcspn(text, "\n"), word = strcspn(text, " \n");
		next = text + length + (text[length] == '\n');
		for (size_t i = 0; i < KINDS; i++) {
			if (strlen(lines[i].kind) != word ||
			        strncmp(lines[i].kind, text, word) != 0)
				continue;
			_cleanup_free_ char *line = strndup(text + word, length - word);
			if (!line)
				return &gm_error_no_memory;
			if (!*line || !lines[i].same(proof, line + 1))
				return differs(gm_python_version(proof->python), lines[i].of, line);
			seen[i]++;
		}
	}
	for (size_t i = 0; i < KINDS; i++)
		if (!seen[i])
			return gm_error_create(GM_TARGET,
			        "learn: the probe reports nothing about %s: nothing is verified",
			        lines[i].of);
	return NULL;
}

struct gm_error *gm_learn_python_prove(const char *text, struct gm_image *image,
        struct gm_symbols *symbols, const struct gm_python_tables *tables)
{
	_cleanup_free_ struct proof *proof = calloc(1, sizeof(*proof));

	if (!proof)
		return &gm_error_no_memory;
	proof->image = image;
	proof->tables = tables;
	gm_try(gm_python_open_row(image, symbols, tables, &proof->python));
	struct gm_error *error = compare(proof, text);
	gm_array_deinit(&proof->tracked.all);
	gm_array_deinit(&proof->held.all);
	gm_array_deinit(&proof->modules.all);
	gm_python_close(proof->python);
	return error;
}
