/*
 * Writes a snapshot's devices into a log: first the existing blocks, then the traces, merged by
 * their times. Strings, stacks and notes are written; the events remain the snapshot's entries,
 * with the log's numbers of their stacks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "import/device_type.h"
#include "import/snapshot.h"
#include "import/stacks.h"
#include "import/values.h"
#include "log/format.h"

/* The log's ids for parts of the snapshot; 0: not written yet. */
struct stacks {
	uint32_t python, native;
	uint32_t waiting; /* the Python frames from the waiting backward() outwards, 0: it does not
	                     wait */
	bool on_main;     /* its outermost frame is the program's */
	bool written;
};

struct writing {
	struct gm_snapshot *snapshot;
	struct gm_log_writer *log;
	struct gm_import_stacks read;
	struct gm_import_loops loops;
	struct stacks *stacks; /* by number of the stack */
	size_t stack_capacity;
	uint64_t *frames;  /* log ids by number; of native frames their addresses */
	uint32_t *leaving; /* log ids by number of frames that leave a `with` */
	uint32_t *codes;
	size_t frame_capacity, leaving_capacity, code_capacity;
	uint32_t native_count;
	uint32_t *modules; /* number from 1 by string id of a library's path; 0: not written yet */
	uint32_t module_count;
	char *text; /* of a string in progress */
	struct gm_snapshot_events *events;
	uint64_t skipped;
	bool frees_have_stacks;
	uint32_t main_code; /* of the outermost frame of the first stack; UINT32_MAX: none yet */
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

/* Names of ranges and metadata become strings of the log. */
static void put_names(struct writing *writing)
{
	struct gm_snapshot *snapshot = writing->snapshot;
	for (size_t i = 0; i < snapshot->annotations.items.count; i++) {
		struct gm_annotation *one = &snapshot->annotations.items.items[i];
		one->name = put_string(writing, one->name);
	}
	for (size_t i = 0; i < snapshot->pickle.metadata.count; i++) {
		struct gm_metadata *one = &snapshot->pickle.metadata.items[i];
		one->text = one->text ? put_string(writing, one->text) : 0;
	}
}

static uint32_t put_code(struct writing *writing, uint32_t number)
{
	enum { LOOPS_MAX = 64 };
	if (writing->codes[number])
		return writing->codes[number];
	const struct gm_import_code *code = &writing->read.codes.items[number];
	struct gm_log_loop loops[LOOPS_MAX];
	struct gm_log_code record = {
	        .file = put_string(writing, code->file),
	        .name = put_string(writing, code->name),
	        .loops = loops,
	};
	for (size_t i = 0; i < writing->loops.items.count && record.loop_count < LOOPS_MAX; i++) {
		const struct gm_import_loop *loop = &writing->loops.items.items[i];
		if (loop->code != number || loop->last_line == UINT32_MAX)
			continue;
		loops[record.loop_count++] = (struct gm_log_loop){
		        loop->first_line, loop->last_line + 1, loop->first_line, loop->last_line};
	}
	return writing->codes[number] = gm_log_writer_code(writing->log, &record);
}

/*
 * A frame of machine code is a library and an offset in it. A snapshot does not contain the
 * library's address: each gets 4 GiB of addresses, in the order in which they are first seen. Below
 * the first are the frames with a known source, which have numbers as addresses.
 */
static uint64_t put_code_in_object(struct writing *writing, const struct gm_import_frame *frame)
{
	enum { SPAN_BITS = 32 };
	const struct gm_import_code *code = &writing->read.codes.items[frame->code];
	uint32_t *module = &writing->modules[code->file];
	if (!*module) {
		*module = ++writing->module_count;
		uint64_t start = (uint64_t)*module << SPAN_BITS;
		const struct gm_log_module record = {
		        .path = put_string(writing, code->file),
		        .start = start,
		        .end = start + (UINT64_C(1) << SPAN_BITS),
		        .bias = start,
		};
		gm_log_writer_module(writing->log, &record);
	}
	size_t length;
	uint64_t address = ((uint64_t)*module << SPAN_BITS) + frame->line;
	const char *name = gm_pickle_string(&writing->snapshot->pickle, code->name, &length);
	if (length && !(length == 2 && memcmp(name, "??", 2) == 0))
		gm_log_writer_symbol(writing->log, address, put_string(writing, code->name), 0, 0);
	return address;
}

/* The log id of a Python frame, the address of a native one. */
static uint64_t put_frame(struct writing *writing, uint32_t number)
{
	if (writing->frames[number])
		return writing->frames[number];
	const struct gm_import_frame *frame = &writing->read.frames.items[number];
	const struct gm_import_code *code = &writing->read.codes.items[frame->code];
	if (frame->in_object)
		return writing->frames[number] = put_code_in_object(writing, frame);
	if (frame->native) {
		/* Its address is not in the file: a number of our own carries its name. */
		uint32_t address = ++writing->native_count;
		uint32_t name = put_string(writing, code->name);
		gm_log_writer_symbol(writing->log, address, name,
		        frame->line ? put_string(writing, code->file) : 0, frame->line);
		return writing->frames[number] = address;
	}
	/* Lines represent instructions: they have the same order, and loops are given in lines too.
	 * */
	const struct gm_log_frame record = {
	        .code = put_code(writing, frame->code), .lasti = frame->line, .line = frame->line};
	return writing->frames[number] = gm_log_writer_frame(writing->log, &record);
}

/* A frame that leaves a `with`: its line is the first one again, but control has reached the end.
 * Taken as a way up, it would be another call of the function. */
static uint32_t put_leaving_frame(struct writing *writing, uint32_t number)
{
	const struct gm_import_frame *frame = &writing->read.frames.items[number];
	uint32_t from = gm_import_loops_left_from(&writing->loops, frame->code, frame->line);
	if (from == frame->line)
		return (uint32_t)put_frame(writing, number);
	if (!writing->leaving[number]) {
		const struct gm_log_frame record = {
		        .code = put_code(writing, frame->code), .lasti = from, .line = frame->line};
		writing->leaving[number] = gm_log_writer_frame(writing->log, &record);
	}
	return writing->leaving[number];
}

static bool grow(void **ids, size_t *capacity, size_t count, size_t size)
{
	size_t before = *capacity;
	if (!gm_array_grow(ids, capacity, before, count - before + 1, size))
		return false;
	memset((char *)*ids + before * size, 0, (*capacity - before) * size);
	return true;
}

/* All data of a list of frames, as ids of the log. */
static struct gm_error *put_stacks(
        struct writing *writing, gm_value frames, struct stacks *ret_stacks)
{
	uint32_t number;
	*ret_stacks = (struct stacks){0};
	gm_try(gm_import_stack(&writing->read, frames, &number));
	if (number == GM_NO_STACK)
		return NULL;
	if ((writing->read.frames.count >= writing->frame_capacity &&
	            !grow((void **)&writing->frames, &writing->frame_capacity,
	                    writing->read.frames.count, sizeof(*writing->frames))) ||
	        (writing->read.frames.count >= writing->leaving_capacity &&
	                !grow((void **)&writing->leaving, &writing->leaving_capacity,
	                        writing->read.frames.count, sizeof(*writing->leaving))) ||
	        (writing->read.codes.count >= writing->code_capacity &&
	                !grow((void **)&writing->codes, &writing->code_capacity,
	                        writing->read.codes.count, sizeof(*writing->codes))))
		return &gm_error_no_memory;
	if (number >= writing->stack_capacity) {
		size_t before = writing->stack_capacity;
		if (!gm_array_grow((void **)&writing->stacks, &writing->stack_capacity, before,
		            number - before + 1, sizeof(*writing->stacks)))
			return &gm_error_no_memory;
		memset(writing->stacks + before, 0,
		        (writing->stack_capacity - before) * sizeof(*writing->stacks));
	}
	struct stacks *stacks = &writing->stacks[number];
	if (!stacks->written) {
		const struct gm_import_stack *stack = &writing->read.stacks.items[number];
		const uint32_t *members = stack->python || stack->native
		                                  ? writing->read.members.items + stack->first
		                                  : NULL;
		for (uint32_t i = 0; i < stack->python; i++)
			writing->python_frames[i] =
			        i && gm_import_leaves_with(&writing->read, members[i - 1])
			                ? put_leaving_frame(writing, members[i])
			                : (uint32_t)put_frame(writing, members[i]);
		for (uint32_t i = 0; i < stack->native; i++)
			writing->native_frames[i] = put_frame(writing, members[stack->python + i]);
		stacks->python = gm_log_writer_python_stack(
		        writing->log, writing->python_frames, stack->python);
		stacks->native = gm_log_writer_native_stack(
		        writing->log, writing->native_frames, stack->native);
		if (stack->python) {
			uint32_t code = writing->read.frames.items[members[stack->python - 1]].code;
			if (writing->main_code == UINT32_MAX)
				writing->main_code = code;
			stacks->on_main = code == writing->main_code;
		}
		if (stack->backward != UINT32_MAX)
			stacks->waiting = gm_log_writer_python_stack(writing->log,
			        writing->python_frames + stack->backward,
			        stack->python - stack->backward);
		stacks->written = true;
	}
	*ret_stacks = *stacks;
	return NULL;
}

/* The stack of an entry, or none if it is that of another event. */
static gm_value frames_of(const struct gm_trace_device *device, const struct gm_entry *entry)
{
	bool freed = entry->action == GM_FREE_REQUESTED || entry->action == GM_FREE_COMPLETED;
	return freed && device->frees_as_made && !device->frees_on_their_own ? GM_VALUE_NONE
	                                                                     : entry->frames;
}

/* Reads all stacks of the traces, and finds the loops that follow from them: codes are written with
 * their loops. */
static struct gm_error *read_stacks(struct writing *writing)
{
	struct gm_snapshot *snapshot = writing->snapshot;
	for (size_t i = 0; i < snapshot->devices.count; i++) {
		const struct gm_trace_device *device = &snapshot->devices.items[i];
		writing->loops.last = GM_NO_STACK;
		for (uint32_t j = 0; j < device->count; j++) {
			const struct gm_entry *entry =
			        &snapshot->pickle.entries.items[device->first + j];
			uint32_t stack;
			gm_try(gm_import_stack(&writing->read, frames_of(device, entry), &stack));
			if (stack == GM_NO_STACK || stack == writing->loops.last)
				continue;
			if (!gm_import_loops_feed(&writing->loops, stack))
				return &gm_error_no_memory;
			writing->frees_have_stacks |= entry->action == GM_FREE_REQUESTED &&
			                              writing->read.stacks.items[stack].python;
		}
	}
	gm_import_loops_finish(&writing->loops);
	return NULL;
}

static uint8_t number_of(const struct writing *writing, const struct gm_trace_device *device)
{
	return (uint8_t)(device - writing->snapshot->devices.items);
}

/* An event for an existing block is an entry of our own. */
static struct gm_error *put_old(struct writing *writing, const struct gm_trace_device *device,
        const struct gm_before *before, uint8_t action, const struct stacks *stacks,
        uint64_t time_us)
{
	struct gm_pickle *pickle = &writing->snapshot->pickle;
	struct gm_entry entry = {
	        .address = before->address,
	        .size = before->requested,
	        .time_us = time_us,
	        .block_size = before->size,
	        .stacks = {stacks->python, stacks->native},
	        .action = action,
	        .device = number_of(writing, device),
	        .flags = GM_EVENT_PREEXISTING,
	};
	if (!gm_pickle_stream_number(pickle, before->stream, &entry.stream) ||
	        !gm_array_push(&pickle->entries, entry) ||
	        !gm_array_push(&writing->events->order, (uint32_t)pickle->entries.count - 1))
		return &gm_error_no_memory;
	return NULL;
}

/* Segments come first, as each block is in one; then the blocks that are not allocated any more,
 * which would raise the peak after others. */
enum turn { TURN_SEGMENTS, TURN_PENDING, TURN_BLOCKS, TURNS };

static enum turn turn_of(const struct gm_before *before)
{
	if (before->action != GM_ALLOC)
		return TURN_SEGMENTS;
	return before->free_pending ? TURN_PENDING : TURN_BLOCKS;
}

static struct gm_error *put_turn(struct writing *writing, const struct gm_trace_device *device,
        enum turn turn, uint64_t time_us)
{
	for (size_t i = 0; i < device->before.count; i++) {
		const struct gm_before *before = &device->before.items[i];
		struct stacks stacks;
		if (turn_of(before) != turn)
			continue;
		gm_try(put_stacks(writing, before->frames, &stacks));
		gm_try(put_old(writing, device, before, before->action, &stacks, time_us));
		if (before->free_pending)
			gm_try(put_old(
			        writing, device, before, GM_FREE_REQUESTED, &stacks, time_us));
	}
	return NULL;
}

static struct gm_error *put_before(
        struct writing *writing, const struct gm_trace_device *device, uint64_t time_us)
{
	uint64_t count = 0, bytes = 0, segments = device->mapped_before;
	for (enum turn turn = 0; turn < TURNS; turn++)
		gm_try(put_turn(writing, device, turn, time_us));
	for (size_t i = 0; i < device->before.count; i++) {
		const struct gm_before *before = &device->before.items[i];
		count += before->action == GM_ALLOC;
		bytes += before->action == GM_ALLOC ? before->size : 0;
		segments += before->action == GM_SEGMENT_ALLOC;
	}
	char text[300], name[GM_SNAPSHOT_DEVICE_NAME];
	if (device->contradictions) {
		snprintf(text, sizeof(text),
		        "%s: %" PRIu64
		        " blocks are allocated in the segments and free in the trace",
		        gm_snapshot_device_name(device, name), device->contradictions);
		gm_log_writer_gap(writing->log, text);
	}
	if (gm_lacks_completions(device)) {
		snprintf(text, sizeof(text),
		        "%s: the trace has no free_completed: frees count as completed when they "
		        "were requested",
		        gm_snapshot_device_name(device, name));
		gm_log_writer_gap(writing->log, text);
	}
	if (gm_lacks_allocations(device)) {
		snprintf(text, sizeof(text),
		        "%s: the trace has no allocations: its %" PRIu64
		        " frees are left out, and the blocks are those that existed when the "
		        "snapshot was taken",
		        gm_snapshot_device_name(device, name),
		        device->requests > device->completions ? device->requests
		                                               : device->completions);
		gm_log_writer_gap(writing->log, text);
		return NULL;
	}
	if (!count && !segments)
		return NULL;
	snprintf(text, sizeof(text),
	        writing->snapshot->has_traces && device->count
	                ? "%s: %" PRIu64 " block%s (%" PRIu64 " bytes) and %" PRIu64
	                  " segment%s are older than the trace, which began late or lost its start"
	                : "%s: no trace: %" PRIu64 " block%s (%" PRIu64 " bytes) and %" PRIu64
	                  " segment%s existed when the snapshot was taken, in an unknown order",
	        gm_snapshot_device_name(device, name), count, gm_text_s(count), bytes, segments,
	        gm_text_s(segments));
	gm_log_writer_gap(writing->log, text);
	return NULL;
}

/*
 * The autograd thread has no Python frames. Its events between two events of a caller that waits in
 * backward() get the stack of that caller, marked as borrowed.
 */
static bool borrow(struct writing *writing, struct gm_trace_device *device, uint8_t action,
        struct stacks *stacks)
{
	if (stacks->python) {
		/* Python code on the autograd thread itself (a recomputed checkpoint) does not
		 * change who waits */
		if (stacks->on_main)
			device->waiting = stacks->waiting;
		return false;
	}
	bool freed = action == GM_FREE_REQUESTED || action == GM_FREE_COMPLETED;
	if (!device->waiting || (freed && !writing->frees_have_stacks))
		return false;
	stacks->python = device->waiting;
	return true;
}

static struct gm_error *put_entry(struct writing *writing, struct gm_trace_device *device)
{
	uint32_t index = device->first + device->next++;
	struct gm_entry *entry = &writing->snapshot->pickle.entries.items[index];
	uint8_t action = entry->action;
	if (!action) {
		writing->skipped++;
		return NULL;
	}
	bool freed = action == GM_FREE_REQUESTED || action == GM_FREE_COMPLETED;
	if (freed && gm_lacks_allocations(device))
		return NULL;
	struct gm_snapshot *snapshot = writing->snapshot;
	if (snapshot->annotations.items.count || snapshot->pickle.metadata.count)
		gm_try(gm_annotations_say(&snapshot->annotations, writing->log,
		        writing->events->order.count, entry->time_us,
		        gm_annotations_metadata(&snapshot->pickle, index)));
	struct stacks stacks;
	gm_try(put_stacks(writing, frames_of(device, entry), &stacks));
	bool borrowed = borrow(writing, device, action, &stacks);
	bool block =
	        action == GM_ALLOC || action == GM_FREE_REQUESTED || action == GM_FREE_COMPLETED;
	if (!entry->block_size)
		entry->block_size =
		        block && !device->exact ? (entry->size + 511) / 512 * 512 : entry->size;
	entry->stacks.python = stacks.python;
	entry->stacks.native = stacks.native;
	entry->device = number_of(writing, device);
	entry->flags = borrowed ? GM_EVENT_BORROWED : 0;
	if (action == GM_FREE_REQUESTED && gm_lacks_completions(device))
		entry->flags |= GM_EVENT_COMPLETES;
	if (device->has_segments && device->next == device->count)
		entry->flags |= GM_ENTRY_LAST;
	if (action == GM_OOM) {
		char name[48];
		snprintf(name, sizeof(name), "oom.%zu.free", writing->events->order.count);
		gm_log_writer_counter(writing->log, name, entry->address);
		entry->address = 0;
	}
	return gm_array_push(&writing->events->order, index) ? NULL : &gm_error_no_memory;
}

static uint64_t next_time(const struct gm_snapshot *snapshot, const struct gm_trace_device *device)
{
	return snapshot->pickle.entries.items[device->first + device->next].time_us;
}

/* The device whose next entry is the earliest; NULL: everything is written. */
static struct gm_trace_device *earliest(const struct gm_snapshot *snapshot)
{
	struct gm_trace_device *found = NULL;
	for (size_t i = 0; i < snapshot->devices.count; i++) {
		struct gm_trace_device *device = &snapshot->devices.items[i];
		if (device->next < device->count &&
		        (!found || next_time(snapshot, device) < next_time(snapshot, found)))
			found = device;
	}
	return found;
}

static struct gm_error *write_all(struct writing *writing)
{
	struct gm_snapshot *snapshot = writing->snapshot;
	size_t count = 0;
	for (size_t i = 0; i < snapshot->devices.count; i++)
		count += snapshot->devices.items[i].count +
		         2 * snapshot->devices.items[i].before.count;
	if (!gm_array_reserve(&writing->events->order, count))
		return &gm_error_no_memory;
	put_names(writing);
	gm_try(read_stacks(writing));
	struct gm_trace_device *device = earliest(snapshot);
	uint64_t start = device ? next_time(snapshot, device) : 0;
	for (size_t i = 0; i < snapshot->devices.count; i++)
		gm_try(put_before(writing, &snapshot->devices.items[i], start));
	while ((device = earliest(snapshot)))
		gm_try(put_entry(writing, device));
	if (snapshot->overflowed)
		gm_log_writer_gap(writing->log,
		        "the recorder's ring was full and overwrote the oldest entries of the "
		        "trace");
	if (snapshot->pickle.behind) {
		char text[160];
		snprintf(text, sizeof(text),
		        "%" PRIu64 " bytes follow the snapshot in its file and were not read, from "
		        "offset %" PRIu64 " on: a second snapshot?",
		        snapshot->pickle.behind,
		        snapshot->pickle.file_size - snapshot->pickle.behind);
		gm_log_writer_gap(writing->log, text);
	}
	if (snapshot->host_is_not_known)
		gm_log_writer_gap(writing->log,
		        "host_segments or host_traces have an unknown format: left out");
	if (writing->skipped) {
		char text[120];
		snprintf(text, sizeof(text), "%" PRIu64 " entries have an unknown action: left out",
		        writing->skipped);
		gm_log_writer_gap(writing->log, text);
	}
	return NULL;
}

struct gm_error *gm_snapshot_write(struct gm_snapshot *snapshot, struct gm_log_writer *log,
        struct gm_snapshot_events **ret_events)
{
	struct gm_snapshot_events *events = gm_snapshot_events_create(snapshot);
	struct writing *writing = calloc(1, sizeof(*writing));
	if (!events || !writing) {
		free(writing);
		gm_snapshot_events_destroy(events);
		return &gm_error_no_memory;
	}
	writing->snapshot = snapshot;
	writing->log = log;
	writing->events = events;
	writing->main_code = UINT32_MAX;
	writing->text = malloc(GM_LOG_STRING_MAX + 1);
	writing->modules = calloc(snapshot->pickle.strings.count + 1, sizeof(*writing->modules));
	gm_import_loops_init(&writing->loops, &writing->read);
	gm_pickle_slash_files(&snapshot->pickle);
	struct gm_error *error = gm_import_stacks_init(&writing->read, &snapshot->pickle);
	if (!error)
		error = writing->text && writing->modules ? write_all(writing)
		                                          : &gm_error_no_memory;
	gm_import_stacks_deinit(&writing->read);
	gm_import_loops_deinit(&writing->loops);
	free(writing->stacks);
	free(writing->frames);
	free(writing->leaving);
	free(writing->codes);
	free(writing->text);
	free(writing->modules);
	free(writing);
	if (error) {
		gm_snapshot_events_destroy(events);
		return error;
	}
	gm_snapshot_events_take(events, &snapshot->pickle);
	*ret_events = events;
	return NULL;
}
