/*
 * The frame that is being torn down: its function has returned and its locals are let go one by
 * one.
 *
 * 3.11+ unlinks a frame before it clears it (Python/ceval.c, gh-99729), so the thread's current
 * frame is already the caller's; but datastack_top still stands above the dying frame, whose slots
 * keep their pointers while _PyFrame_Clear()/_PyFrame_ClearExceptCode()/_PyFrame_ClearLocals() goes
 * over them (Python/frame.c). Before 3.11 frame_dealloc() sets each slot to NULL first and nothing
 * points to the frame: not to be found.
 */
#include <string.h>

#include "cpython/python.h"

/* Where the frame that is next on the data stack after all live ones begins. */
static uint64_t after_live_frames(struct gm_python *python)
{
	const struct gm_python_layout *layout = &python->layout;
	uint64_t chunk_start = 0;

	/* The innermost live frame that lies on the data stack; generators' frames do not. */
	for (size_t i = 0; i < python->raw.count; i++) {
		const struct gm_raw_frame *raw = &python->raw.items[i];
		if (!raw->entry)
			return 0;
		if (raw->owner == GM_OWNED_BY_THREAD) {
			chunk_start = raw->address + raw->entry->frame_size;
			break;
		}
	}
	(void)layout;
	return chunk_start;
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

/* The first frame of a chunk: a chunk that was pushed for the dying frame alone. */
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

bool gm_python_dying_frame(struct gm_python *python, pid_t thread,
        const struct gm_python_frame *frame, struct gm_python_frame *ret_dying, int *ret_slot)
{
	const struct gm_python_layout *layout = &python->layout;
	const struct gm_thread_hint *hint = NULL;
	struct gm_raw_frame raw;
	struct gm_python_frame scratch[1];

	if (layout->thread_chunk == GM_NO_FIELD)
		return false;
	/* The last walk is of this very frame in the common case; else walk again. */
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
		return false;
	ret_dying->code = &raw.entry->code;
	ret_dying->lasti = gm_py_lasti(python, &raw);
	ret_dying->line = gm_py_line_at(raw.entry, ret_dying->lasti);
	ret_dying->address = raw.address;
	*ret_slot = -1;
	/*
	 * Slots are let go upwards, so all above the dying one still hold references; those below
	 * it point to freed memory, where any word may read as 0. Hence the highest with a count of
	 * 0.
	 */
	for (uint32_t i = raw.entry->code.local_count; i-- > 0;) {
		uint64_t object = gm_python_local(python, ret_dying, i);
		uint64_t count;
		if (object && gm_python_refcount(python, object, &count) && count == 0) {
			*ret_slot = (int)i;
			break;
		}
	}
	return true;
}
