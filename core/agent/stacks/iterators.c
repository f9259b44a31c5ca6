/*
 * Positions of the program's loops, by their iterators: for the outermost few loops of the
 * program's own frames, and of frames of installed packages, but not PyTorch's; written when one is
 * in another iteration than at the previous event. Stacks alone do not show the iterations of a
 * loop whose allocations all come from one line.
 *
 * The place of a loop's iterator on the value stack is derived from the bytecode when the code is
 * first seen, by the decoders of core/cpython. The word after the iterator's object head is its
 * position (core/cpython/decode/loop_position.c).
 */
#include "agent/stacks/decoding.h"
#include "agent/stacks/inside.h"
#include "agent/put.h"
#include "agent/stacks/memory.h"
#include "cpython/python.h"

enum {
	LOOPS_MAX = 256,
	HEAD = 16, /* sizeof(PyObject) */
};

static _Atomic uint32_t main_code; /* id of the outermost frame of the first stack */

void gm_iterators_clear(void)
{
	atomic_store(&main_code, 0);
}

/* --- memory for the decoders ------------------------------------------------------------------ */

void *gm_decoding_malloc(size_t size)
{
	struct gm_stacks_thread *thread = gm_stacks_current;
	size_t taken = (size + 31) & ~(size_t)15; /* its size is stored before it */

	if (!thread || size > sizeof(thread->record) ||
	        thread->scratch_used > sizeof(thread->record) - taken)
		return NULL;
	uint8_t *at = thread->record + thread->scratch_used;
	thread->scratch_used += taken;
	memcpy(at, &size, sizeof(size));
	return at + 16;
}

void *gm_decoding_calloc(size_t count, size_t size)
{
	void *memory = count && size > SIZE_MAX / count ? NULL : gm_decoding_malloc(count * size);

	return memory ? memset(memory, 0, count * size) : NULL;
}

void *gm_decoding_realloc(void *old, size_t size)
{
	void *memory = gm_decoding_malloc(size);
	size_t before;

	if (memory && old) {
		memcpy(&before, (uint8_t *)old - 16, sizeof(before));
		memcpy(memory, old, before < size ? before : size);
	}
	return memory;
}

void gm_decoding_free(void *old)
{
	(void)old;
}

/* --- when a code object is first seen --------------------------------------------------------- */

void gm_iterators_prepare(struct gm_stacks_thread *thread, struct gm_stack_code *code,
        const struct gm_code_tables *tables)
{
	const int version = gm_stacks_python.version;
	const struct gm_opcode *const opcodes = gm_stacks_python.opcodes;
	struct gm_code_entry entry = {.bytecode = (uint8_t *)(uintptr_t)tables->bytecode,
	        .bytecode_size = (uint32_t)tables->bytecode_size,
	        .stack_size = code->stack_size};
	uint32_t count = 0;

	thread->scratch_used = 0;
	if (!tables->bytecode_size || !gm_py_units_mark(&entry, opcodes) ||
	        !gm_py_lines_decode(&entry, version, tables->lines, tables->lines_size,
	                tables->first_line, entry.bytecode_size) ||
	        !gm_py_loops_find(&entry, version, opcodes, 0, NULL, 0) || entry.loops.count == 0 ||
	        entry.loops.count > LOOPS_MAX ||
	        !gm_py_depths_find(
	                &entry, version, opcodes, tables->exceptions, tables->exceptions_size))
		return;
	struct gm_code_loop *loops =
	        gm_arena_take(&gm_stacks_arena, entry.loops.count * sizeof(*loops));
	for (size_t i = 0; loops && i < entry.loops.count; i++) {
		const struct gm_loop *loop = &entry.loops.items[i];
		struct gm_decoded head;
		if (!gm_py_decode(&entry, opcodes, loop->start, &head) ||
		        opcodes[head.opcode].op != GM_OP_FOR_ITER ||
		        entry.depths[head.start / 2] < gm_stacks_python.layout.loop_slots)
			continue;
		/* The handlers of its body may lie behind what follows the loop (3.12 and later);
		 * the head leads to what follows it. */
		const struct gm_opcode *opcode = &opcodes[head.opcode];
		uint32_t next = gm_py_next_unit(opcodes, &head);
		uint32_t left = gm_py_jump_target(
		        opcode, version, next, head.argument, entry.bytecode_size / 2);
		loops[count].start = loop->start;
		loops[count].end = left > next && left < loop->end / 2 ? 2 * left : loop->end;
		loops[count].slot = (uint32_t)(entry.depths[head.start / 2] -
		                               gm_stacks_python.layout.loop_slots);
		atomic_store(&loops[count].position, UINT64_MAX);
		count++;
	}
	code->loops = loops;
	code->loop_count = (uint16_t)count;
}

/* --- at an event --- */

/* No loop begins or ends between loops_from and loops_to. */
static void narrow(struct gm_stacks_thread *thread, uint32_t offset, uint32_t bound)
{
	if (bound <= offset && bound > thread->loops_from)
		thread->loops_from = bound;
	else if (bound > offset && bound < thread->loops_to)
		thread->loops_to = bound;
}

void gm_iterators_open(struct gm_stacks_thread *thread, uint32_t index, uint32_t offset)
{
	const struct gm_python_slot *frame = &thread->python[index];
	const uint64_t values = frame->frame + (uint64_t)gm_stacks_python.layout.frame_localsplus +
	                        8 * (uint64_t)frame->entry->local_count;

	thread->loops_index = index;
	thread->loops_from = 0;
	thread->loops_to = UINT32_MAX;
	for (uint32_t i = 0; i < frame->entry->loop_count; i++) {
		struct gm_code_loop *loop = &frame->entry->loops[i];
		bool within = offset >= loop->start && offset < loop->end;
		narrow(thread, offset, loop->start);
		narrow(thread, offset, loop->end);
		if (!within)
			continue;
		if (thread->loop_count == GM_STACKS_LOOPS) {
			thread->loops_to = 0;
			return;
		}
		thread->loops[thread->loop_count++] = (struct gm_open_loop){.loop = loop,
		        .slot = values + 8 * (uint64_t)loop->slot,
		        .index = index,
		        .code = frame->entry->id};
	}
}

static bool counts(struct gm_code_loop *loop, uint64_t type)
{
	if (GM_LIKELY(type && type == atomic_load_explicit(&loop->type, memory_order_relaxed)))
		return true;
	for (size_t i = 0; i < 4; i++) {
		if (type && type == gm_stacks_python.iterator_types[i]) {
			atomic_store_explicit(&loop->type, type, memory_order_relaxed);
			return true;
		}
	}
	return false;
}

/* An iterator that was seen before is alive as long as its frame is in the loop; a new one is read
 * through the kernel. */
static uint64_t position_of(struct gm_code_loop *loop, uint64_t slot)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint64_t iterator = gm_stackref_object(layout, gm_load(slot)), words[3];

	/* 3.15: a list or tuple, and the current index (core/cpython/decode/loop_position.c) */
	if (layout->loop_slots > 1 && gm_stackref_is_int(layout, gm_load(slot + 8)))
		return gm_load(slot + 8);

	if (GM_UNLIKELY(iterator != atomic_load_explicit(&loop->iterator, memory_order_relaxed))) {
		if ((iterator & 7) || !gm_read_checked(iterator, words, sizeof(words)))
			return UINT64_MAX;
		atomic_store_explicit(&loop->iterator, iterator, memory_order_relaxed);
	}
	return iterator && counts(loop, gm_load(iterator + 8)) ? gm_load(iterator + HEAD)
	                                                       : UINT64_MAX;
}

/* `again`: several tasks run it alternately, and another one was last. */
static void see_loop(const struct gm_open_loop *open, bool again)
{
	struct gm_code_loop *loop = open->loop;
	uint64_t position = position_of(loop, open->slot);
	uint8_t bytes[32], *at = bytes;

	if (atomic_load_explicit(&loop->position, memory_order_relaxed) == position && !again)
		return;
	atomic_store_explicit(&loop->position, position, memory_order_relaxed);
	at = gm_put_varint(at, open->code);
	at = gm_put_varint(at, loop->slot);
	at = gm_put_varint(at, position == UINT64_MAX ? 0 : position + 1);
	gm_agent_put(GM_AGENT_ITERATION, 0, bytes, (size_t)(at - bytes));
}

void gm_iterators_take(struct gm_stacks_thread *thread)
{
	uint32_t outermost = atomic_load_explicit(&main_code, memory_order_relaxed);

	/* For one thread only, the first one: iterations of other threads are not steps of the
	 * program. */
	if (GM_UNLIKELY(!outermost) &&
	        atomic_compare_exchange_strong(&main_code, &outermost, thread->python[0].entry->id))
		outermost = thread->python[0].entry->id;
	if (outermost != thread->python[0].entry->id)
		return;
	uint32_t own = 0, installed = 0;
	for (uint32_t i = 0; i < thread->loop_count; i++) {
		const struct gm_open_loop *open = &thread->loops[i];
		bool sees = thread->python[open->index].entry->kind == GM_CODE_INSTALLED
		                    ? installed++ < GM_PACKAGE_LOOPS_FOLLOWED
		                    : own++ < GM_LOOPS_FOLLOWED;
		if (sees)
			see_loop(open, thread->task_turned);
	}
	thread->task_turned = false;
}
