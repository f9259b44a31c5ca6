/*
 * Reads a Python process with core/cpython and prints what it finds as JSON, for
 * tests/e2e/test_cpython.py.
 * usage: read_python PID COMMAND...   each command prints one JSON value on a line of its own.
 *   info | threads | depths | stack TID | instruction TID | dying TID | evaluate TID PATH |
 *   references ADDRESS | frame-references TID | tracked | tracked-references | modules |
 *   str ADDRESS | type ADDRESS | refcount ADDRESS | loops TID | bench TID N | bench-dying TID N
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpython/python.h"

enum { MAX_FRAMES = 4096 };

static struct gm_python *python;
static struct gm_image *image;

static int fail(struct gm_error *error)
{
	json_t *json = json_pack("{s:s, s:i}", "error", error->message, "status", error->status);

	json_dumpf(json, stdout, 0);
	putchar('\n');
	json_decref(json);
	gm_error_destroy(error);
	return 1;
}

static void print(json_t *json)
{
	json_dumpf(json, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
	putchar('\n');
	json_decref(json);
}

static json_t *text(const char *string)
{
	json_t *json = string ? json_string(string) : json_null();

	return json ? json : json_string("(not UTF-8)");
}

static json_t *locals_of(const struct gm_python_frame *frame)
{
	json_t *locals = json_object();

	for (uint32_t i = 0; i < frame->code->local_count; i++) {
		uint64_t value = gm_python_local(python, frame, i);
		const char *type = "";
		if (value && gm_python_type_name(python, value, &type))
			json_object_set_new(locals, frame->code->local_names[i],
			        json_pack(
			                "{s:I, s:s}", "address", (json_int_t)value, "type", type));
	}
	return locals;
}

static json_t *frame_json(const struct gm_python_frame *frame)
{
	return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:o}", "file", text(frame->code->file),
	        "function", text(frame->code->name), "line", (json_int_t)frame->line, "lasti",
	        (json_int_t)frame->lasti, "first_line", (json_int_t)frame->code->first_line, "code",
	        (json_int_t)frame->code->id, "locals", locals_of(frame));
}

static void stack(pid_t thread)
{
	struct gm_python_frame *frames = calloc(MAX_FRAMES, sizeof(*frames));
	size_t count = gm_python_stack(python, thread, frames, MAX_FRAMES);
	json_t *json = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(json, frame_json(&frames[i]));
	print(json);
	free(frames);
}

static const char *const op_names[GM_OP_COUNT] = {"OTHER", "STORE_FAST", "STORE_NAME",
        "STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR", "STORE_SUBSCR", "DELETE_FAST", "DELETE_NAME",
        "DELETE_GLOBAL", "DELETE_DEREF", "DELETE_ATTR", "DELETE_SUBSCR", "CALL", "RETURN",
        "POP_TOP", "FOR_ITER", "END_FOR", "POP_EXCEPT", "YIELD"};

static void instruction(pid_t thread)
{
	struct gm_python_frame frame;
	struct gm_instruction at;

	if (!gm_python_stack(python, thread, &frame, 1)) {
		print(json_null());
		return;
	}
	gm_python_frame_instruction(python, &frame, &at);
	print(json_pack("{s:s, s:o, s:o, s:I, s:I}", "op", op_names[at.op], "name", text(at.name),
	        "other", text(at.other_name), "line", (json_int_t)at.line, "lasti",
	        (json_int_t)frame.lasti));
}

static void dying(pid_t thread)
{
	struct gm_python_frame frame;
	struct gm_python_frame dead;
	int slot;

	if (!gm_python_stack(python, thread, &frame, 1) ||
	        !gm_python_dying_frame(python, thread, &frame, &dead, &slot)) {
		print(json_null());
		return;
	}
	print(json_pack("{s:o, s:o, s:I, s:I}", "function", text(dead.code->name), "local",
	        text(slot < 0 ? NULL : dead.code->local_names[slot]), "slot", (json_int_t)slot,
	        "line", (json_int_t)dead.line));
}

static void loops(pid_t thread)
{
	struct gm_python_frame frame;
	json_t *json = json_array();

	if (gm_python_stack(python, thread, &frame, 1)) {
		for (uint32_t i = 0; i < frame.code->loop_count; i++) {
			const struct gm_loop *loop = &frame.code->loops[i];
			json_array_append_new(
			        json, json_pack("{s:I, s:I, s:I, s:I}", "start",
			                      (json_int_t)loop->start, "end", (json_int_t)loop->end,
			                      "line", (json_int_t)loop->line, "line_end",
			                      (json_int_t)loop->line_end));
		}
	}
	print(json);
}

static bool edge(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	json_array_append_new(
	        context, json_pack("{s:I, s:i, s:o, s:I}", "target", (json_int_t)target, "kind",
	                         kind, "name", text(name), "index", (json_int_t)index));
	return true;
}

static void references(uint64_t object)
{
	json_t *edges = json_array();
	bool whole = gm_python_references(python, object, edge, edges);

	print(json_pack("{s:b, s:o}", "whole", whole, "edges", edges));
}

/* Of all frames: [[function, [[kind, name, index, target], ...]], ...] */
static void frame_references(pid_t thread)
{
	struct gm_python_frame *frames = calloc(MAX_FRAMES, sizeof(*frames));
	size_t count = gm_python_stack(python, thread, frames, MAX_FRAMES);
	json_t *json = json_array();

	for (size_t i = 0; i < count; i++) {
		json_t *edges = json_array();
		gm_python_frame_references(python, &frames[i], edge, edges);
		json_array_append_new(json,
		        json_pack("{s:o, s:I, s:o}", "function", text(frames[i].code->name),
		                "locals", (json_int_t)frames[i].code->local_count, "edges", edges));
	}
	print(json);
	free(frames);
}

struct count_edges {
	json_t *targets;
};

static bool count_edge(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct count_edges *count = context;

	json_array_append_new(count->targets, json_integer((json_int_t)target));
	return true;
}

static bool tracked_references(void *context, uint64_t object)
{
	const char *type = "?";
	struct count_edges count = {json_array()};
	bool whole = gm_python_references(python, object, count_edge, &count);

	gm_python_type_name(python, object, &type);
	print(json_pack("[I, s, b, o]", (json_int_t)object, type, whole, count.targets));
	return true;
}

/* Of all functions: how many there are, and of how many the value stack's depths are known and fill
 * co_stacksize. */
struct depths {
	json_int_t codes, known, full;
	json_t *unknown;
};

static bool count_depths(void *context, uint64_t object)
{
	struct depths *depths = context;
	struct gm_code_entry *entry;
	int most = 0;

	if (!gm_python_is_instance(python, object, "function"))
		return true;
	entry = gm_py_code_at(python, gm_py_field(python, object, python->layout.function_code));
	if (!entry)
		return true;
	depths->codes++;
	gm_py_depth_at(python, entry, 0);
	if (!entry->depths) {
		json_array_append_new(depths->unknown, text(entry->code.name));
		return true;
	}
	depths->known++;
	for (uint32_t i = 0; i < entry->bytecode_size / 2; i++)
		most = entry->depths[i] > most ? entry->depths[i] : most;
	depths->full += most == (int)entry->stack_size;
	return true;
}

static void all_depths(void)
{
	struct depths depths = {0, 0, 0, json_array()};
	struct gm_error *error = gm_python_tracked(python, count_depths, &depths, NULL);

	if (error) {
		json_decref(depths.unknown);
		fail(error);
		return;
	}
	print(json_pack("{s:I, s:I, s:I, s:o}", "codes", depths.codes, "known", depths.known,
	        "full", depths.full, "unknown", depths.unknown));
}

static bool nothing(void *context, uint64_t object)
{
	return true;
}

static bool module(void *context, const char *name, uint64_t object, uint64_t dict)
{
	json_object_set_new(
	        context, name, json_pack("[I, I]", (json_int_t)object, (json_int_t)dict));
	return true;
}

static void threads(void)
{
	struct gm_python_thread list[256];
	size_t count = 0;
	json_t *json = json_array();
	struct gm_error *error = gm_python_threads(python, list, 256, &count);

	if (error) {
		fail(error);
		return;
	}
	for (size_t i = 0; i < count; i++)
		json_array_append_new(
		        json, json_pack("{s:I, s:I}", "ident", (json_int_t)list[i].ident,
		                      "native_id", (json_int_t)list[i].native_id));
	print(json);
}

static void evaluate(pid_t thread, const char *path)
{
	uint64_t object;
	struct gm_error *error = gm_python_evaluate(python, thread, 0, path, &object);
	const char *type = "?";

	if (error) {
		fail(error);
		return;
	}
	gm_python_type_name(python, object, &type);
	print(json_pack("{s:I, s:s}", "address", (json_int_t)object, "type", type));
}

static void bench(pid_t thread, int times)
{
	struct gm_python_frame frames[64];
	struct timespec a;
	struct timespec b;
	size_t count = 0;

	for (int i = 0; i < 10; i++)
		gm_python_stack(python, thread, frames, 64);
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < times; i++) {
		gm_image_invalidate(image);
		count = gm_python_stack(python, thread, frames, 64);
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	print(json_pack("{s:I, s:f}", "frames", (json_int_t)count, "microseconds",
	        ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 1e3 /
	                times));
}

static void bench_dying(pid_t thread, int times)
{
	struct gm_python_frame frame;
	struct gm_python_frame dead;
	struct timespec a;
	struct timespec b;
	int slot;
	bool found = false;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < times; i++) {
		gm_image_invalidate(image);
		gm_python_stack(python, thread, &frame, 1);
		found = gm_python_dying_frame(python, thread, &frame, &dead, &slot);
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	print(json_pack("{s:b, s:f}", "found", found, "microseconds",
	        ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 1e3 /
	                times));
}

static void modules(void)
{
	json_t *json = json_object();
	struct gm_error *error = gm_python_modules(python, module, json);

	if (error) {
		json_decref(json);
		fail(error);
		return;
	}
	print(json);
}

static void tracked(bool with_references)
{
	size_t count = 0;
	struct gm_error *error = gm_python_tracked(
	        python, with_references ? tracked_references : nothing, NULL, &count);

	if (error)
		fail(error);
	else
		print(json_integer((json_int_t)count));
}

static void one_object(const char *what, uint64_t object)
{
	const char *name;
	char *string;
	uint64_t count;

	if (!strcmp(what, "str") && gm_python_str(python, object, 4096, &string)) {
		print(text(string));
		free(string);
	} else if (!strcmp(what, "type") && gm_python_type_name(python, object, &name)) {
		print(text(name));
	} else if (!strcmp(what, "refcount") && gm_python_refcount(python, object, &count)) {
		print(json_integer((json_int_t)count));
	} else {
		print(json_null());
	}
}

/* Runs one command, returns how many words it took; 0: unknown. */
static int run(char **words, int count)
{
	const char *what = words[0];
	pid_t thread = count > 1 ? atoi(words[1]) : 0;
	uint64_t address = count > 1 ? strtoull(words[1], NULL, 0) : 0;

	if (!strcmp(what, "info")) {
		print(json_pack("{s:s, s:i, s:s}", "version", gm_python_version(python), "hex",
		        gm_python_version_hex(python), "found_by", gm_python_found_by(python)));
		return 1;
	}
	if (!strcmp(what, "threads"))
		return threads(), 1;
	if (!strcmp(what, "depths"))
		return all_depths(), 1;
	if (!strcmp(what, "modules"))
		return modules(), 1;
	if (!strcmp(what, "tracked") || !strcmp(what, "tracked-references"))
		return tracked(what[7] == '-'), 1;
	if (count < 2)
		return 0;
	if (!strcmp(what, "stack"))
		return stack(thread), 2;
	if (!strcmp(what, "instruction"))
		return instruction(thread), 2;
	if (!strcmp(what, "dying"))
		return dying(thread), 2;
	if (!strcmp(what, "frame-references"))
		return frame_references(thread), 2;
	if (!strcmp(what, "loops"))
		return loops(thread), 2;
	if (!strcmp(what, "references"))
		return references(address), 2;
	if (!strcmp(what, "str") || !strcmp(what, "type") || !strcmp(what, "refcount"))
		return one_object(what, address), 2;
	if (!strcmp(what, "evaluate") && count > 2)
		return evaluate(thread, words[2]), 3;
	if (!strcmp(what, "bench-dying") && count > 2)
		return bench_dying(thread, atoi(words[2])), 3;
	if (!strcmp(what, "bench") && count > 2)
		return bench(thread, atoi(words[2])), 3;
	return 0;
}

int main(int argc, char **argv)
{
	struct gm_symbols *symbols = NULL;
	struct gm_error *error;
	int status = 0;

	if (argc < 3)
		return 2;
	error = gm_image_open_pid(atoi(argv[1]), &image);
	if (!error)
		error = gm_symbols_create(image, &symbols);
	if (!error)
		error = gm_python_open(image, symbols, &python);
	if (error)
		status = fail(error);
	for (int i = 2; !status && i < argc;) {
		int used = run(argv + i, argc - i);
		if (!used)
			status = 2;
		i += used;
	}
	gm_python_close(python);
	gm_symbols_destroy(symbols);
	gm_image_close(image);
	return status;
}
