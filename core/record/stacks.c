/*
 * Call stacks of a stop, interned: a frame that was seen before costs one look-up.
 *
 * Backward of CUDA tensors runs on the autograd engine's own threads, which have no Python frames:
 * such an event gets the stack of the one thread that waits in backward(), and is marked as
 * borrowed. If several wait, they cannot be distinguished and none is borrowed.
 */
#include "record/stacks.h"

#include <stdio.h>
#include <string.h>

#include "base/packages.h"
#include "base/text.h"
#include "record/recorder.h"
#include "record/codes.h"
#include "record/gap.h"
#include "record/loops.h"
#include "record/naming.h"

enum { PYTHON_THREADS_MAX = 256 };

static uint32_t log_code(struct gm_recorder *recorder, const struct gm_code *code)
{
	const struct gm_code_id *known = gm_record_code(recorder, code);
	return known ? known->id : 0;
}

static uint32_t log_frame(struct gm_recorder *recorder, const struct gm_python_frame *frame)
{
	uint64_t key = (uint64_t)frame->code->id << 32 | frame->lasti;
	struct gm_frame_id *known;
	HASH_FIND(hh, recorder->frame_ids, &key, sizeof(key), known);
	if (known)
		return known->id;
	struct gm_instruction instruction = {0};
	gm_python_instruction(recorder->python, frame->code, frame->lasti, &instruction);
	struct gm_log_frame record = {
	        .code = log_code(recorder, frame->code),
	        .lasti = frame->lasti,
	        .line = frame->line,
	        .op = instruction.op,
	        .op_name = gm_log_writer_string(recorder->writer, instruction.name),
	};
	uint32_t id = gm_log_writer_frame(recorder->writer, &record);
	known = malloc(sizeof(*known));
	if (known) {
		*known = (struct gm_frame_id){.key = key, .id = id};
		HASH_ADD(hh, recorder->frame_ids, key, sizeof(known->key), known);
	}
	return id;
}

static uint32_t log_python_stack(struct gm_recorder *recorder, size_t count)
{
	for (size_t i = 0; i < count; i++)
		recorder->frame_log_ids[i] = log_frame(recorder, &recorder->frames[i]);
	return gm_log_writer_python_stack(recorder->writer, recorder->frame_log_ids, count);
}

/* --- borrowed stacks -------------------------------------------------------------------------- */

static bool is_autograd_thread(struct gm_recorder *recorder, pid_t thread)
{
	struct gm_thread_kind *kind;
	HASH_FIND(hh, recorder->threads, &thread, sizeof(thread), kind);
	if (kind)
		return kind->autograd;
	char path[64], name[32] = "";
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)recorder->pid, (int)thread);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (file && !fgets(name, sizeof(name), file))
		name[0] = 0;
	/* torch/csrc/autograd/engine.cpp: set_thread_name("pt_autograd_" + device) */
	bool autograd = strncmp(name, "pt_autograd_", 12) == 0;
	kind = malloc(sizeof(*kind));
	if (kind) {
		*kind = (struct gm_thread_kind){.thread = thread, .autograd = autograd};
		HASH_ADD(hh, recorder->threads, thread, sizeof(kind->thread), kind);
	}
	return autograd;
}

/* torch/autograd/graph.py: the Python function through which backward() and grad() enter the
 * engine. */
static bool waits_in_backward(struct gm_recorder *recorder, pid_t thread)
{
	struct gm_python_frame frame;
	return gm_python_stack(recorder->python, thread, &frame, 1) == 1 &&
	       strcmp(frame.code->name, "_engine_run_backward") == 0 &&
	       gm_text_ends_with(frame.code->file, "torch/autograd/graph.py");
}

/* The one thread that waits in backward(), 0: none or several. */
static pid_t waiting_thread(struct gm_recorder *recorder, pid_t self)
{
	struct gm_python_thread threads[PYTHON_THREADS_MAX];
	size_t count;
	pid_t waiting = 0;
	struct gm_error *error =
	        gm_python_threads(recorder->python, threads, PYTHON_THREADS_MAX, &count);
	if (error) {
		gm_error_destroy(error);
		return 0;
	}
	for (size_t i = 0; i < count; i++) {
		pid_t thread = threads[i].native_id;
		if (thread == 0 || thread == self || !waits_in_backward(recorder, thread))
			continue;
		if (waiting) {
			if (!recorder->reported_waiting)
				gm_record_gap(recorder,
				        "several threads wait in backward() at once: events of the "
				        "autograd threads have no Python stack then");
			recorder->reported_waiting = true;
			return 0;
		}
		waiting = thread;
	}
	return waiting;
}

/* Is there no frame, or only an operator's override in Python (torch/_native/registry.py, 2.15:
 * bmm), which runs on the autograd threads too? */
static bool is_nobodys(const struct gm_python_frame *frames, size_t count)
{
	return count == 0 || gm_file_is_in_torch(frames[count - 1].code->file, "/torch/_native/");
}

/* --- a stop's stacks -------------------------------------------------------------------------- */

static void read_python_stack(struct gm_recorder *recorder, struct gm_moment *moment)
{
	size_t count = gm_python_stack(
	        recorder->python, moment->thread, recorder->frames, recorder->max_frames);
	bool borrows =
	        is_nobodys(recorder->frames, count) && is_autograd_thread(recorder, moment->thread);
	pid_t waiting = borrows ? waiting_thread(recorder, moment->thread) : 0;
	if (waiting) {
		count = gm_python_stack(
		        recorder->python, waiting, recorder->frames, recorder->max_frames);
		if (count > 0)
			moment->flags |= GM_EVENT_BORROWED;
	} else {
		moment->frame_count = count;
	}
	moment->python_stack = log_python_stack(recorder, count);
	gm_record_loops(recorder, count);
	recorder->fed_frames = recorder->frames;
	recorder->fed_count = count;
}

void gm_record_stacks(struct gm_recorder *recorder, struct gm_moment *moment)
{
	if (moment->stacks_read)
		return;
	moment->stacks_read = true;
	if (recorder->python_stacks && recorder->python)
		read_python_stack(recorder, moment);
	if (recorder->python_stacks && !moment->python_stack)
		recorder->python_unread++;
	if (recorder->native_stacks) {
		size_t count = gm_symbols_unwind(recorder->symbols, &moment->registers,
		        recorder->addresses, recorder->max_frames);
		moment->native_stack =
		        gm_log_writer_native_stack(recorder->writer, recorder->addresses, count);
		recorder->fed_addresses = recorder->addresses;
		recorder->fed_address_count = count;
		/* ids are assigned in order: a greater one is a new stack */
		if (moment->native_stack > recorder->last_native_stack) {
			recorder->last_native_stack = moment->native_stack;
			gm_record_see_addresses(recorder, recorder->addresses, count);
		}
	}
}

uint32_t gm_record_evidence(struct gm_recorder *recorder, struct gm_moment *moment)
{
	if (moment->frame_count == 0)
		return 0;
	struct gm_python_frame dying;
	int slot = -1;
	if (!gm_python_dying_frame(
	            recorder->python, moment->thread, &recorder->frames[0], &dying, &slot))
		return 0;
	struct gm_log_evidence evidence = {
	        .kind = gm_python_is_generator(recorder->python, dying.code)
	                        ? GM_EVIDENCE_GENERATOR
	                        : GM_EVIDENCE_DYING_FRAME,
	        .code = log_code(recorder, dying.code),
	        .line = dying.line,
	};
	if (slot >= 0 && (uint32_t)slot < dying.code->local_count)
		evidence.name =
		        gm_log_writer_string(recorder->writer, dying.code->local_names[slot]);
	return gm_log_writer_evidence(recorder->writer, &evidence);
}
