/*
 * Interpreters and thread states: the lists from _PyRuntime down, and the kernel thread of each.
 */
#include <string.h>

#include "cpython/python.h"

bool gm_py_each_interpreter(struct gm_python *python,
        bool (*visit)(void *context, struct gm_python *python, uint64_t interpreter), void *context)
{
	uint64_t at =
	        gm_py_field(python, python->runtime, python->layout.runtime_interpreters_head);

	for (int i = 0; at && i < GM_MAX_INTERPRETERS; i++) {
		if (!visit(context, python, at))
			return false;
		at = gm_py_field(python, at, python->layout.interpreter_next);
	}
	return true;
}

struct interpreter_range {
	uint64_t start, size;
	bool found;
};

static bool lies_in(void *context, struct gm_python *python, uint64_t interpreter)
{
	struct interpreter_range *range = context;
	range->found |= interpreter - range->start < range->size;
	return true;
}

bool gm_python_is_interpreter(struct gm_python *python, uint64_t start, uint64_t size)
{
	struct interpreter_range range = {start, size, false};
	gm_py_each_interpreter(python, lies_in, &range);
	return range.found;
}

struct each_thread {
	gm_thread_visit visit;
	void *context;
	uint32_t left;
};

static bool threads_of(void *context, struct gm_python *python, uint64_t interpreter)
{
	struct each_thread *each = context;
	const struct gm_python_layout *layout = &python->layout;
	uint8_t bytes[512];
	size_t size = (size_t)layout->thread_size < sizeof(bytes) ? (size_t)layout->thread_size
	                                                          : sizeof(bytes);
	uint64_t state = gm_py_field(python, interpreter, layout->interpreter_threads);

	while (state && each->left--) {
		if (!gm_image_try_read(python->image, state, bytes, size) ||
		        gm_u64_at(bytes, layout->thread_interpreter) != interpreter)
			return true;
		if (!each->visit(each->context, python, state, bytes))
			return false;
		state = gm_u64_at(bytes, layout->thread_next);
	}
	return true;
}

void gm_py_each_thread(struct gm_python *python, gm_thread_visit visit, void *context)
{
	struct each_thread each = {visit, context, GM_MAX_THREADS};

	gm_py_each_interpreter(python, threads_of, &each);
}

pid_t gm_py_tid_of_pthread(struct gm_python *python, const uint8_t *bytes)
{
	uint64_t ident = gm_u64_at(bytes, python->layout.thread_ident);
	uint32_t tid;

	if (!ident || !gm_image_try_u32(python->image, ident + GM_PTHREAD_TID, &tid) ||
	        tid > INT32_MAX)
		return 0;
	return gm_image_thread_of(python->image, (pid_t)tid);
}

/* The kernel's id of a thread, which 3.9 and 3.10 do not store. */
pid_t gm_py_native_id(struct gm_python *python, const uint8_t *bytes)
{
	const struct gm_python_layout *layout = &python->layout;
	uint64_t native;

	if (layout->thread_native_id == GM_NO_FIELD)
		return gm_py_tid_of_pthread(python, bytes);
	native = gm_u64_at(bytes, layout->thread_native_id);
	return native <= INT32_MAX ? gm_image_thread_of(python->image, (pid_t)native) : 0;
}

struct list {
	struct gm_python_thread *threads;
	size_t max, count;
	pid_t *kernel; /* the process's threads according to the kernel */
	size_t kernel_count;
};

static bool exists(const struct list *list, pid_t thread)
{
	for (size_t i = 0; i < list->kernel_count; i++) {
		if (list->kernel[i] == thread)
			return true;
	}
	return false;
}

static bool add(void *context, struct gm_python *python, uint64_t state, const uint8_t *bytes)
{
	struct list *list = context;
	pid_t native = gm_py_native_id(python, bytes);
	pid_t by_pthread;

	/* 3.11 leaves the parent's id in a forked child */
	if (!exists(list, native)) {
		by_pthread = gm_py_tid_of_pthread(python, bytes);
		if (exists(list, by_pthread))
			native = by_pthread;
	}
	if (list->count < list->max)
		list->threads[list->count] = (struct gm_python_thread){
		        .state = state,
		        .ident = gm_u64_at(bytes, python->layout.thread_ident),
		        .native_id = native,
		};
	list->count++;
	return true;
}

struct gm_error *gm_python_threads(
        struct gm_python *python, struct gm_python_thread *threads, size_t max, size_t *ret_count)
{
	_cleanup_free_ pid_t *kernel = NULL;
	struct list list = {threads, max, 0, NULL, 0};

	gm_try(gm_image_threads(python->image, &kernel, &list.kernel_count));
	list.kernel = kernel;
	gm_py_each_thread(python, add, &list);
	if (!list.count)
		return gm_error_create(GM_TARGET, "Python's threads: their list cannot be read: "
		                                  "ask again at another stop");
	*ret_count = list.count < max ? list.count : max;
	return NULL;
}
