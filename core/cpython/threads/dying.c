/*
 * The frame that is being torn down: its function has returned and its locals are released one by
 * one.
 *
 * 3.11+ unlinks a frame before it clears it (Python/ceval.c, gh-99729), so the thread's current
 * frame is already the caller's. But datastack_top is still above the dying frame, whose slots keep
 * their pointers while _PyFrame_Clear()/_PyFrame_ClearExceptCode()/_PyFrame_ClearLocals() processes
 * them (Python/frame.c). Before 3.11, frame_dealloc() sets each slot to NULL first and nothing
 * points to the frame, so it cannot be found.
 */
#include <string.h>

#include "cpython/python.h"

/* The beginning of the next frame on the data stack after all live ones; 0: none of them is on it.
 * */
static uint64_t after_live_frames(struct gm_python *python)
{
	uint64_t end = 0;

	/* The innermost live frame on the data stack. Frames of generators are not there. */
	for (size_t i = 0; i < python->raw.count; i++) {
		const struct gm_raw_frame *raw = &python->raw.items[i];
		if (!raw->entry)
			return 0;
		if (raw->owner == GM_OWNED_BY_THREAD) {
			end = raw->address + raw->entry->frame_size;
			break;
		}
	}
	return end;
}

static bool is_dying(
        struct gm_python *python, uint64_t address, uint64_t top, struct gm_raw_frame *ret)
{
	uint64_t previous;

	if (!address || address + (uint64_t)python->layout.frame_localsplus > top ||
	        top - address > UINT64_C(1) << 30)
		return false;
	if (!gm_py_read_frame(python, address, ret, &previous) ||
	        previous != python->current_frame || ret->owner != GM_OWNED_BY_THREAD)
		return false;
	ret->entry = gm_py_code_at(python, ret->code);
	return ret->entry && address + ret->entry->frame_size == top;
}

/* The first frame of a chunk, if the chunk was pushed only for the dying frame. */
static uint64_t first_of_chunk(struct gm_python *python, const struct gm_thread_hint *hint)
{
	const struct gm_python_layout *layout = &python->layout;
	uint64_t previous = 0;

	if (!hint->chunk ||
	        !gm_py_u64(python, hint->chunk + (uint64_t)layout->chunk_previous, &previous))
		return 0;
	/* The very first word of the first chunk is left out (Python/pystate.c, push_chunk()). */
	return hint->chunk + (uint64_t)layout->chunk_data + (previous ? 0 : 8);
}

/* Reads the first `size` bytes of many objects in one call; those that cannot be read are marked as
 * failed. */
static void read_heads(struct gm_python *python, const uint64_t *objects, size_t count, size_t size,
        uint8_t *heads, struct gm_read *reads)
{
	for (size_t i = 0; i < count; i++)
		reads[i] = (struct gm_read){objects[i], heads + i * size, size, false};
	gm_image_read_many(python->image, reads, count);
}

/*
 * Slots are released one after another: objects in later slots still have references, the other
 * slots point to freed memory, where any word may read as 0. Up to 3.13 they are released upwards,
 * so the dying object is in the highest slot with a count of 0; from 3.14 on downwards
 * (_PyFrame_ClearLocals(), Python/frame.c), so it is in the lowest.
 */
static int dying_slot(struct gm_python *python, const struct gm_python_frame *frame)
{
	enum { BATCH = 64 };
	const bool downwards = python->version >= 0x030e;
	const uint32_t all = frame->code->local_count;
	uint64_t objects[BATCH];
	uint64_t counts[BATCH];
	struct gm_read reads[BATCH];

	for (uint32_t done = 0, count; done < all; done += count) {
		count = all - done < BATCH ? all - done : BATCH;
		uint32_t start = downwards ? done : all - done - count;
		if (!gm_image_try_read(python->image,
		            gm_py_slot_address(python, frame->address, start), objects,
		            count * sizeof(objects[0])))
			return -1;
		for (uint32_t i = 0; i < count; i++)
			objects[i] = gm_stackref_counted(&python->layout, objects[i]);
		read_heads(python, objects, count, sizeof(counts[0]), (uint8_t *)counts, reads);
		for (uint32_t k = 0; k < count; k++) {
			uint32_t i = downwards ? k : count - 1 - k;
			if (objects[i] && !reads[i].failed &&
			        gm_refcount_in(&python->layout, counts[i]) == 0)
				return (int)(start + i);
		}
	}
	return -1;
}

static void fill(
        struct gm_python *python, const struct gm_raw_frame *raw, struct gm_python_frame *ret)
{
	ret->code = &raw->entry->code;
	ret->lasti = gm_py_lasti(python, raw);
	ret->line = gm_py_line_at(raw->entry, ret->lasti);
	ret->address = raw->address;
}

/* Generators, coroutines and asynchronous generators share a layout; their types are looked up
 * once. */
static bool is_generator_type(struct gm_python *python, uint64_t type)
{
	static const char *const names[] = {"PyGen_Type", "PyCoro_Type", "PyAsyncGen_Type"};
	const struct gm_module *module;

	if (!python->generator_types_sought) {
		python->generator_types_sought = true;
		for (size_t i = 0; i < 3; i++)
			gm_symbols_lookup_any(
			        python->symbols, names[i], &python->generator_types[i], &module);
	}
	for (size_t i = 0; i < 3; i++) {
		if (type && type == python->generator_types[i])
			return true;
	}
	return false;
}

/* Statements that release an object themselves, so that no ended generator need be searched for. */
static bool drives_no_generator(struct gm_python *python, const struct gm_python_frame *frame)
{
	struct gm_decoded decoded;

	if (!gm_py_decode(gm_py_entry_of(frame->code), python->opcodes, frame->lasti, &decoded))
		return true;
	switch ((enum gm_op)python->opcodes[decoded.opcode].op) {
	case GM_OP_CALL:
	case GM_OP_FOR_ITER:
	case GM_OP_YIELD:
	case GM_OP_OTHER: /* UNPACK_SEQUENCE, LIST_EXTEND ... */
		return false;
	default:
		return true;
	}
}

/*
 * A generator that has just ended clears its frame, which is inside the generator. The frame that
 * iterates over it has it on the value stack, which is searched for a generator that has ended and
 * has a slot whose object is dying.
 */
static bool find_generator(struct gm_python *python, const struct gm_python_frame *frame,
        struct gm_python_frame *ret_dying, int *ret_slot)
{
	enum { MAX_STACK = 64, HEAD = 16 };
	const struct gm_python_layout *layout = &python->layout;
	const struct gm_code_entry *entry = gm_py_entry_of(frame->code);
	uint64_t stack[MAX_STACK];
	uint8_t heads[MAX_STACK * HEAD];
	struct gm_read reads[MAX_STACK];
	size_t count = entry->stack_size < MAX_STACK ? entry->stack_size : MAX_STACK;

	if (drives_no_generator(python, frame) ||
	        !gm_image_try_read(python->image,
	                gm_py_slot_address(python, frame->address, frame->code->local_count), stack,
	                count * sizeof(stack[0])))
		return false;
	for (size_t i = 0; i < count; i++)
		stack[i] = gm_stackref_object(layout, stack[i]);
	read_heads(python, stack, count, HEAD, heads, reads);
	for (size_t i = count; i-- > 0;) {
		struct gm_raw_frame raw;
		uint64_t previous;
		int8_t state;
		if (reads[i].failed ||
		        !is_generator_type(
		                python, gm_u64_at(heads + i * HEAD, layout->object_type)) ||
		        !gm_image_try_read(python->image,
		                stack[i] + (uint64_t)layout->generator_state, &state, 1) ||
		        state < layout->generator_finished ||
		        !gm_py_read_frame(python, stack[i] + (uint64_t)layout->generator_frame,
		                &raw, &previous))
			continue;
		raw.entry = gm_py_code_at(python, raw.code);
		if (!raw.entry)
			continue;
		fill(python, &raw, ret_dying);
		*ret_slot = dying_slot(python, ret_dying);
		if (*ret_slot >= 0)
			return true;
	}
	return false;
}

bool gm_python_is_generator(const struct gm_python *python, const struct gm_code *code)
{
	/* Include/cpython/code.h: CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR */
	enum { FLAGS = 0x20 | 0x80 | 0x200 };

	return gm_i32_at(gm_py_entry_of(code)->key, python->layout.code_flags) & FLAGS;
}

bool gm_python_dying_frame(struct gm_python *python, pid_t thread,
        const struct gm_python_frame *frame, struct gm_python_frame *ret_dying, int *ret_slot)
{
	const struct gm_python_layout *layout = &python->layout;
	const struct gm_thread_hint *hint = NULL;
	struct gm_raw_frame raw;
	struct gm_python_frame scratch[1];

	if (layout->thread_chunk == GM_NO_FIELD)
		return false;
	/* Usually the last walk was of this very frame; otherwise walk again. */
	if (!python->raw.count || !frame || python->raw.items[0].address != frame->address) {
		if (!gm_python_stack(python, thread, scratch, 1))
			return false;
	}
	for (int i = 0; i < GM_THREAD_HINTS; i++) {
		if (python->hints[i].thread == thread)
			hint = &python->hints[i];
	}
	if (!hint || !python->stack_top)
		return false;
	if (!is_dying(python, after_live_frames(python), python->stack_top, &raw) &&
	        !is_dying(python, first_of_chunk(python, hint), python->stack_top, &raw))
		return find_generator(python, frame ? frame : scratch, ret_dying, ret_slot);
	fill(python, &raw, ret_dying);
	*ret_slot = dying_slot(python, ret_dying);
	return true;
}
