/* Logs made in a test: a writer with a few words for code, frames, stacks and events. */
#ifndef GM_TESTS_SYNTHETIC_H
#define GM_TESTS_SYNTHETIC_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ask/context.h"
#include "cpython/cpython.h"
#include "log/log.h"
#include "model/model.h"

struct synthetic {
	char path[64];
	struct gm_log_writer *writer;
	uint64_t allocated, reserved, time;
	uint32_t evidence, native, flags; /* of the next events */
	uint64_t thread;
};

static inline void synthetic_begin(struct synthetic *log)
{
	*log = (struct synthetic){.thread = 1};
	strcpy(log->path, "/tmp/gpumem-test-XXXXXX");
	close(mkstemp(log->path));
	struct gm_error *error = gm_log_writer_create(log->path, NULL, &log->writer);
	if (error)
		abort();
}

static inline uint32_t synthetic_code(struct synthetic *log, const char *file, const char *name,
        const struct gm_log_loop *loops, uint32_t loop_count)
{
	const struct gm_log_code code = {gm_log_writer_string(log->writer, file),
	        gm_log_writer_string(log->writer, name), 1, loop_count, loops};
	return gm_log_writer_code(log->writer, &code);
}

/* A frame; its line is its offset. */
/* A frame's line is its offset, so the lines of a loop are to be those as well. */
static inline uint32_t synthetic_frame(
        struct synthetic *log, uint32_t code, uint32_t lasti, enum gm_op op, const char *name)
{
	const struct gm_log_frame frame = {
	        code, lasti, lasti, op, name ? gm_log_writer_string(log->writer, name) : 0};
	return gm_log_writer_frame(log->writer, &frame);
}

/* A stack of up to four frames, innermost first; 0 ends it. */
static inline uint32_t synthetic_stack(
        struct synthetic *log, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	const uint32_t frames[] = {a, b, c, d};
	size_t count = 0;
	while (count < 4 && frames[count])
		count++;
	return gm_log_writer_python_stack(log->writer, frames, count);
}

/* A native stack of named functions, innermost first, NULL at the end. */
static inline uint32_t synthetic_native(struct synthetic *log, const char *const *functions)
{
	uint64_t addresses[16];
	size_t count = 0;
	for (; functions[count]; count++) {
		uint32_t name = gm_log_writer_string(log->writer, functions[count]);
		addresses[count] = 0x1000 + (uint64_t)name * 16;
		gm_log_writer_symbol(log->writer, addresses[count], name, 0, 0);
	}
	return gm_log_writer_native_stack(log->writer, addresses, count);
}

static inline uint32_t synthetic_event(struct synthetic *log, enum gm_action action,
        uint64_t address, uint64_t size, uint32_t stack)
{
	if (action == GM_ALLOC)
		log->allocated += size;
	if (action == GM_FREE_REQUESTED)
		log->allocated -= size;
	if (action == GM_SEGMENT_ALLOC)
		log->reserved += size;
	if (action == GM_SEGMENT_FREE)
		log->reserved -= size;
	const struct gm_event event = {
	        .action = (uint8_t)action,
	        .device_type = 1,
	        .flags = log->flags,
	        .thread = log->thread,
	        .time_ns = log->time += 1000,
	        .address = address,
	        .size = size,
	        .requested = size - size / 10,
	        .allocated = log->allocated,
	        .reserved = log->reserved,
	        .python_stack = stack,
	        .native_stack = log->native,
	        .evidence = log->evidence,
	};
	return (uint32_t)gm_log_writer_event(log->writer, &event);
}

static inline uint32_t synthetic_free(
        struct synthetic *log, uint64_t address, uint64_t size, uint32_t stack)
{
	uint32_t number = synthetic_event(log, GM_FREE_REQUESTED, address, size, stack);
	synthetic_event(log, GM_FREE_COMPLETED, address, size, stack);
	return number;
}

/* Closes the log and opens its model in a context, which the caller deinits. */
static inline struct gm_model *synthetic_model(struct synthetic *log, struct gm_context *context)
{
	struct gm_model *model = NULL;
	gm_context_init(context);
	struct gm_error *error = gm_log_writer_close(log->writer);
	if (!error)
		error = gm_context_set_log(context, log->path);
	if (!error)
		error = gm_context_model(context, &model);
	if (error)
		abort();
	unlink(log->path);
	return model;
}

#endif
