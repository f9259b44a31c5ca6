/*
 * The Python stack of a thread, innermost frame first. This is a hot path: it runs at every
 * allocator event.
 *
 * A thread that was walked before costs two system calls. One reads its thread state, the C frame
 * and the end of the data stack at their last addresses. One reads the heads of all code objects of
 * the frames, to check that the copies are still of those objects. Only what has changed is read
 * again.
 *
 * 3.11+: _PyInterpreterFrame in chunks of a data stack, generators' frames within their objects
 * (Objects/frame_layout.md, Include/internal/pycore_frame.h). 3.9, 3.10: a list of frame objects.
 */
#include <stdlib.h>
#include <string.h>

#include "cpython/python.h"

enum { STATE_BYTES = 512, FRAME_BYTES = 128, SLACK = 4096 };

struct walk {
	struct gm_python *python;
	struct gm_thread_hint *hint;
	uint8_t state[STATE_BYTES];
	uint64_t frame;
};

static size_t state_size(const struct gm_python *python)
{
	size_t size = (size_t)python->layout.thread_size;

	return size < STATE_BYTES ? size : STATE_BYTES;
}

/* --- the thread's state ----------------------------------------------------------------------- */

struct search {
	pid_t thread;
	bool by_pthread;
	uint64_t state;
	uint8_t bytes[STATE_BYTES];
};

static bool has_frame(struct gm_python *python, const uint8_t *bytes)
{
	const struct gm_python_layout *layout = &python->layout;
	if (layout->thread_cframe == GM_NO_FIELD)
		return gm_u64_at(bytes, layout->thread_frame) != 0;
	uint64_t cframe = gm_u64_at(bytes, layout->thread_cframe);
	return cframe && gm_py_field(python, cframe, layout->cframe_frame) != 0;
}

/*
 * A thread has one state for each interpreter that it entered, the newest interpreter's first. The
 * running one has a frame; the others may have frames of its callers: gm_python_thread_stack()
 * reads those.
 */
static bool is_thread(void *context, struct gm_python *python, uint64_t state, const uint8_t *bytes)
{
	struct search *search = context;

	if ((search->by_pthread ? gm_py_tid_of_pthread(python, bytes)
	                        : gm_py_native_id(python, bytes)) != search->thread)
		return true;
	bool runs = has_frame(python, bytes);
	if (runs || !search->state) {
		search->state = state;
		memcpy(search->bytes, bytes, state_size(python));
	}
	return !runs;
}

static struct gm_thread_hint *hint_for(struct gm_python *python, pid_t thread)
{
	struct gm_thread_hint *oldest = &python->hints[0];

	for (int i = 0; i < GM_THREAD_HINTS; i++) {
		if (python->hints[i].thread == thread)
			return &python->hints[i];
		if (python->hints[i].used < oldest->used)
			oldest = &python->hints[i];
	}
	*oldest = (struct gm_thread_hint){.thread = thread};
	return oldest;
}

static void read_window(struct gm_python *python, uint64_t chunk, uint64_t top)
{
	/* The frames near the top are the innermost; a window ends a little above it, because the
	 * stack may have grown since. */
	uint64_t start =
	        top > chunk + GM_STACK_WINDOW - SLACK ? top + SLACK - GM_STACK_WINDOW : chunk;

	python->window_start = start;
	python->window_size = top > start ? (size_t)(top - start) : 0;
	if (python->window_size > GM_STACK_WINDOW)
		python->window_size = GM_STACK_WINDOW;
	if (!gm_image_try_read(python->image, start, python->window, python->window_size))
		python->window_size = 0;
}

/* Reads everything at its last address in one call. False: the thread's state is no longer there.
 * */
static bool read_by_hint(struct walk *walk, uint64_t *ret_cframe_frame)
{
	struct gm_python *python = walk->python;
	const struct gm_python_layout *layout = &python->layout;
	const struct gm_thread_hint *hint = walk->hint;
	struct gm_read reads[3];
	size_t count = 0;

	reads[count++] = (struct gm_read){hint->state, walk->state, state_size(python), false};
	if (hint->chunk) {
		uint64_t start = hint->top > hint->chunk + GM_STACK_WINDOW - SLACK
		                         ? hint->top + SLACK - GM_STACK_WINDOW
		                         : hint->chunk;
		uint64_t size = hint->top - start + SLACK / 2;
		python->window_start = start;
		python->window_size = size < GM_STACK_WINDOW ? (size_t)size : GM_STACK_WINDOW;
		reads[count++] =
		        (struct gm_read){start, python->window, python->window_size, false};
	}
	if (hint->cframe)
		reads[count++] = (struct gm_read){
		        hint->cframe + (uint64_t)layout->cframe_frame, ret_cframe_frame, 8, false};
	gm_image_read_many(python->image, reads, count);
	if (reads[0].failed || gm_u64_at(walk->state, layout->thread_ident) != hint->ident ||
	        (!hint->by_pthread && gm_py_native_id(python, walk->state) != hint->thread))
		return false;
	if (hint->chunk && reads[1].failed)
		python->window_size = 0;
	if (hint->cframe && reads[count - 1].failed)
		*ret_cframe_frame = 0;
	return true;
}

/*
 * Values that change whenever a thread state is created: its number and the head of the list, which
 * are adjacent (struct pythreads, Include/internal/pycore_interp.h, 3.11+). Until they change, a
 * thread unknown to Python stays unknown.
 */
static bool stamp_threads(struct gm_python *python, uint64_t ret_stamp[2])
{
	const struct gm_python_layout *layout = &python->layout;
	struct gm_read read = {python->stamp_address, ret_stamp, 16, false};

	if (python->version < 0x030b)
		return false;
	if (!python->stamp_address)
		python->stamp_address =
		        gm_py_field(python, python->runtime, layout->runtime_interpreters_head) +
		        (uint64_t)layout->interpreter_threads - 8;
	read.address = python->stamp_address;
	gm_image_read_many(python->image, &read, 1);
	return !read.failed;
}

static bool still_unknown(struct gm_python *python, const struct gm_thread_hint *hint)
{
	uint64_t stamp[2];

	return hint->unknown && stamp_threads(python, stamp) &&
	       !memcmp(stamp, hint->stamp, sizeof(stamp));
}

/* The beginning of the thread's frames, from its state. `cframe_frame`: the value in the C frame of
 * the hint, 0 if it was not read. */
static void enter_state(struct walk *walk, bool hinted, uint64_t cframe_frame)
{
	struct gm_python *python = walk->python;
	const struct gm_python_layout *layout = &python->layout;
	uint64_t cframe = 0;

	if (layout->thread_cframe != GM_NO_FIELD) {
		cframe = gm_u64_at(walk->state, layout->thread_cframe);
		if (hinted && cframe == walk->hint->cframe && cframe_frame)
			walk->frame = cframe_frame;
		else
			walk->frame =
			        cframe ? gm_py_field(python, cframe, layout->cframe_frame) : 0;
	} else {
		walk->frame = gm_u64_at(walk->state, layout->thread_frame);
	}
	walk->hint->cframe = cframe;
	python->stack_top = 0;
	if (layout->thread_chunk != GM_NO_FIELD) {
		uint64_t chunk = gm_u64_at(walk->state, layout->thread_chunk);
		uint64_t top = gm_u64_at(walk->state, layout->thread_chunk_top);
		if (chunk && top >= chunk && top - chunk < UINT64_C(1) << 40) {
			if (chunk != walk->hint->chunk || !python->window_size ||
			        top > python->window_start + python->window_size)
				read_window(python, chunk, top);
			walk->hint->chunk = chunk;
			walk->hint->top = top;
			python->stack_top = top;
		} else {
			walk->hint->chunk = 0;
			python->window_size = 0;
		}
	}
	python->current_frame = walk->frame;
}

static bool find_state(struct walk *walk, pid_t thread)
{
	struct gm_python *python = walk->python;
	const struct gm_python_layout *layout = &python->layout;
	uint64_t cframe_frame = 0;
	bool hinted = false;

	python->window_size = 0;
	walk->hint = hint_for(python, thread);
	walk->hint->used = ++python->walk;
	if (still_unknown(python, walk->hint))
		return false;
	if (walk->hint->state)
		hinted = read_by_hint(walk, &cframe_frame);
	if (!hinted) {
		struct search search = {.thread = thread};
		python->window_size = 0;
		*walk->hint = (struct gm_thread_hint){.thread = thread};
		gm_py_each_thread(python, is_thread, &search);
		if (!search.state) { /* 3.11 leaves the parent's id in a forked child */
			search.by_pthread = true;
			gm_py_each_thread(python, is_thread, &search);
		}
		walk->hint->used = python->walk;
		if (!search.state) {
			walk->hint->unknown = stamp_threads(python, walk->hint->stamp);
			return false;
		}
		walk->hint->state = search.state;
		walk->hint->by_pthread = search.by_pthread;
		walk->hint->ident = gm_u64_at(search.bytes, layout->thread_ident);
		memcpy(walk->state, search.bytes, state_size(python));
	}
	enter_state(walk, hinted, cframe_frame);
	return true;
}

/* --- frames ----------------------------------------------------------------------------------- */

bool gm_py_read_frame(struct gm_python *python, uint64_t address, struct gm_raw_frame *ret,
        uint64_t *ret_previous)
{
	const struct gm_python_layout *layout = &python->layout;
	uint8_t bytes[FRAME_BYTES];
	size_t size = (size_t)layout->frame_localsplus;
	const uint8_t *at = bytes;

	if (size > FRAME_BYTES) /* frame objects of 3.9, 3.10 have their block stack before the
	                           locals */
		size = FRAME_BYTES;
	if (address & 7)
		return false;
	if (python->window_size >= size && address >= python->window_start &&
	        address - python->window_start <= python->window_size - size)
		at = python->window + (address - python->window_start);
	else if (!gm_image_try_read(python->image, address, bytes, size))
		return false;
	ret->address = address;
	ret->code = gm_stackref_object(layout, gm_u64_at(at, layout->frame_code));
	ret->owner =
	        layout->frame_owner == GM_NO_FIELD ? GM_OWNED_BY_THREAD : at[layout->frame_owner];
	if (layout->frame_instruction != GM_NO_FIELD)
		ret->instruction = gm_u64_at(at, layout->frame_instruction);
	else
		ret->instruction = (uint64_t)(int64_t)gm_i32_at(at, layout->frame_lasti);
	ret->entry = NULL;
	ret->loop = 0;
	/* 3.11: is_entry, the byte before owner; 3.12+: a frame of C is in between, see collect()
	 * */
	ret->entered =
	        python->version < 0x030b || (python->version == 0x030b && layout->frame_owner > 0 &&
	                                            at[layout->frame_owner - 1]);
	*ret_previous = gm_u64_at(at, layout->frame_previous);
	return true;
}

/* Byte offset of the current instruction; 0 for a frame that has not begun. */
uint32_t gm_py_lasti(const struct gm_python *python, const struct gm_raw_frame *raw)
{
	int64_t offset;

	if (python->layout.frame_instruction != GM_NO_FIELD)
		offset = (int64_t)(raw->instruction - raw->code -
		                   (uint64_t)python->layout.code_adaptive);
	else /* 3.10 counts code units, 3.9 bytes */
		offset = (int64_t)raw->instruction * (python->version >= 0x030a ? 2 : 1);
	return offset < 0 || offset >= raw->entry->bytecode_size ? 0 : (uint32_t)offset & ~1u;
}

/* _PyFrame_IsIncomplete(): its function has not reached its first traceable instruction. */
static bool incomplete(const struct gm_python *python, const struct gm_raw_frame *raw)
{
	if (python->layout.frame_instruction == GM_NO_FIELD)
		return false;
	if (raw->owner >= GM_OWNED_BY_C)
		return true;
	return raw->owner != GM_OWNED_BY_GENERATOR &&
	       (int64_t)(raw->instruction - raw->code - (uint64_t)python->layout.code_adaptive) <
	               (int64_t)raw->entry->first_traceable;
}

/*
 * Collects frames; a few more than requested, because some turn out to be incomplete. A cyclic list
 * ends where it returns to a frame (Brent's algorithm: the mark moves at each power of two).
 */
static void collect(struct walk *walk, size_t max)
{
	struct gm_python *python = walk->python;
	uint64_t at = walk->frame;
	uint64_t mark = 0;
	size_t want = max < GM_MAX_FRAMES_WALKED - 8 ? max + 8 : GM_MAX_FRAMES_WALKED;

	python->raw.count = 0;
	for (size_t step = 1; at && at != mark && step < 2 * want && python->raw.count < want;
	        step++) {
		struct gm_raw_frame raw;
		uint64_t previous;
		if (!gm_py_read_frame(python, at, &raw, &previous))
			return;
		bool by_c = raw.owner >= GM_OWNED_BY_C;
		if (by_c && python->raw.count) {
			struct gm_raw_frame *inner = &python->raw.items[python->raw.count - 1];
			/* 3.15 has one more outermost frame, in the thread's state */
			if (!inner->entered)
				inner->loop = at;
			inner->entered = true;
		}
		if (!by_c && raw.code && !gm_array_push(&python->raw, raw))
			return;
		if (!(step & (step - 1)))
			mark = at;
		at = previous;
	}
}

/* Each frame gets it of the outermost one of its evaluation. */
static void spread_loops(struct gm_python *python)
{
	for (size_t i = python->raw.count; i-- > 1;)
		if (!python->raw.items[i - 1].entered)
			python->raw.items[i - 1].loop = python->raw.items[i].loop;
}

static int by_address(const void *a, const void *b)
{
	const struct gm_code_entry *x = *(struct gm_code_entry *const *)a;
	const struct gm_code_entry *y = *(struct gm_code_entry *const *)b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/*
 * Reads the heads of python->checked in one call. A range takes some 0.4 us for any size up to a
 * page or two, so heads that are near each other (one module's code) are read as one range.
 */
static bool read_heads(struct gm_python *python)
{
	enum { NEAR = 2048, MOST = 16384 };
	size_t head_size = (size_t)python->layout.code_size;
	size_t count = python->checked.count;
	struct gm_code_entry **items = python->checked.items;
	size_t total = 0;

	python->reads.count = 0;
	if (!count)
		return true;
	qsort(items, count, sizeof(items[0]), by_address);
	for (size_t i = 0; i < count; i++) {
		struct gm_read *last =
		        python->reads.count ? &python->reads.items[python->reads.count - 1] : NULL;
		uint64_t end = items[i]->address + head_size;
		if (last && (int64_t)(items[i]->address - (last->address + last->size)) < NEAR &&
		        end - last->address < MOST) {
			total += end - (last->address + last->size);
			last->size = end - last->address;
		} else {
			if (!gm_array_push(&python->reads,
			            ((struct gm_read){items[i]->address, NULL, head_size, false})))
				return false;
			total += head_size;
		}
	}
	python->heads.count = 0;
	if (!gm_array_reserve(&python->heads, total))
		return false;
	total = 0;
	for (size_t i = 0; i < python->reads.count; i++) {
		python->reads.items[i].buffer = python->heads.items + total;
		total += python->reads.items[i].size;
	}
	gm_image_read_many(python->image, python->reads.items, python->reads.count);
	return true;
}

/* Removes the mark of objects whose head is not the copied one, or could not be read. */
static void compare_heads(struct gm_python *python)
{
	size_t range = 0;

	for (size_t i = 0; i < python->checked.count; i++) {
		struct gm_code_entry *entry = python->checked.items[i];
		const struct gm_read *read = &python->reads.items[range];
		while (entry->address >= read->address + read->size)
			read = &python->reads.items[++range];
		const uint8_t *head =
		        (const uint8_t *)read->buffer + (entry->address - read->address);
		if (read->failed || !gm_py_code_same(python, entry, head))
			entry->walk = 0;
	}
}

/* Finds each frame's code, checking all known ones against the target in one call. */
static void find_codes(struct gm_python *python)
{
	python->checked.count = 0;
	for (size_t i = 0; i < python->raw.count; i++) {
		struct gm_raw_frame *raw = &python->raw.items[i];
		raw->entry = gm_py_code_find(python, raw->code);
		if (!raw->entry || raw->entry->walk == python->walk)
			continue;
		if (!gm_array_push(&python->checked, raw->entry))
			return;
		raw->entry->walk = python->walk;
	}
	if (read_heads(python)) {
		compare_heads(python);
	} else {
		for (size_t i = 0; i < python->checked.count; i++)
			python->checked.items[i]->walk = 0;
	}
	for (size_t i = 0; i < python->raw.count; i++) {
		struct gm_raw_frame *raw = &python->raw.items[i];
		if (!raw->entry || raw->entry->walk != python->walk) {
			raw->entry = gm_py_code_at(python, raw->code);
			if (raw->entry)
				raw->entry->walk = python->walk;
		}
	}
}

/* From walk->frame on. */
static size_t read_frames(struct walk *walk, struct gm_python_frame *ret_frames, size_t max)
{
	struct gm_python *python = walk->python;
	size_t count = 0;
	uint32_t evaluation = 0;

	collect(walk, max);
	spread_loops(python);
	find_codes(python);
	for (size_t i = 0; i < python->raw.count && count < max; i++) {
		struct gm_raw_frame *raw = &python->raw.items[i];
		struct gm_python_frame *frame = &ret_frames[count];
		uint32_t own = evaluation;
		evaluation += raw->entered;
		if (!raw->entry)
			break; /* this is not a code object: the rest of the list is not trusted */
		if (incomplete(python, raw))
			continue;
		frame->code = &raw->entry->code;
		frame->lasti = gm_py_lasti(python, raw);
		frame->line = gm_py_line_at(raw->entry, frame->lasti);
		frame->address = raw->address;
		frame->evaluation = own;
		frame->evaluation_stack = raw->loop;
		count++;
	}
	return count;
}

size_t gm_python_stack(
        struct gm_python *python, pid_t thread, struct gm_python_frame *ret_frames, size_t max)
{
	struct walk walk = {.python = python};

	python->raw.count = 0;
	if (!max || !find_state(&walk, thread))
		return 0;
	return read_frames(&walk, ret_frames, max);
}

size_t gm_python_thread_stack(struct gm_python *python, const struct gm_python_thread *thread,
        struct gm_python_frame *ret_frames, size_t max)
{
	struct gm_thread_hint hint = {.thread = thread->native_id, .state = thread->state};
	struct walk walk = {.python = python, .hint = &hint};

	python->raw.count = 0;
	python->window_size = 0;
	python->walk++;
	if (!max ||
	        !gm_image_try_read(python->image, thread->state, walk.state, state_size(python)))
		return 0;
	enter_state(&walk, false, 0);
	return read_frames(&walk, ret_frames, max);
}

uint64_t gm_python_local(
        struct gm_python *python, const struct gm_python_frame *frame, uint32_t slot)
{
	if (slot >= frame->code->local_count)
		return 0;
	return gm_stackref_object(&python->layout,
	        gm_py_field(python, gm_py_slot_address(python, frame->address, slot), 0));
}

uint64_t gm_python_frame_globals(struct gm_python *python, const struct gm_python_frame *frame)
{
	return gm_py_field(python, frame->address, python->layout.frame_globals);
}
