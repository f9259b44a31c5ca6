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

enum { MAX_HANDLED = 1000 };

static bool add_handled(
        void *context, struct gm_python *python, uint64_t state, const uint8_t *bytes)
{
	bool *good = context;
	uint64_t item = gm_u64_at(bytes, python->layout.thread_exc_info);
	for (int i = 0; item && i < MAX_HANDLED && *good; i++) {
		*good = gm_address_set_add(&python->running, item, NULL);
		item = gm_py_field(python, item, python->layout.exc_item_previous);
	}
	return *good;
}

struct gm_error *gm_python_note_running(struct gm_python *python)
{
	_cleanup_free_ struct gm_python_thread *threads =
	        calloc(GM_PYTHON_THREADS_MAX, sizeof(*threads));
	_cleanup_free_ struct gm_python_frame *frames =
	        calloc(GM_PYTHON_FRAMES_AT_ONCE, sizeof(*frames));
	bool good = threads && frames;
	size_t thread_count = 0;
	gm_address_set_deinit(&python->running);
	if (good)
		gm_try(gm_python_threads(python, threads, GM_PYTHON_THREADS_MAX, &thread_count));
	for (size_t i = 0; good && i < thread_count; i++) {
		size_t count = gm_python_thread_stack(
		        python, &threads[i], frames, GM_PYTHON_FRAMES_AT_ONCE);
		for (size_t j = 0; good && j < count; j++)
			good = gm_address_set_add(&python->running, frames[j].address, NULL);
	}
	if (good)
		gm_py_each_thread(python, add_handled, &good);
	return good ? NULL : &gm_error_no_memory;
}
