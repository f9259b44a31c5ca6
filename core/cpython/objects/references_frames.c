/*
 * The references of frames: locals, cells and the value stack, of running frames, of frame objects
 * that exist longer than their call (tracebacks), of generators and coroutines.
 */
#include <string.h>

#include "cpython/objects/references_frames.h"
#include "cpython/threads/thread_start.h"

/* Locals by name, then the values on the value stack below its top. */
static bool visit_slots(
        struct gm_visit *visit, uint64_t frame, struct gm_code_entry *entry, uint64_t top)
{
	uint64_t locals = entry->code.local_count;

	for (uint64_t i = 0; i < locals && !visit->stopped; i++) {
		uint64_t value = gm_stackref_counted(&visit->python->layout,
		        gm_py_field(visit->python, gm_py_slot_address(visit->python, frame, i), 0));
		if (value && !visit->visit(visit->context, value, GM_EDGE_LOCAL,
		                     entry->code.local_names[i], (int64_t)i))
			visit->stopped = true;
	}
	if (top <= locals || top > locals + entry->stack_size || visit->stopped)
		return true;
	return gm_py_emit_slots(visit, gm_py_slot_address(visit->python, frame, locals),
	        top - locals, GM_EDGE_LOCAL, (int64_t)locals);
}

/*
 * The end of a frame's value stack, in slots from localsplus on. stacktop has this value. A running
 * frame has -1 there and its pointer in a register: then the bytecode gives the depth. 3.14+ has a
 * pointer, which is written before every call that may run other code.
 */
static uint64_t stack_top(struct gm_python *python, uint64_t frame, struct gm_code_entry *entry)
{
	struct gm_raw_frame raw;
	uint64_t previous;
	uint32_t top;
	int depth;

	if (python->version >= 0x030e) {
		uint64_t base = gm_py_slot_address(python, frame, 0);
		uint64_t end = gm_py_field(python, frame, python->layout.frame_stacktop);
		return end < base || (end - base) / 8 > GM_MAX_LOCALS ? 0 : (end - base) / 8;
	}
	if (!gm_image_try_read(python->image, frame + (uint64_t)python->layout.frame_stacktop, &top,
	            sizeof(top)))
		return 0;
	if ((int32_t)top >= 0)
		return top;
	if (!gm_py_read_frame(python, frame, &raw, &previous))
		return 0;
	raw.entry = entry;
	depth = gm_py_depth_at(python, entry, gm_py_lasti(python, &raw));
	return depth < 0 ? 0 : entry->code.local_count + (uint64_t)depth;
}

static bool visit_frame(struct gm_visit *visit, uint64_t frame)
{
	const struct gm_python_layout *l = &visit->python->layout;
	uint64_t code = gm_stackref_object(l, gm_py_field(visit->python, frame, l->frame_code));
	struct gm_code_entry *entry = gm_py_code_at(visit->python, code);

	if (!entry)
		return false;
	gm_py_emit_field(visit, frame, l->frame_locals, GM_EDGE_OTHER, "f_locals");
	gm_py_emit_slot(visit, frame, l->frame_function, GM_EDGE_OTHER, "f_func");
	gm_py_emit_slot(visit, frame, l->frame_code, GM_EDGE_OTHER, "f_code");
	gm_py_emit_field(visit, frame, l->frame_object, GM_EDGE_OTHER, "frame object");
	return visit_slots(visit, frame, entry, stack_top(visit->python, frame, entry));
}

/* 3.9: f_stacktop is a pointer, NULL while the frame runs and when it has ended; f_executing
 * distinguishes the two (Include/cpython/frameobject.h). 3.10: f_stackdepth counts from
 * f_valuestack, -1 while it runs. */
static uint64_t stack_top_of_object(
        struct gm_python *python, uint64_t object, struct gm_code_entry *entry)
{
	enum { FROM_LASTI_TO_EXECUTING = 12 }; /* f_lasti, f_lineno, f_iblock */
	const struct gm_python_layout *l = &python->layout;
	uint64_t base = gm_py_slot_address(python, object, 0);
	uint64_t bottom = gm_py_field(python, object, l->frame_valuestack);
	struct gm_raw_frame raw;
	uint64_t previous;
	uint32_t count = 0;
	uint64_t top = 0;
	uint8_t executing = 0;
	int depth;

	if (python->version < 0x030a) {
		top = gm_py_field(python, object, l->frame_stacktop);
	} else if (gm_image_try_u32(python->image, object + (uint64_t)l->frame_stacktop, &count) &&
	           (int32_t)count >= 0) {
		top = bottom + 8 * (uint64_t)count;
	}
	if (top)
		return top < base || (top - base) / 8 > GM_MAX_LOCALS ? 0 : (top - base) / 8;
	if (python->version < 0x030a &&
	        gm_image_try_read(python->image,
	                object + (uint64_t)l->frame_lasti + FROM_LASTI_TO_EXECUTING, &executing,
	                1) &&
	        !executing)
		return 0;
	if (!gm_py_read_frame(python, object, &raw, &previous))
		return 0;
	raw.entry = entry;
	depth = gm_py_depth_at(python, entry, gm_py_lasti(python, &raw));
	return depth < 0 ? 0 : entry->code.local_count + (uint64_t)depth;
}

bool gm_py_visit_frame_object(struct gm_visit *visit, uint64_t object)
{
	struct gm_python *python = visit->python;
	const struct gm_python_layout *l = &python->layout;
	struct gm_code_entry *entry;
	uint64_t frame;
	uint8_t owner = 0;

	gm_py_emit_field(visit, object, l->frameobject_back, GM_EDGE_OTHER, "f_back");
	gm_py_emit_field(visit, object, l->frameobject_trace, GM_EDGE_OTHER, "f_trace");
	if (l->frameobject_frame != GM_NO_FIELD) {
		frame = gm_py_field(python, object, l->frameobject_frame);
		if (!frame || !gm_image_try_read(
		                      python->image, frame + (uint64_t)l->frame_owner, &owner, 1))
			return false;
		/* a running frame's data belongs to the thread or the generator, not to this object
		 * */
		return owner != GM_OWNED_BY_OBJECT || visit_frame(visit, frame);
	}
	gm_py_emit_field(visit, object, l->frame_code, GM_EDGE_OTHER, "f_code");
	gm_py_emit_field(visit, object, l->frame_builtins, GM_EDGE_OTHER, "f_builtins");
	gm_py_emit_field(visit, object, l->frame_globals, GM_EDGE_OTHER, "f_globals");
	gm_py_emit_field(visit, object, l->frame_locals, GM_EDGE_OTHER, "f_locals");
	entry = gm_py_code_at(python, gm_py_field(python, object, l->frame_code));
	return entry &&
	       visit_slots(visit, object, entry, stack_top_of_object(python, object, entry));
}

/*
 * An item of the chain of handled exceptions, by the address of its exc_value. Before 3.11 it has
 * exc_type, exc_value and exc_traceback (Include/cpython/pystate.h), each of them counted.
 */
static void emit_handled(struct gm_visit *visit, uint64_t value, const char *name)
{
	gm_py_emit_field(visit, value, 0, GM_EDGE_OTHER, name);
	if (visit->python->version >= 0x030b)
		return;
	gm_py_emit_field(visit, value, -8, GM_EDGE_OTHER, name);
	gm_py_emit_field(visit, value, 8, GM_EDGE_OTHER, name);
}

bool gm_py_visit_generator(struct gm_visit *visit, uint64_t object)
{
	struct gm_python *python = visit->python;
	const struct gm_python_layout *l = &python->layout;
	int8_t state = 0;
	uint64_t frame;

	gm_py_emit_field(visit, object, l->generator_code, GM_EDGE_OTHER, "gi_code");
	gm_py_emit_field(visit, object, l->generator_name, GM_EDGE_OTHER, "__name__");
	gm_py_emit_field(visit, object, l->generator_qualname, GM_EDGE_OTHER, "__qualname__");
	/* as an item of a thread's chain it is given by the thread: running.c */
	if (!gm_address_set_has(&python->running,
	            object + (uint64_t)l->generator_exc_value - (uint64_t)l->exc_item_value))
		emit_handled(visit, object + (uint64_t)l->generator_exc_value, "exception");
	if (l->generator_state == GM_NO_FIELD)
		return gm_py_emit_field(
		        visit, object, l->generator_frame, GM_EDGE_OTHER, "gi_frame");
	if (!gm_image_try_read(python->image, object + (uint64_t)l->generator_state, &state, 1))
		return false;
	if (state >= l->generator_finished)
		return true;
	frame = object + (uint64_t)l->generator_frame;
	return gm_address_set_has(&python->running, frame) || visit_frame(visit, frame);
}

bool gm_python_frame_references(struct gm_python *python, const struct gm_python_frame *frame,
        gm_python_visit visitor, void *context)
{
	struct gm_visit visit = {
	        .python = python, .visit = visitor, .context = context, .names = true};

	if (python->layout.frameobject_frame == GM_NO_FIELD)
		return gm_py_visit_frame_object(&visit, frame->address);
	return visit_frame(&visit, frame->address);
}

struct threads {
	struct gm_visit visit;
};

static bool thread_references(
        void *context, struct gm_python *python, uint64_t state, const uint8_t *bytes)
{
	enum { MAX_HANDLED = 1000 };
	struct threads *threads = context;
	struct gm_visit *visit = &threads->visit;
	const struct gm_python_layout *l = &python->layout;
	uint64_t item = gm_u64_at(bytes, l->thread_exc_info);

	gm_py_emit_field(visit, state, l->thread_raised, GM_EDGE_OTHER, "exception being raised");
	if (python->version < 0x030c) /* curexc_value; curexc_traceback is next (pystate.h) */
		gm_py_emit_field(visit, state, l->thread_raised + 8, GM_EDGE_OTHER,
		        "exception being raised");
	gm_py_emit_field(visit, state, l->thread_context, GM_EDGE_OTHER, "context");
	gm_py_emit_field(visit, state, l->thread_dict, GM_EDGE_OTHER, "thread dict");
	for (int i = 0; item && i < MAX_HANDLED && !visit->stopped; i++) {
		emit_handled(visit, item + (uint64_t)l->exc_item_value, "exception being handled");
		item = gm_py_field(python, item, l->exc_item_previous);
	}
	if (!visit->stopped)
		gm_py_visit_thread_record(visit, state, bytes);
	return !visit->stopped;
}

void gm_python_thread_references(struct gm_python *python, gm_python_visit visitor, void *context)
{
	struct threads threads = {
	        .visit = {.python = python, .visit = visitor, .context = context, .names = true}};

	gm_py_each_thread(python, thread_references, &threads);
}
