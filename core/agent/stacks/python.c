/*
 * The calling thread's Python frames, from its thread state.
 *
 * The thread is often within a C function that has released the GIL. Its frames stay unchanged all
 * the same, because only the thread itself changes them, and each frame keeps its code object
 * alive. PyGILState_GetThisThreadState() reads a thread's own storage and works without the GIL.
 *
 * All frames are walked, from the innermost outwards: a frame at the same address with the same
 * code and instruction as the last time may have been called from another line. Then the unchanged
 * frames, from the outermost on, keep their number; the others are looked up, each on top of the
 * previous one.
 *
 * 3.11+: _PyInterpreterFrame (Include/internal/pycore_frame.h); 3.9, 3.10: frame objects.
 */
#include <pthread.h>

#include "agent/stacks/inside.h"
#include "agent/gap.h"
#include "agent/stacks/memory.h"

enum {
	TRUST_AFTER = 64, /* walks in which every frame is checked, until the frames are known to
	                     match the tables */
	OWNED_BY_GENERATOR = 1,
	OWNED_BY_C = 3, /* enum _frameowner, 3.12+; 3.14 has one more value, which is larger */
	FRAMES_WALKED_MAX = 1 << 17,
};

/* --- walking --- */

static bool load_word(uint64_t address, bool checked, uint64_t *ret)
{
	if (GM_UNLIKELY(checked))
		return gm_read_checked(address, ret, sizeof(*ret));
	*ret = gm_load(address);
	return true;
}

uint64_t gm_python_innermost(uint64_t state)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint64_t at;

	const bool checked = gm_stacks_python.trusted < TRUST_AFTER;

	if (layout->thread_cframe == GM_NO_FIELD)
		return load_word(state + (uint64_t)layout->thread_frame, checked, &at) ? at : 0;
	if (!load_word(state + (uint64_t)layout->thread_cframe, checked, &at) || !at)
		return 0;
	return load_word(at + (uint64_t)layout->cframe_frame, checked, &at) ? at : 0;
}

/* A frame in its current state. False: it cannot be read, in the first walks. */
static inline bool read_frame(uint64_t frame, bool checked, struct gm_python_raw *ret,
        uint64_t *ret_previous, bool *ret_is_python)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	const int32_t owner_at = layout->frame_owner;
	uint64_t owner = 0;

	if ((frame & 7) || !load_word(frame + (uint64_t)layout->frame_code, checked, &ret->code) ||
	        !load_word(frame + gm_stacks_python.instruction_at, checked, &ret->instruction) ||
	        !load_word(frame + (uint64_t)layout->frame_previous, checked, ret_previous))
		return false;
	ret->instruction &= gm_stacks_python.instruction_mask;
	ret->frame = frame;
	if (owner_at != GM_NO_FIELD) {
		if (!load_word(frame + (uint64_t)(owner_at & ~7), checked, &owner))
			return false;
		owner = owner >> 8 * (owner_at & 7) & 0xff;
	}
	ret->code = gm_stackref_object(layout, ret->code);
	*ret_is_python = ret->code && owner < OWNED_BY_C;
	return true;
}

/* The frame's function has not reached its first traceable instruction (_PyFrame_IsIncomplete()).
 * */
static bool is_incomplete(const struct gm_stack_code *entry, const struct gm_python_raw *raw)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;

	if (layout->frame_instruction == GM_NO_FIELD || entry->first_traceable == 0)
		return false;
	return (int64_t)(raw->instruction - raw->code - (uint64_t)(int64_t)layout->code_adaptive) <
	               (int64_t)entry->first_traceable &&
	       *(const uint8_t *)(uintptr_t)(raw->frame + (uint64_t)layout->frame_owner) !=
	               OWNED_BY_GENERATOR;
}

static void report_deep(void)
{
	gm_agent_gap("some Python stacks were too deep: of those the innermost 256 frames "
	             "are recorded");
}

/* The last stack's frame at this address, as a number from the outermost plus 1; 0: it is not
 * known. */
static inline uint32_t index_of(const struct gm_stacks_thread *thread, uint64_t frame)
{
	uint32_t index = thread->python_index[frame >> 3 & (GM_PYTHON_INDEX - 1)];

	return index < thread->python_count && thread->python[index].frame == frame ? index + 1 : 0;
}

/* Has a frame with unusual properties changed: its caller, or the content of its code? */
static bool is_odd_changed(const struct gm_python_slot *slot, uint64_t outer)
{
	const uint64_t previous_at = (uint64_t)gm_stacks_python.layout.frame_previous;

	return (slot->previous != outer &&
	               (!slot->is_between || gm_load(slot->previous + previous_at) != outer)) ||
	       ((slot->print & GM_PRINT_CONTENT) && gm_code_print(slot->code) != slot->print);
}

/*
 * How many frames of the last stack from `from` outwards are unchanged: all, or up to the first
 * that is not. Each frame is confirmed as the caller of the one within it before it is used. But
 * its address is known from the last time, so the processor need not wait for one load to begin the
 * next. Returns the number of frames further out.
 */
static inline __attribute__((always_inline)) uint32_t first_changed_of(
        const struct gm_stacks_thread *thread, uint32_t from, const bool is_pointer)
{
	const struct gm_stacks_python *python = &gm_stacks_python;
	const uint64_t code_at = (uint64_t)python->layout.frame_code,
	               previous_at = (uint64_t)python->layout.frame_previous;
	const uint64_t instruction_at = python->instruction_at, mask = python->instruction_mask;
	const uint64_t shape_at = python->shape_at, shape_mask = python->shape_mask;

	for (uint32_t i = from; i-- > 0;) {
		const struct gm_python_slot *slot = &thread->python[i];
		const uint64_t frame = slot->frame, code = slot->code;
		uint64_t wrong = gm_load(frame + previous_at) ^ slot->previous;
		if (is_pointer) /* into the code object, which is the same in that case */
			wrong |= gm_load(frame + instruction_at) ^ slot->instruction;
		else
			wrong |= ((gm_load(frame + instruction_at) & mask) ^ slot->instruction) |
			         (gm_load(frame + code_at) ^ code); /* up to 3.10: a pointer */
		/* only then it is known that there is code */
		if (wrong || (gm_load(code + shape_at) & shape_mask) != slot->shape)
			return i + 1;
		if (GM_UNLIKELY(slot->is_odd) &&
		        is_odd_changed(slot, i ? slot[-1].frame : thread->base))
			return i + 1;
	}
	return 0;
}

static uint32_t first_changed(const struct gm_stacks_thread *thread, uint32_t from)
{
	return gm_stacks_python.instruction_mask == UINT64_MAX
	               ? first_changed_of(thread, from, true)
	               : first_changed_of(thread, from, false);
}

/* --- numbers --- */

/* The frame's current code. NULL: it cannot be stored. */
static inline const struct gm_stack_code *code_of(
        struct gm_stacks_thread *thread, uint64_t code, uint64_t *ret_print)
{
	struct gm_code_seen *seen = &thread->codes_seen[code * UINT64_C(0x9e3779b97f4a7c15) >> 32 &
	                                                (GM_CODES_SEEN - 1)];
	uint64_t quick = gm_code_quick(code);

	if (GM_UNLIKELY(seen->code != code || seen->quick != quick || !seen->entry)) {
		uint64_t print = gm_code_print(code);
		const struct gm_stack_code *entry = gm_code_at(thread, code, print);
		*ret_print = print;
		if (entry && !(print & GM_PRINT_CONTENT))
			*seen = (struct gm_code_seen){code, quick, entry, print};
		return entry;
	}
	*ret_print = seen->print;
	return seen->entry;
}

/* The stack with this frame on top of `parent`. */
static inline uint32_t child_of(struct gm_stacks_thread *thread, uint32_t parent, uint64_t value)
{
	uint64_t hash = (value ^ (uint64_t)parent << 17) * UINT64_C(0x9e3779b97f4a7c15);
	struct gm_child_seen *seen = &thread->children_seen[hash >> 32 & (GM_CHILDREN_SEEN - 1)];

	if (GM_UNLIKELY(seen->value != value || seen->parent != parent || !seen->id))
		*seen = (struct gm_child_seen){
		        value, parent, gm_trie_child(&gm_python_trie, parent, value)};
	return seen->id;
}

/* For the frames from `index` inwards. */
static inline void drop_loops(struct gm_stacks_thread *thread, uint32_t index)
{
	while (thread->loop_count && thread->loops[thread->loop_count - 1].index >= index)
		thread->loop_count--;
}

/* Adds the new frames on top of the `base` outermost frames of the last stack. 0: the stack has no
 * number. */
static uint32_t number(struct gm_stacks_thread *thread, uint32_t base, uint32_t count)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint32_t stack = base ? thread->python[base - 1].stack : 0;

	drop_loops(thread, base);
	if (thread->task_index >= base)
		thread->task_index = UINT32_MAX;
	thread->python_count = 0; /* where the stack is incomplete */
	for (uint32_t i = count; i-- > 0;) {
		const struct gm_python_raw *raw = &thread->raw[i];
		uint32_t index = base + (count - 1 - i);
		struct gm_python_slot *slot = &thread->python[index];
		uint64_t print, outer = index ? slot[-1].frame : 0;
		const struct gm_stack_code *entry = code_of(thread, raw->code, &print);
		if (!entry)
			return 0;
		uint32_t offset = gm_code_offset(
		        layout, gm_stacks_python.version, raw->code, raw->instruction);
		if (!is_incomplete(entry, raw)) {
			stack = child_of(thread, stack, (uint64_t)entry->id << 32 | offset);
			if (!stack)
				return 0;
		}
		*slot = (struct gm_python_slot){.frame = raw->frame,
		        .code = raw->code,
		        .instruction = raw->instruction,
		        .previous = raw->previous,
		        .is_between = raw->is_between,
		        .is_odd = raw->previous != outer || (print & GM_PRINT_CONTENT),
		        .print = print,
		        .shape = gm_load(raw->code + gm_stacks_python.shape_at) &
		                 gm_stacks_python.shape_mask,
		        .stack = stack,
		        .entry = entry};
		thread->python_index[raw->frame >> 3 & (GM_PYTHON_INDEX - 1)] = (uint16_t)index;
		if (GM_UNLIKELY(entry->loop_count))
			gm_iterators_open(thread, index, offset);
		if (GM_UNLIKELY(entry->is_coroutine) && thread->task_index == UINT32_MAX)
			thread->task_index = index;
	}
	thread->python_count = base + count;
	return stack;
}

/*
 * The most frequent case: all frames are those of the last stack, and at most the innermost one is
 * at another instruction. 0: it is another case, or the stack has no number yet.
 */
static inline __attribute__((always_inline)) uint32_t take_same(
        struct gm_stacks_thread *thread, uint64_t frame, const bool is_pointer)
{
	const struct gm_stacks_python *python = &gm_stacks_python;
	const uint32_t index = thread->python_count - 1;
	struct gm_python_slot *slot = &thread->python[index];
	uint64_t instruction;
	uint32_t offset, stack;

	if (slot->frame != frame ||
	        gm_load(frame + (uint64_t)python->layout.frame_previous) != slot->previous ||
	        (gm_load(frame + (uint64_t)python->layout.frame_code) & python->code_mask) !=
	                slot->code ||
	        (gm_load(slot->code + python->shape_at) & python->shape_mask) != slot->shape ||
	        (GM_UNLIKELY(slot->is_odd) &&
	                is_odd_changed(slot, index ? slot[-1].frame : thread->base)) ||
	        first_changed_of(thread, index, is_pointer))
		return 0;
	instruction = gm_load(frame + python->instruction_at) & python->instruction_mask;
	if (instruction == slot->instruction)
		return slot->stack;
	offset = gm_code_offset(&python->layout, python->version, slot->code, instruction);
	if (offset < slot->entry->first_traceable)
		return 0;
	stack = child_of(
	        thread, index ? slot[-1].stack : 0, (uint64_t)slot->entry->id << 32 | offset);
	if (GM_UNLIKELY(!stack))
		return 0;
	slot->instruction = instruction;
	slot->stack = stack;
	if (slot->entry->loop_count &&
	        !(index == thread->loops_index && offset >= thread->loops_from &&
	                offset < thread->loops_to)) {
		drop_loops(thread, index);
		gm_iterators_open(thread, index, offset);
	}
	return stack;
}

/* In the first walks: is the thread state this thread's, and are the frames' code objects really
 * code objects? */
static bool is_plausible(struct gm_stacks_thread *thread, uint32_t count)
{
	struct gm_stacks_python *python = &gm_stacks_python;
	uint64_t type = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (!gm_read_checked(thread->raw[i].code + 8, &type, 8) ||
		        type != python->code_type)
			return false;
	}
	if (count)
		__atomic_fetch_add(&python->trusted, 1, __ATOMIC_RELAXED);
	return true;
}

static void distrust(void)
{
	gm_python_refuse(
	        "the struct layouts of this build of CPython differ from the releases (a debug or "
	        "patched build?): events have no Python stacks");
}

static uint32_t walk(struct gm_stacks_thread *thread, uint64_t frame)
{
	const bool checked = GM_UNLIKELY(gm_stacks_python.trusted < TRUST_AFTER);
	const uint32_t most = gm_stacks_options.max_frames;
	const uint64_t innermost = frame;
	uint32_t count = 0;
	bool past_known = checked; /* this frame was examined as one of the known frames */
	bool is_unread = false;
	uint64_t base = 0;

	while (frame && count < most) {
		struct gm_python_raw *raw = &thread->raw[count];
		uint32_t known = past_known ? 0 : index_of(thread, frame);
		bool is_python;
		if (known) {
			uint32_t changed = first_changed(thread, known);
			if (GM_UNLIKELY(known + count >= most)) {
				thread->python_count = 0; /* the stack is too deep */
				return walk(thread, innermost);
			}
			if (!changed)
				return number(thread, known, count);
			for (uint32_t i = known; i-- > changed;) {
				const struct gm_python_slot *slot = &thread->python[i];
				thread->raw[count++] = (struct gm_python_raw){.frame = slot->frame,
				        .code = slot->code,
				        .instruction = slot->instruction,
				        .previous = slot->previous,
				        .is_between = slot->is_between};
			}
			frame = thread->python[changed - 1].frame;
			past_known = true;
			continue;
		}
		past_known = checked;
		if (!read_frame(frame, checked, raw, &frame, &is_python)) {
			is_unread = true;
			break;
		}
		if (is_python) {
			raw->previous = frame;
			raw->is_between = false;
			count++;
		} else if (count && raw[-1].is_between && !frame) {
			base = raw->frame;
		} else if (count) {
			/* C called Python: there is one frame of the interpreter's own in between
			 * */
			raw[-1].is_between = !raw[-1].is_between && raw[-1].previous == raw->frame;
		}
	}
	if (checked && (is_unread || !is_plausible(thread, count))) {
		distrust();
		return 0;
	}
	if (GM_UNLIKELY(is_unread || !count)) {
		/* no Python code runs: from 3.15 on such a thread still has a frame of the
		 * interpreter's */
		thread->has_frames = false;
		thread->python_count = 0;
		return 0;
	}
	thread->base = base;
	if (GM_UNLIKELY(count >= most)) {
		report_deep();
		/* the outermost frame of an incomplete stack is not known */
		uint32_t stack = number(thread, 0, gm_stacks_kept());
		thread->python_count = 0;
		return stack;
	}
	return number(thread, 0, count);
}

uint32_t gm_python_take_from(struct gm_stacks_thread *thread, uint64_t frame)
{
	if (GM_LIKELY(thread->python_count && gm_stacks_python.trusted >= TRUST_AFTER)) {
		uint32_t stack = gm_stacks_python.instruction_mask == UINT64_MAX
		                         ? take_same(thread, frame, true)
		                         : take_same(thread, frame, false);
		if (GM_LIKELY(stack))
			return stack;
	}
	return walk(thread, frame);
}

uint32_t gm_python_take(struct gm_stacks_thread *thread, uint64_t *ret_state)
{
	uint64_t state = (uint64_t)(uintptr_t)gm_stacks_python.this_thread();
	uint64_t frame;

	*ret_state = state;
	if (GM_UNLIKELY(atomic_load_explicit(&thread->state, memory_order_relaxed) != state)) {
		atomic_store(&thread->state, state);
		/* C++ threads get a state for each call into Python; a thread that Python started,
		 * or the main one, keeps its own */
		thread->is_pythons = state && !thread->had_none;
	}
	thread->has_frames = false;
	if (!state) {
		thread->had_none = true;
		return 0;
	}
	if (GM_UNLIKELY(gm_stacks_python.trusted < TRUST_AFTER)) {
		uint64_t ident = 0;
		if (!gm_read_checked(
		            state + (uint64_t)gm_stacks_python.layout.thread_ident, &ident, 8) ||
		        ident != (uint64_t)pthread_self()) {
			distrust();
			return 0;
		}
	}
	frame = gm_python_innermost(state);
	if (!frame)
		return 0;
	thread->has_frames = true;
	return gm_python_take_from(thread, frame);
}
