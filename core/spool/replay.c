/*
 * Translates the agent's events into those of a log, in the form that recording at breakpoints
 * writes (core/record): a free gets the data of its allocation, a free that need not wait becomes
 * two events, and a segment gets the device and stream of the block for which it was allocated.
 */
#include <stdio.h>
#include <string.h>

#include "cpython/decode/recorded.h"
#include "spool/replay_state.h"
#include "spool/segments.h"

static struct live_block *find_block(
        struct gm_spool_replay *replay, uint64_t address, uint64_t type)
{
	const uint64_t key[2] = {address, type};
	struct live_block *block;
	HASH_FIND(hh, replay->blocks, key, sizeof(key), block);
	return block;
}

static void keep_block(struct gm_spool_replay *replay, const struct gm_event *event)
{
	struct live_block *block = find_block(replay, event->address, event->device_type);
	if (!block) {
		block = calloc(1, sizeof(*block));
		if (!block) {
			replay->no_memory = true;
			return;
		}
		block->key[0] = event->address;
		block->key[1] = event->device_type;
		HASH_ADD(hh, replay->blocks, key, sizeof(block->key), block);
	}
	block->size = event->size;
	block->requested = event->requested;
	block->stream = event->stream;
	block->preexisting = event->flags & GM_EVENT_PREEXISTING;
}

static void forget_block(struct gm_spool_replay *replay, struct live_block *block)
{
	if (block) {
		HASH_DEL(replay->blocks, block);
		free(block);
	}
}

/* ---- iterations of loops
 * ------------------------------------------------------------------------- */

void gm_spool_replay_iteration(
        struct gm_spool_replay *replay, uint32_t thread_id, struct gm_bytes payload)
{
	struct thread_state *thread = gm_spool_thread(replay, thread_id);
	struct gm_cursor in = {.at = payload.at, .end = payload.at + payload.size};
	struct pending_iteration iteration = {.code = gm_get_u32(&in), .slot = gm_get_u32(&in)};
	iteration.position = gm_get_varint(&in);
	if (thread && !in.bad && thread->iterations.count < 64 &&
	        !gm_array_push(&thread->iterations, iteration))
		replay->no_memory = true;
}

/* The loop of a frame of `stack` whose iterator is at `slot` of the value stack: for the outermost
 * frame of the code. */
static bool loop_of(struct gm_spool_tables *tables, uint32_t stack, uint32_t code_id, uint32_t slot,
        uint32_t *ret_loop)
{
	struct gm_spool_stack node;
	uint32_t offset = 0;
	bool found = false;
	for (size_t i = 0; i < GM_LOG_STACK_MAX && gm_spool_python_node(tables, stack, &node);
	        i++) {
		if (node.code == code_id) {
			offset = node.offset;
			found = true;
		}
		stack = node.parent;
	}
	const struct gm_code *code = found ? gm_spool_code_of(tables, code_id) : NULL;
	const uint32_t line = code ? gm_python_line(code, offset) : 0;
	for (uint32_t i = 0; code && i < code->loop_count; i++) {
		const struct gm_loop *loop = &code->loops[i];
		if (!gm_loop_contains(loop, offset, line))
			continue;
		if (gm_python_recorded_iterator(tables->python, code, loop->start) == (int)slot) {
			*ret_loop = i;
			return true;
		}
	}
	return false;
}

static void write_iteration(
        struct gm_spool_replay *replay, const struct pending_iteration *pending, uint32_t stack)
{
	uint32_t code = pending->code, loop;
	uint64_t position = pending->position;
	if (!loop_of(replay->tables, stack, code, pending->slot, &loop))
		return;
	struct known_loop *known = NULL;
	for (size_t i = 0; i < replay->loop_count && !known; i++)
		if (replay->loops[i].code == code && replay->loops[i].loop == loop)
			known = &replay->loops[i];
	if (!known) {
		if (replay->loop_count == LOOPS_MAX)
			return;
		known = &replay->loops[replay->loop_count++];
		*known = (struct known_loop){code, loop, GM_LOG_NO_POSITION};
	}
	position = position ? position - 1 : GM_LOG_NO_POSITION;
	if (position == known->position)
		return;
	known->position = position;
	const struct gm_log_iteration iteration = {.event = replay->written,
	        .code = gm_spool_code(replay->tables, code),
	        .loop = loop,
	        .position = position};
	if (iteration.code)
		gm_log_writer_iteration(replay->log, &iteration);
}

enum { MARKS_MAX = 4096 }; /* of a thread, between two of its events */

/* ---- marks ---- */

void gm_spool_replay_mark(
        struct gm_spool_replay *replay, uint32_t thread_id, struct gm_bytes payload)
{
	enum { NAME_MAX_SIZE = 1 << 14 };
	struct thread_state *thread = gm_spool_thread(replay, thread_id);
	struct gm_cursor in = {.at = payload.at, .end = payload.at + payload.size};
	struct pending_mark mark = {.kind = gm_get_u32(&in)};
	uint64_t size = gm_get_varint(&in);
	if (!thread || in.bad || size > (uint64_t)(in.end - in.at) || size >= NAME_MAX_SIZE)
		return;
	/* The same position of another task's iterator is new. */
	if (mark.kind == GM_MARK_TASK)
		replay->loop_count = 0;
	/* A range without events is omitted: emit_nvtx() creates one for every operation. But the
	 * step of an optimizer ends a training step, even if it allocates nothing. */
	size_t count = thread->marks.count;
	if (mark.kind == GM_MARK_POP && count &&
	        thread->marks.items[count - 1].kind == GM_MARK_PUSH &&
	        strncmp(thread->marks.items[count - 1].name, "Optimizer.", 10) != 0) {
		free(thread->marks.items[--thread->marks.count].name);
		return;
	}
	/* It ends right after the thread's last event, not before the next, as events of other
	 * threads may come between. */
	if (mark.kind == GM_MARK_POP && !count && !thread->holds) {
		gm_log_writer_mark(replay->log, &(struct gm_log_mark){.event = replay->written,
		                                        .thread = thread->thread,
		                                        .kind = GM_MARK_POP});
		return;
	}
	if (count >= MARKS_MAX)
		return;
	mark.name = strndup((const char *)in.at, size);
	if (!mark.name || !gm_array_push(&thread->marks, mark)) {
		free(mark.name);
		replay->no_memory = true;
	}
}

void gm_spool_replay_amp(
        struct gm_spool_replay *replay, uint32_t thread_id, struct gm_bytes payload)
{
	struct thread_state *thread = gm_spool_thread(replay, thread_id);
	struct gm_cursor in = {.at = payload.at, .end = payload.at + payload.size};
	struct gm_log_amp amp = {.kind = gm_get_u32(&in)};
	amp.python_stack = gm_spool_python_stack(replay->tables, gm_get_u32(&in));
	amp.number = gm_get_u32(&in);
	amp.count = gm_get_u32(&in);
	for (uint32_t i = 0; i < amp.count && i < GM_LOG_AMP_VALUES; i++) {
		uint64_t bits = gm_get_varint(&in);
		memcpy(&amp.values[i], &bits, sizeof(bits));
	}
	if (!thread || in.bad || amp.count > GM_LOG_AMP_VALUES || thread->marks.count >= MARKS_MAX)
		return;
	struct pending_mark mark = {.amp = malloc(sizeof(amp))};
	if (mark.amp)
		*mark.amp = amp;
	if (!mark.amp || !gm_array_push(&thread->marks, mark)) {
		free(mark.amp);
		replay->no_memory = true;
	}
}

static void write_amp(
        struct gm_spool_replay *replay, const struct thread_state *thread, struct gm_log_amp *amp)
{
	amp->event = replay->written;
	amp->thread = thread->thread;
	gm_log_writer_amp(replay->log, amp);
}

/* At the end, if no event of the thread follows. */
static void write_amps(struct gm_spool_replay *replay, struct thread_state *thread)
{
	for (size_t i = 0; i < thread->marks.count; i++)
		if (thread->marks.items[i].amp)
			write_amp(replay, thread, thread->marks.items[i].amp);
	gm_spool_forget_marks(thread);
}

static void write_marks(struct gm_spool_replay *replay, struct thread_state *thread)
{
	for (size_t i = 0; i < thread->marks.count; i++) {
		const struct pending_mark *pending = &thread->marks.items[i];
		if (pending->amp) {
			write_amp(replay, thread, pending->amp);
			continue;
		}
		struct gm_log_mark mark = {
		        .event = replay->written, .thread = thread->thread, .kind = pending->kind};
		/* the name that emit_nvtx() gives each of its ranges
		 * (torch/csrc/autograd/profiler_legacy.cpp, getNvtxStr()) */
		for (const char *end = ", seq = \0, op_id = \0"; *end && mark.kind == GM_MARK_PUSH;
		        end += strlen(end) + 1) {
			char *cut = strstr(pending->name, end);
			if (cut)
				*cut = 0;
		}
		mark.name = *pending->name ? gm_log_writer_string(replay->log, pending->name) : 0;
		gm_log_writer_mark(replay->log, &mark);
	}
	gm_spool_forget_marks(thread);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The device's counters after the event, either recorded or derived. */
static void count(
        struct gm_spool_replay *replay, const struct gm_spool_event *from, struct gm_event *event)
{
	if (from->device_type != CUDA || from->bits & GM_AGENT_NO_COUNTERS)
		return;
	struct counters *counters = &replay->counters[event->device];
	if (from->bits & GM_AGENT_HAS_ALLOCATED)
		counters->allocated = from->allocated;
	else if (event->action == GM_ALLOC)
		counters->allocated += event->size;
	else if (event->action == GM_FREE_REQUESTED)
		counters->allocated -= event->size;
	if (from->bits & GM_AGENT_HAS_RESERVED)
		counters->reserved = from->reserved;
	event->allocated = counters->allocated;
	event->reserved = counters->reserved;
	uint64_t all = 0;
	for (int i = 0; i < GM_TORCH_DEVICES_MAX; i++)
		all += replay->counters[i].allocated;
	if (all > replay->cuda_peak)
		replay->cuda_peak = all;
}

static void alloc(
        struct gm_spool_replay *replay, const struct gm_spool_event *from, struct gm_event *event)
{
	struct thread_state *thread = gm_spool_thread(replay, from->thread);
	if (thread)
		gm_spool_write_held(replay, thread, event);
	count(replay, from, event);
	/* It was being allocated when recording began: it was among the existing blocks, and is
	 * reported here again. */
	struct live_block *known = find_block(replay, event->address, event->device_type);
	if (known && known->preexisting && !(event->flags & GM_EVENT_PREEXISTING) &&
	        known->size == event->size) {
		known->preexisting = false;
		return;
	}
	gm_spool_write(replay, event);
	keep_block(replay, event);
	if (event->device_type == CPU) {
		replay->cpu_allocated += event->size;
		if (replay->cpu_allocated > replay->cpu_peak)
			replay->cpu_peak = replay->cpu_allocated;
	}
}

static void free_requested(
        struct gm_spool_replay *replay, const struct gm_spool_event *from, struct gm_event *event)
{
	struct live_block *block = find_block(replay, event->address, event->device_type);
	if (event->device_type == CPU) {
		/* also called for empty tensors, and for memory from before */
		if (!block)
			return;
		event->size = block->size;
		replay->cpu_allocated -= block->size;
	}
	if (block) {
		event->requested = block->requested;
		event->stream = block->stream;
	} else {
		event->stream = 0;
	}
	event->evidence = gm_spool_evidence(replay->tables, from->evidence);
	count(replay, from, event);
	gm_spool_write(replay, event);
	if (from->bits & GM_AGENT_DEFERRED) {
		if (!block)
			keep_block(replay, event);
		return;
	}
	event->action = GM_FREE_COMPLETED;
	gm_spool_write(replay, event);
	forget_block(replay, block);
}

static void free_completed(struct gm_spool_replay *replay, struct gm_event *event)
{
	struct live_block *block = find_block(replay, event->address, event->device_type);
	if (!block && replay->beginning_dropped)
		return; /* the request was dropped, and so was the block */
	const struct counters *counters = &replay->counters[event->device];
	if (block) {
		event->requested = block->requested;
		event->stream = block->stream;
	}
	event->allocated = counters->allocated;
	event->reserved = counters->reserved;
	gm_spool_write(replay, event);
	forget_block(replay, block);
}

/* Whether autograd records in the event's thread; 0: not in the file. */
static uint32_t grad_flag(const struct gm_spool_replay *replay, const struct gm_spool_event *from)
{
	bool is_block = from->action == GM_AGENT_ALLOC || from->action == GM_AGENT_FREE_REQUESTED;
	if (!(replay->file->header.features & GM_AGENT_HAS_GRAD) || !is_block ||
	        from->source != GM_AGENT_C10 || from->bits & GM_AGENT_PREEXISTING)
		return 0;
	return from->bits & GM_AGENT_NO_GRAD ? GM_EVENT_NO_GRAD : GM_EVENT_GRAD;
}

/* The device's free memory at the out-of-memory error that is the next event. */
static void put_free(struct gm_spool_replay *replay, uint64_t bytes)
{
	char name[48];
	snprintf(name, sizeof(name), "oom.%ju.free", (uintmax_t)replay->written);
	gm_log_writer_counter(replay->log, name, bytes);
}

void gm_spool_replay_event(struct gm_spool_replay *replay, const struct gm_spool_event *from)
{
	if (from->sequence >= replay->next_sequence) { /* else the file is damaged */
		replay->missing += from->sequence - replay->next_sequence;
		replay->next_sequence = from->sequence + 1;
	}
	gm_spool_named_write(&replay->tables->named, replay->log, from->sequence, replay->written);
	if (from->device_type > CUDA || from->device >= GM_TORCH_DEVICES_MAX) {
		replay->outside++;
		return;
	}
	struct gm_event event = {
	        .action = from->action,
	        .device_type = from->device_type,
	        .device = from->device < 0 ? 0 : from->device,
	        .flags = (from->bits & GM_AGENT_BORROWED ? GM_EVENT_BORROWED : 0) |
	                 (from->bits & GM_AGENT_PREEXISTING ? GM_EVENT_PREEXISTING : 0) |
	                 grad_flag(replay, from),
	        .thread = from->thread,
	        .time_ns = from->time_ns,
	        .address = from->address,
	        .size = from->size,
	        .requested = from->requested,
	        .stream = from->stream,
	        .allocated = UINT64_MAX,
	        .reserved = UINT64_MAX,
	        .python_stack = gm_spool_python_stack(replay->tables, from->python),
	        .native_stack = gm_spool_native_stack(replay->tables, from->native),
	        .tensor = gm_spool_tensor(replay->tables, from->tensor),
	};
	gm_spool_end_unmap(replay, from);
	struct thread_state *thread = gm_spool_thread(replay, from->thread);
	for (size_t i = 0; thread && i < thread->iterations.count; i++)
		write_iteration(replay, &thread->iterations.items[i], from->python);
	if (thread) {
		thread->iterations.count = 0;
		write_marks(replay, thread);
		if (from->action != GM_AGENT_ALLOC && from->action != GM_AGENT_SEGMENT_MAP)
			gm_spool_write_held(replay, thread, NULL);
	}
	if (from->source != GM_AGENT_C10) {
		replay->written += gm_spool_external_event(replay->external, from, &event);
		return;
	}
	switch ((enum gm_agent_action)from->action) {
	case GM_AGENT_ALLOC:
		alloc(replay, from, &event);
		break;
	case GM_AGENT_FREE_REQUESTED:
		free_requested(replay, from, &event);
		break;
	case GM_AGENT_FREE_COMPLETED:
		free_completed(replay, &event);
		break;
	case GM_AGENT_SEGMENT_ALLOC:
	case GM_AGENT_SEGMENT_MAP:
		gm_spool_segment_alloc(replay, from, &event);
		break;
	case GM_AGENT_SEGMENT_FREE:
		gm_spool_segment_free(replay, &event);
		break;
	case GM_AGENT_SEGMENT_UNMAP:
		gm_spool_segment_unmap(replay, &event);
		break;
	case GM_AGENT_OOM:
		event.address = 0;
		if (from->device_type == CUDA)
			replay->cuda_ooms++;
		if (from->device_type == CUDA && !(from->bits & GM_AGENT_NO_COUNTERS))
			count(replay, from, &event);
		if (from->address)
			put_free(replay, from->address - 1);
		gm_spool_write(replay, &event);
		break;
	case GM_AGENT_SNAPSHOT:
	case GM_AGENT_ACTION_COUNT:
		break;
	}
}

void gm_spool_replay_carried(struct gm_spool_replay *replay, const struct gm_spool_event *event)
{
	struct gm_spool_event carried = *event;
	carried.sequence = replay->next_sequence;
	/* its previous size is not that of its remainder */
	carried.bits &= ~(uint32_t)(GM_AGENT_HAS_ALLOCATED | GM_AGENT_HAS_RESERVED);
	gm_spool_replay_event(replay, &carried);
}

void gm_spool_replay_from(struct gm_spool_replay *replay, uint64_t beginning)
{
	struct thread_state *thread, *next;
	HASH_ITER(hh, replay->threads, thread, next)
	{
		gm_spool_write_held(replay, thread, NULL);
	}
	replay->next_sequence = beginning;
	replay->beginning_dropped = true;
}

void gm_spool_replay_skip(struct gm_spool_replay *replay, uint32_t id)
{
	struct thread_state *thread = gm_spool_thread(replay, id);
	if (!thread)
		return;
	thread->iterations.count = 0;
	gm_spool_forget_marks(thread);
}

/* In an extent that is not finished a thread may have been writing one event. */
static uint64_t count_written_to(const struct gm_spool_file *file)
{
	uint64_t count = 0;
	for (uint32_t i = 0; i < file->extents; i++) {
		const struct gm_agent_extent_header *extent = gm_spool_extent_header(file, i);
		count += extent->magic && extent->kind == GM_AGENT_EVENTS && !extent->finished;
	}
	return count;
}

bool gm_spool_replay_failed(const struct gm_spool_replay *replay)
{
	return gm_log_writer_failed(replay->log);
}

static void note_missing(struct gm_spool_replay *replay)
{
	char text[256];
	const char *why = "the file lacks the records";
	if (replay->missing <= count_written_to(replay->file))
		why = gm_spool_runs(&replay->file->header)
		              ? "threads had not finished writing when the file was read"
		              : "threads had not finished writing when the recording ended";
	snprintf(text, sizeof(text), "%ju event%s missing in between: %s",
	        (uintmax_t)replay->missing, replay->missing == 1 ? " is" : "s are", why);
	gm_log_writer_gap(replay->log, text);
}

void gm_spool_replay_end(struct gm_spool_replay *replay, struct gm_spool_summary *summary)
{
	struct thread_state *thread, *next;
	gm_spool_end_unmap(replay, NULL);
	HASH_ITER(hh, replay->threads, thread, next)
	{
		gm_spool_write_held(replay, thread, NULL);
		write_amps(replay, thread);
	}
	gm_spool_named_write(&replay->tables->named, replay->log, UINT64_MAX, replay->written);
	if (replay->missing)
		note_missing(replay);
	if (replay->no_memory)
		gm_log_writer_gap(replay->log, "there was too little memory for reading: the "
		                               "lifetimes of blocks are incomplete");
	summary->events = replay->written;
	summary->lost += replay->missing;
	summary->cuda_peak =
	        replay->cuda_peak ? replay->cuda_peak : gm_spool_external_peak(replay->external);
	summary->cpu_peak = replay->cpu_peak;
	summary->ooms = replay->cuda_ooms;
}
