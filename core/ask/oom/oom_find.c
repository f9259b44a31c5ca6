/*
 * Finds the error in a process or core, from the most reliable source: first a thread inside the
 * allocator's report, then Python's exception objects, then the text of the message in memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/failure.h"
#include "ask/oom/oom_find.h"
#include "ask/oom/oom_text.h"
#include "ask/context.h"
#include "ask/oom/oom_facts.h"
#include "ask/target/request.h"
#include "base/cleanup.h"
#include "base/size.h"
#include "cpython/cpython.h"
#include "symbols/symbols.h"
#include "torch/names.h"

enum {
	MESSAGE_MAX = 16 << 10,
	FRAMES_MAX = 64,
	EXCEPTIONS_MAX = 256,
	SCAN_BYTES = 4 << 20,
	TEXT_MAX = 2048,
	DEVICE_CUDA = 1,
};

static bool keep_frames(struct gm_oom *oom, const struct gm_python_frame *frames, size_t count)
{
	oom->frames = calloc(count + 1, sizeof(*oom->frames));
	if (!oom->frames)
		return false;
	for (size_t i = 0; i < count; i++) {
		struct gm_oom_place *place = &oom->frames[oom->frame_count++];
		place->file = strdup(frames[i].code->file);
		place->function = strdup(frames[i].code->name);
		place->line = frames[i].line;
		if (!place->file || !place->function)
			return false;
	}
	return true;
}

/* --- a thread inside the report --------------------------------------------------------------- */

static void take_report(struct gm_context *context, const struct gm_agent_failure *report,
        pid_t thread, struct gm_oom *oom)
{
	struct gm_python_frame frames[FRAMES_MAX];
	oom->found = GM_OOM_FOUND_REPORT;
	oom->thread = thread;
	oom->facts.requested = report->requested;
	oom->facts.needed = gm_segment_size(report->requested);
	oom->facts.device = report->device;
	oom->facts.allocated = report->allocated;
	oom->facts.reserved = report->reserved;
	if (context->python)
		keep_frames(
		        oom, frames, gm_python_stack(context->python, thread, frames, FRAMES_MAX));
}

/* c10::reportOutOfMemoryToProfiler(int64_t size, size_t allocated, size_t reserved, Device), at its
 * entry */
static bool find_report(struct gm_context *context, struct gm_oom *oom)
{
	const struct gm_module *module = gm_symbols_find_module(context->symbols, "libc10.so");
	uint64_t entry;
	pid_t *threads;
	size_t count;
	if (!module ||
	        !gm_symbols_lookup(context->symbols, module, GM_TORCH_REPORT_OOM, &entry, NULL))
		return false;
	_cleanup_error_ struct gm_error *error = gm_image_threads(context->image, &threads, &count);
	if (error)
		return false;
	bool found = false;
	for (size_t i = 0; i < count && !found; i++) {
		struct gm_registers registers;
		_cleanup_error_ struct gm_error *unread =
		        gm_image_registers(context->image, threads[i], &registers);
		/* at a breakpoint there, a debugger may not have corrected the program counter yet
		 * */
		found = !unread && registers.value[GM_RIP] - entry <= 1 &&
		        (int8_t)registers.value[GM_RCX] == DEVICE_CUDA &&
		        registers.value[GM_RDI] < UINT64_C(1) << 60;
		if (!found)
			continue;
		const struct gm_agent_failure report = {
		        .requested = registers.value[GM_RDI],
		        .allocated = registers.value[GM_RSI],
		        .reserved = registers.value[GM_RDX],
		        .device = (int8_t)(registers.value[GM_RCX] >> 8),
		};
		take_report(context, &report, threads[i], oom);
	}
	free(threads);
	return found;
}

/* The agent stops a thread there (--on-oom), and stores the request. */
static bool find_kept(struct gm_context *context, struct gm_oom *oom)
{
	struct gm_agent_failure report;
	uint64_t address;
	const struct gm_module *module;
	if (!gm_symbols_lookup_any(context->symbols, "gpumem_agent_failure", &address, &module) ||
	        !gm_image_try_read(context->image, address, &report, sizeof(report)) ||
	        report.stands != 1 || report.requested >= UINT64_C(1) << 60 ||
	        report.device != (int8_t)report.device)
		return false;
	take_report(
	        context, &report, gm_image_thread_of(context->image, (pid_t)report.thread), oom);
	return true;
}

/* --- Python's exceptions ---------------------------------------------------------------------- */

struct exceptions {
	struct gm_python *python;
	uint64_t objects[EXCEPTIONS_MAX];
	enum gm_oom_found found[EXCEPTIONS_MAX];
	size_t count;
	enum gm_oom_found mark;
};

static bool add_tracked(void *context, uint64_t object)
{
	struct exceptions *all = context;
	if (gm_python_is_instance(all->python, object, "OutOfMemoryError") &&
	        all->count < EXCEPTIONS_MAX) {
		all->objects[all->count] = object;
		all->found[all->count++] = GM_OOM_FOUND_KEPT;
	}
	return true;
}

static void mark(struct exceptions *all, uint64_t object, enum gm_oom_found how)
{
	for (size_t i = 0; i < all->count; i++)
		if (all->objects[i] == object && how < all->found[i])
			all->found[i] = how;
}

static bool mark_thread(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	mark(context, target, GM_OOM_FOUND_RAISED);
	return true;
}

static bool mark_local(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	mark(context, target, GM_OOM_FOUND_HELD);
	return true;
}

/* The argument of sys.excepthook is an argument of a running frame. */
static void mark_frames(struct exceptions *all)
{
	struct gm_python_thread threads[256];
	struct gm_python_frame frames[FRAMES_MAX];
	size_t count;
	_cleanup_error_ struct gm_error *error =
	        gm_python_threads(all->python, threads, 256, &count);
	for (size_t i = 0; !error && i < count; i++) {
		size_t depth = gm_python_thread_stack(all->python, &threads[i], frames, FRAMES_MAX);
		for (size_t j = 0; j < depth; j++)
			gm_python_frame_references(all->python, &frames[j], mark_local, all);
	}
}

static bool mark_last(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	if (kind == GM_EDGE_KEY && name &&
	        (strcmp(name, "last_value") == 0 || strcmp(name, "last_exc") == 0))
		mark(context, target, GM_OOM_FOUND_LAST);
	return true;
}

static bool mark_module(void *context, const char *name, uint64_t module, uint64_t dict)
{
	struct exceptions *all = context;
	if (strcmp(name, "sys") != 0)
		return true;
	gm_python_references(all->python, dict, mark_last, all);
	return false;
}

/* The exception's own text has the facts of that moment. */
static bool take_message(const char *text, struct gm_oom *oom)
{
	struct gm_oom_messages messages;
	if (!gm_oom_parse(text, strlen(text), &messages))
		return false;
	if (messages.count)
		oom->facts = messages.items[0].facts;
	free(messages.items);
	return messages.count > 0;
}

static bool find_exception(struct gm_context *context, struct gm_oom *oom)
{
	struct gm_python *python = context->python;
	if (!python)
		return false;
	struct exceptions all = {.python = python};
	struct gm_python_frame frames[FRAMES_MAX];
	size_t tracked, best = 0;
	gm_error_destroy(gm_python_tracked(python, add_tracked, &all, &tracked));
	if (!all.count)
		return false;
	gm_python_thread_references(python, mark_thread, &all);
	gm_error_destroy(gm_python_modules(python, mark_module, &all));
	mark_frames(&all);
	/* of several, the newest: within a generation, the collector's list has the oldest first */
	for (size_t i = 0; i < all.count; i++)
		if (all.found[i] <= all.found[best])
			best = i;
	oom->exceptions = all.count;
	char *text;
	if (!gm_python_exception_text(python, all.objects[best], MESSAGE_MAX, &text))
		return false;
	if (!take_message(text, oom)) {
		free(text);
		return false;
	}
	oom->found = all.found[best];
	oom->message = text;
	keep_frames(
	        oom, frames, gm_python_traceback(python, all.objects[best], frames, FRAMES_MAX));
	return true;
}

/* --- the text in memory ----------------------------------------------------------------------- */

static const char words[] = "out of memory. Tried to allocate ";

static bool scan_mapping(
        struct gm_image *image, const struct gm_mapping *mapping, char *buffer, struct gm_oom *oom)
{
	uint64_t at = mapping->start;
	while (at < mapping->end) {
		size_t wanted = mapping->end - at < SCAN_BYTES + TEXT_MAX
		                        ? (size_t)(mapping->end - at)
		                        : SCAN_BYTES + TEXT_MAX;
		size_t got = gm_image_read_some(image, at, buffer, wanted);
		buffer[got] = 0;
		for (char *hit = buffer; got && (hit = memmem(hit, got - (size_t)(hit - buffer),
		                                         words, sizeof(words) - 1));
		        hit++) {
			char *start = hit - buffer > 5 ? hit - 5 : buffer;
			size_t length = strnlen(start, TEXT_MAX);
			_cleanup_free_ char *text = strndup(start, length);
			if (text && take_message(text, oom) && oom->facts.total != GM_NOT_KNOWN) {
				oom->message = gm_take(text);
				return true;
			}
		}
		/* text that crosses the end of a read is complete in the next one */
		at += got > SCAN_BYTES ? SCAN_BYTES : got ? got : 4096;
	}
	return false;
}

static bool find_text(struct gm_context *context, struct gm_oom *oom)
{
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(context->image, &count);
	_cleanup_free_ char *buffer = malloc(SCAN_BYTES + TEXT_MAX + 1);
	for (size_t i = 0; buffer && i < count; i++) {
		uint32_t flags = mappings[i].flags;
		if (!(flags & GM_MAPPING_WRITE) || !(flags & GM_MAPPING_READ) ||
		        flags & (GM_MAPPING_DEVICE | GM_MAPPING_SHARED))
			continue;
		if (scan_mapping(context->image, &mappings[i], buffer, oom)) {
			oom->found = GM_OOM_FOUND_TEXT;
			return true;
		}
	}
	gm_oom_facts_init(&oom->facts);
	return false;
}

struct gm_error *gm_oom_find(struct gm_context *context, struct gm_oom *oom)
{
	struct gm_torch *torch;
	gm_try(gm_context_torch(context, &torch));
	gm_oom_facts_init(&oom->facts);
	strcpy(oom->facts.platform, "CUDA");
	if (!find_report(context, oom) && !find_kept(context, oom) &&
	        !find_exception(context, oom) && oom->ooms)
		find_text(context, oom);
	return NULL;
}
