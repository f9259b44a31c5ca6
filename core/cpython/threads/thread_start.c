/*
 * The function that a thread was started with: _thread's record of the function and its arguments,
 * which C owns until the thread ends (struct bootstate in Modules/_threadmodule.c). Only a local
 * variable of thread_run() points to it, one of the thread's outermost C frames. So the end of its
 * native stack is searched, outermost first, for the address of a record that refers to this
 * thread's state.
 *
 *   3.9 to 3.11:  interpreter, func, args, keywords, thread state, runtime
 *   3.12 on:      thread state, func, args, keywords, ...
 */
#include <stdio.h>

#include "cpython/threads/thread_start.h"

enum {
	/* below pthread_self(): the thread's own variables, then thread_run() and the two frames
	   that call it */
	MAX_STACK_BYTES = 32 << 10,
	ALIGNMENT = 16, /* of malloc */
	STATE = 0,
	FUNCTION = 8,
	ARGUMENTS = 16,
	KEYWORDS = 24,
	STATE_UNTIL_311 = 32,
	RECORD_BYTES = 40,
};

static bool is_record(struct gm_python *python, uint64_t state, const uint8_t *bytes)
{
	if (gm_u64_at(bytes, STATE) != state && gm_u64_at(bytes, STATE_UNTIL_311) != state)
		return false;
	return gm_python_is_instance(python, gm_u64_at(bytes, ARGUMENTS), "tuple");
}

static uint64_t find_record(struct gm_python *python, uint64_t state, uint64_t ident)
{
	uint8_t record[RECORD_BYTES];
	_cleanup_free_ uint8_t *stack = malloc(MAX_STACK_BYTES);
	uint64_t start = ident - MAX_STACK_BYTES;
	if (!stack || ident < MAX_STACK_BYTES || ident % ALIGNMENT)
		return 0;
	/* a small stack begins later */
	const struct gm_mapping *mapping = gm_image_find_mapping(python->image, ident);
	if (!mapping)
		return 0;
	if (start < mapping->start)
		start = mapping->start;
	size_t size = (size_t)(ident - start);
	if (!gm_image_try_read(python->image, start, stack, size))
		return 0;
	for (size_t at = size; at >= sizeof(uint64_t); at -= sizeof(uint64_t)) {
		uint64_t address = gm_u64_at(stack, at - sizeof(uint64_t));
		if (address == 0 || address % ALIGNMENT || address - start < size ||
		        !gm_image_find_mapping(python->image, address) ||
		        !gm_image_try_read(python->image, address, record, sizeof(record)))
			continue;
		if (is_record(python, state, record))
			return address;
	}
	return 0;
}

void gm_py_visit_thread_record(struct gm_visit *visit, uint64_t state, const uint8_t *bytes)
{
	struct gm_python *python = visit->python;
	char name[48] = "start of a thread";
	uint64_t record = find_record(python, state, gm_u64_at(bytes, python->layout.thread_ident));
	pid_t thread = record ? gm_py_native_id(python, bytes) : 0;
	if (thread > 0)
		snprintf(name, sizeof(name), "start of thread %d", (int)thread);
	for (int32_t field = FUNCTION; record && field <= KEYWORDS; field += 8)
		gm_py_emit_field(visit, record, field, GM_EDGE_OTHER, name);
}
