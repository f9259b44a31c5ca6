/* A snapshot's devices into a log: what was there before, then the traces, merged by their times. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "import/snapshot.h"
#include "log/format.h"

#define NATIVE (UINT32_C(1) << 31) /* of a frame's result: of C++, not of Python */

struct stacks {
	uint32_t python, native;
};

struct writing {
	struct gm_snapshot *snapshot;
	struct gm_log_writer *log;
	GM_ARRAY(struct stacks) stacks;
	uint32_t native_count;
	char *text; /* of a string under way */
	uint64_t skipped;
	uint32_t python_frames[GM_LOG_STACK_MAX];
	uint64_t native_frames[GM_LOG_STACK_MAX];
};

static uint32_t put_string(struct writing *writing, uint32_t string)
{
	size_t length;
	const char *bytes = gm_pickle_string(&writing->snapshot->pickle, string, &length);
	length = length < GM_LOG_STRING_MAX ? length : GM_LOG_STRING_MAX;
	memcpy(writing->text, bytes, length);
	writing->text[length] = '\0';
	return gm_log_writer_string(writing->log, writing->text);
}

/* Frames of C++ name a source of C++, or no file (stacks="all"). */
static bool is_native(struct writing *writing, uint32_t file)
{
	static const char *const ends[] = {
	        ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".cu", ".cuh", ".S"};
	size_t length;
	const char *name = gm_pickle_string(&writing->snapshot->pickle, file, &length);
	if (length == 0 || (length == 2 && memcmp(name, "??", 2) == 0))
		return true;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t end = strlen(ends[i]);
		if (length > end && memcmp(name + length - end, ends[i], end) == 0)
			return true;
	}
	return false;
}

static uint32_t put_frame(struct writing *writing, struct gm_frame_record *frame)
{
	if (frame->result)
		return frame->result;
	uint32_t file = put_string(writing, frame->file), name = put_string(writing, frame->name);
	if (is_native(writing, frame->file)) {
		/* Its address is not in the file: a number of our own carries its name. */
		uint32_t address = ++writing->native_count;
		gm_log_writer_symbol(
		        writing->log, address, name, frame->line ? file : 0, frame->line);
		return frame->result = NATIVE | address;
	}
	const struct gm_log_code code = {.file = file, .name = name};
	const struct gm_log_frame record = {
	        .code = gm_log_writer_code(writing->log, &code),
	        .line = frame->line,
	};
	return frame->result = gm_log_writer_frame(writing->log, &record);
}

static struct gm_error *put_stacks(
        struct writing *writing, gm_value frames, struct stacks *ret_stacks)
{
	struct gm_pickle *pickle = &writing->snapshot->pickle;
	struct gm_object *list = gm_pickle_object(pickle, frames);
	*ret_stacks = (struct stacks){0};
	if (!list || list->kind != GM_LIST)
		return NULL;
	if (list->result) {
		*ret_stacks = writing->stacks.items[list->result - 1];
		return NULL;
	}
	size_t python = 0, native = 0;
	struct gm_place place = gm_pickle_first(pickle, frames);
	gm_value value;
	while (gm_pickle_next(pickle, &place, &value)) {
		const struct gm_object *object = gm_pickle_object(pickle, value);
		if (!object || object->kind != GM_FRAME)
			continue;
		uint32_t frame = put_frame(writing, &pickle->frames.items[object->first]);
		if (frame & NATIVE && native < GM_LOG_STACK_MAX)
			writing->native_frames[native++] = frame & ~NATIVE;
		else if (!(frame & NATIVE) && python < GM_LOG_STACK_MAX)
			writing->python_frames[python++] = frame;
	}
	ret_stacks->python =
	        gm_log_writer_python_stack(writing->log, writing->python_frames, python);
	ret_stacks->native =
	        gm_log_writer_native_stack(writing->log, writing->native_frames, native);
	if (!gm_array_push(&writing->stacks, *ret_stacks))
		return &gm_error_no_memory;
	list->result = (uint32_t)writing->stacks.count;
	return NULL;
}

static struct gm_error *put_before(
        struct writing *writing, const struct gm_trace_device *device, uint64_t time_us)
{
	uint64_t count = 0, bytes = 0, segments = 0;
	for (size_t i = 0; i < device->before.count; i++) {
		const struct gm_before *before = &device->before.items[i];
		struct stacks stacks;
		gm_try(put_stacks(writing, before->frames, &stacks));
		struct gm_event event = {
		        .action = before->action,
		        .device_type = 1,
		        .device = device->index,
		        .flags = GM_EVENT_PREEXISTING,
		        .time_ns = time_us * 1000,
		        .address = before->address,
		        .size = before->size,
		        .requested = before->requested,
		        .stream = before->stream,
		        .allocated = UINT64_MAX,
		        .reserved = UINT64_MAX,
		        .python_stack = stacks.python,
		        .native_stack = stacks.native,
		};
		gm_log_writer_event(writing->log, &event);
		if (before->free_pending) {
			event.action = GM_FREE_REQUESTED;
			gm_log_writer_event(writing->log, &event);
		}
		count += before->action == GM_ALLOC;
		bytes += before->action == GM_ALLOC ? before->size : 0;
		segments += before->action != GM_ALLOC;
	}
	char text[300];
	if (device->contradictions) {
		snprintf(text, sizeof(text),
		        "cuda:%d: %" PRIu64
		        " blocks are allocated in the segments and free in the trace",
		        device->index, device->contradictions);
		gm_log_writer_gap(writing->log, text);
	}
	if (!count && !segments)
		return NULL;
	snprintf(text, sizeof(text),
	        writing->snapshot->has_traces && device->trace.count
	                ? "cuda:%d: %" PRIu64 " blocks (%" PRIu64 " bytes) and %" PRIu64
	                  " segments are older than the trace, which began late or lost its start"
	                : "cuda:%d: no trace: %" PRIu64 " blocks (%" PRIu64 " bytes) and %" PRIu64
	                  " segments were there when the snapshot was taken, in no known order",
	        device->index, count, bytes, segments);
	gm_log_writer_gap(writing->log, text);
	return NULL;
}

static struct gm_error *put_entry(struct writing *writing, struct gm_trace_device *device)
{
	const struct gm_entry *entry =
	        &writing->snapshot->pickle.entries.items[device->trace.items[device->next++]];
	uint8_t action = gm_snapshot_action(writing->snapshot, entry->action);
	if (!action) {
		writing->skipped++;
		return NULL;
	}
	struct stacks stacks;
	gm_try(put_stacks(writing, entry->frames, &stacks));
	bool block =
	        action == GM_ALLOC || action == GM_FREE_REQUESTED || action == GM_FREE_COMPLETED;
	uint64_t size = entry->block_size ? entry->block_size : entry->size;
	if (block && !entry->block_size)
		size = (entry->size + 511) / 512 * 512;
	bool last = device->has_segments && device->next == device->trace.count;
	const struct gm_event event = {
	        .action = action,
	        .device_type = 1,
	        .device = device->index,
	        .time_ns = entry->time_us * 1000,
	        .address = entry->address,
	        .size = size,
	        .requested = entry->size,
	        .stream = entry->stream,
	        /* What the segments sum up to is the allocator's own count at the end. */
	        .allocated = last ? device->allocated : UINT64_MAX,
	        .reserved = last ? device->reserved : UINT64_MAX,
	        .python_stack = stacks.python,
	        .native_stack = stacks.native,
	};
	gm_log_writer_event(writing->log, &event);
	return NULL;
}

static uint64_t next_time(const struct gm_snapshot *snapshot, const struct gm_trace_device *device)
{
	return snapshot->pickle.entries.items[device->trace.items[device->next]].time_us;
}

/* The device whose next entry is the earliest; NULL: all is written. */
static struct gm_trace_device *earliest(const struct gm_snapshot *snapshot)
{
	struct gm_trace_device *found = NULL;
	for (size_t i = 0; i < snapshot->devices.count; i++) {
		struct gm_trace_device *device = &snapshot->devices.items[i];
		if (device->next < device->trace.count &&
		        (!found || next_time(snapshot, device) < next_time(snapshot, found)))
			found = device;
	}
	return found;
}

static struct gm_error *write_all(struct writing *writing)
{
	struct gm_snapshot *snapshot = writing->snapshot;
	struct gm_trace_device *device = earliest(snapshot);
	uint64_t start = device ? next_time(snapshot, device) : 0;
	for (size_t i = 0; i < snapshot->devices.count; i++)
		gm_try(put_before(writing, &snapshot->devices.items[i], start));
	while ((device = earliest(snapshot)))
		gm_try(put_entry(writing, device));
	if (writing->skipped) {
		char text[120];
		snprintf(text, sizeof(text),
		        "%" PRIu64 " entries have an action that is not known: left out",
		        writing->skipped);
		gm_log_writer_gap(writing->log, text);
	}
	return NULL;
}

struct gm_error *gm_snapshot_write(struct gm_snapshot *snapshot, struct gm_log_writer *log)
{
	struct writing *writing = calloc(1, sizeof(*writing));
	if (!writing)
		return &gm_error_no_memory;
	writing->snapshot = snapshot;
	writing->log = log;
	writing->text = malloc(GM_LOG_STRING_MAX + 1);
	struct gm_error *error = writing->text ? write_all(writing) : &gm_error_no_memory;
	gm_array_deinit(&writing->stacks);
	free(writing->text);
	free(writing);
	return error;
}
