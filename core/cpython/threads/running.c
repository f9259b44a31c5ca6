/*
 * What threads execute now: frames, and items of the chain of handled exceptions. The frame of a
 * running generator or coroutine, and its item of that chain, are parts of the generator's object.
 * The thread is asked for their references, so the object must not give them once more: a reference
 * that is counted twice hides one that was not found.
 *
 * The generator's own state does not tell: a greenlet that was switched away leaves it executing,
 * with its frame on no thread's stack.
 */
#include <stdlib.h>

#include "cpython/python.h"

enum { MAX_THREADS = 4096, FRAMES_AT_ONCE = 4096, MAX_HANDLED = 1000 };

struct gm_error *gm_python_each_frame(
        struct gm_python *python, gm_python_visit_frame visit, void *context)
{
	_cleanup_free_ struct gm_python_thread *threads = calloc(MAX_THREADS, sizeof(*threads));
	_cleanup_free_ struct gm_python_frame *frames = calloc(FRAMES_AT_ONCE, sizeof(*frames));
	if (!threads || !frames)
		return &gm_error_no_memory;
	size_t thread_count;
	gm_try(gm_python_threads(python, threads, MAX_THREADS, &thread_count));
	for (size_t i = 0; i < thread_count; i++) {
		size_t count = gm_python_thread_stack(python, &threads[i], frames, FRAMES_AT_ONCE);
		for (size_t j = 0; j < count; j++)
			if (!visit(context, &threads[i], &frames[j]))
				return NULL;
	}
	return NULL;
}

struct noting {
	struct gm_python *python;
	bool no_memory;
};

static bool note_frame(
        void *context, const struct gm_python_thread *thread, const struct gm_python_frame *frame)
{
	struct noting *noting = context;
	noting->no_memory = !gm_address_set_add(&noting->python->running, frame->address, NULL);
	return !noting->no_memory;
}

static bool note_handled(
        void *context, struct gm_python *python, uint64_t state, const uint8_t *bytes)
{
	struct noting *noting = context;
	uint64_t item = gm_u64_at(bytes, python->layout.thread_exc_info);
	for (int i = 0; item && i < MAX_HANDLED && !noting->no_memory; i++) {
		noting->no_memory = !gm_address_set_add(&python->running, item, NULL);
		item = gm_py_field(python, item, python->layout.exc_item_previous);
	}
	return !noting->no_memory;
}

struct gm_error *gm_python_note_running(struct gm_python *python)
{
	struct noting noting = {.python = python};
	gm_address_set_deinit(&python->running);
	gm_try(gm_python_each_frame(python, note_frame, &noting));
	if (!noting.no_memory)
		gm_py_each_thread(python, note_handled, &noting);
	return noting.no_memory ? &gm_error_no_memory : NULL;
}
