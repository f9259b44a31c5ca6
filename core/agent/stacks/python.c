/*
 * The calling thread's Python frames, from its thread state.
 *
 * The thread often is within a function of C that has let go of the GIL: its frames stand still all the same, as only
 * the thread itself moves them, and each keeps its code object alive. PyGILState_GetThisThreadState() reads a
 * thread's own storage and works without the GIL.
 *
 * Frames are walked from the innermost outwards, all of them: a frame at the same place with the same code and
 * instruction as the last time may have been called from another line. Then those from the outermost on
 * that have not changed keep their number; the others are looked up, each on top of the one before.
 *
 * 3.11+: _PyInterpreterFrame (Include/internal/pycore_frame.h); 3.9, 3.10: frame objects.
 */
#include <pthread.h>
#include <stdlib.h>

#include "agent/stacks/inside.h"
#include "cpython/locate.h"

enum {
	TRUST_AFTER =
	        64, /* walks with every frame checked, until frames are loaded as the tables say */
	OWNED_BY_GENERATOR = 1,
	OWNED_BY_C = 3, /* enum _frameowner, 3.12+ */
	FRAMES_WALKED_MAX = 1 << 17,
};

struct gm_stacks_python gm_stacks_python;

/* --- finding --- */

static const struct {
	int version;
	const struct gm_python_layout *layout;
} tables[] = {
        {0x0309, &gm_python_layout_309},
        {0x030a, &gm_python_layout_310},
        {0x030b, &gm_python_layout_311},
        {0x030c, &gm_python_layout_312},
        {0x030d, &gm_python_layout_313},
};

static void refuse(const char *why)
{
	gm_stacks_python.refused = true;
	gm_stacks_python.on = false;
	gm_agent_gap(why);
}

/* 3.13 publishes its own offsets: those the walk needs are put over the table's. */
static bool put_debug_offsets(struct gm_stacks_python *python)
{
	const struct gm_debug_offsets *own = (const void *)(uintptr_t)python->runtime;
	struct gm_python_layout *layout = &python->layout;

	if (!own || memcmp(own->cookie, "xdebugpy", 8))
		return true;
	if (own->free_threaded == 1)
		return false;
	const struct {
		uint64_t value;
		int32_t *field;
		uint64_t limit;
	} rows[] = {
	        {own->thread_interpreter, &layout->thread_interpreter, own->thread_size},
	        {own->thread_frame, &layout->thread_frame, own->thread_size},
	        {own->thread_ident, &layout->thread_ident, own->thread_size},
	        {own->frame_previous, &layout->frame_previous, own->frame_size},
	        {own->frame_code, &layout->frame_code, own->frame_size},
	        {own->frame_instruction, &layout->frame_instruction, own->frame_size},
	        {own->frame_locals, &layout->frame_localsplus, own->frame_size},
	        {own->frame_owner, &layout->frame_owner, own->frame_size},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].value >= rows[i].limit || rows[i].limit > 1 << 16)
			return true;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		*rows[i].field = (int32_t)rows[i].value;
	return true;
}

static int version_here(void)
{
	/* unsigned long Py_Version, 3.11+ (Include/pylifecycle.h) */
	uint64_t address = gm_module_symbol("Py_Version");
	const char *(*get_version)(void);
	const char *text;
	long minor;

	if (address)
		return (int)(gm_load(address) >> 16);
	/* Python/getversion.c: writes a static buffer, always with the same text */
	get_version = (const char *(*)(void))(uintptr_t)gm_module_symbol("Py_GetVersion");
	text = get_version ? get_version() : "";
	if (text[0] != '3' || text[1] != '.')
		return 0;
	minor = strtol(text + 2, NULL, 10);
	return minor >= 0 && minor < 256 ? 0x0300 | (int)minor : 0;
}

void gm_python_seek(void)
{
	struct gm_stacks_python *python = &gm_stacks_python;
	static const char *const iterators[] = {
	        "PyRangeIter_Type", "PyListIter_Type", "PyTupleIter_Type", "PyEnum_Type"};
	static const char *const generators[] = {"PyGen_Type", "PyCoro_Type", "PyAsyncGen_Type"};
	uint64_t this_thread;

	if (python->on || python->refused)
		return;
	this_thread = gm_module_symbol("PyGILState_GetThisThreadState");
	if (!this_thread)
		return;
	python->version = version_here();
	python->runtime = gm_module_symbol("_PyRuntime");
	python->code_type = gm_module_symbol("PyCode_Type");
	for (size_t i = 0; i < 4; i++)
		python->iterator_types[i] = gm_module_symbol(iterators[i]);
	for (size_t i = 0; i < 3; i++)
		python->generator_types[i] = gm_module_symbol(generators[i]);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (tables[i].version != python->version)
			continue;
		python->layout = *tables[i].layout;
		if (!python->code_type || !put_debug_offsets(python)) {
			refuse("this build of CPython (free-threaded, or stripped) is not known: "
			       "events have no "
			       "Python stacks");
			return;
		}
		python->this_thread = (void *(*)(void))(uintptr_t)this_thread;
		__atomic_store_n(&python->on, true, __ATOMIC_RELEASE);
		return;
	}
	refuse("this version of CPython is not known (3.9 to 3.13 are): events have no Python "
	       "stacks");
}

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

uint32_t gm_python_collect(struct gm_stacks_thread *thread, uint64_t frame)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	const int32_t instruction = layout->frame_instruction != GM_NO_FIELD
	                                    ? layout->frame_instruction
	                                    : layout->frame_lasti;
	const int32_t code_at = layout->frame_code, previous_at = layout->frame_previous;
	const int32_t owner_at = layout->frame_owner;
	const bool checked = gm_stacks_python.trusted < TRUST_AFTER;
	uint32_t count = 0;

	while (frame && count < GM_STACKS_FRAMES_MAX) {
		struct gm_python_raw *raw = &thread->raw[count];
		uint64_t owner = 0;
		if ((frame & 7) || !load_word(frame + (uint64_t)code_at, checked, &raw->code) ||
		        !load_word(frame + (uint64_t)instruction, checked, &raw->instruction))
			return 0;
		raw->frame = frame;
		if (layout->frame_instruction == GM_NO_FIELD)
			raw->instruction = (uint32_t)raw->instruction;
		if (owner_at != GM_NO_FIELD &&
		        !load_word(frame + (uint64_t)(owner_at & ~7), checked, &owner))
			return 0;
		if (!load_word(frame + (uint64_t)previous_at, checked, &frame))
			return 0;
		if (((owner >> 8 * (owner_at & 7)) & 0xff) != OWNED_BY_C || owner_at == GM_NO_FIELD)
			count += raw->code != 0;
	}
	return count;
}

/* Its function has not got to its first traceable instruction (_PyFrame_IsIncomplete()). */
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

static void told_deep(void)
{
	static _Atomic bool told;

	if (!atomic_exchange(&told, true))
		gm_agent_gap("Python stacks deeper than 4096 frames: of those only the innermost "
		             "256 are recorded");
}

/* The stack of thread->raw, `count` frames of it. 0: it cannot be told. */
uint32_t gm_python_number(struct gm_stacks_thread *thread, uint32_t count)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint32_t known, i = 0, stack = 0;

	if (GM_UNLIKELY(count == GM_STACKS_FRAMES_MAX)) {
		told_deep();
		count = GM_STACKS_FRAMES_KEPT;
	}
	known = thread->python_count < count ? thread->python_count : count;
	for (; i < known; i++) {
		const struct gm_python_raw *raw = &thread->raw[count - 1 - i];
		const struct gm_python_slot *slot = &thread->python[i];
		if (slot->frame != raw->frame || slot->instruction != raw->instruction ||
		        slot->code != raw->code || slot->print != gm_code_print(raw->code))
			break;
		stack = slot->stack;
	}
	for (; i < count; i++) {
		const struct gm_python_raw *raw = &thread->raw[count - 1 - i];
		struct gm_python_slot *slot = &thread->python[i];
		uint64_t print = gm_code_print(raw->code);
		const struct gm_stack_code *entry = gm_code_at(thread, raw->code, print);
		if (!entry) {
			thread->python_count = i;
			return 0;
		}
		if (!is_incomplete(entry, raw)) {
			uint32_t offset = gm_code_offset(
			        layout, gm_stacks_python.version, raw->code, raw->instruction);
			stack = gm_trie_child(
			        &gm_python_trie, stack, (uint64_t)entry->id << 32 | offset);
			if (!stack) {
				thread->python_count = i;
				return 0;
			}
		}
		*slot = (struct gm_python_slot){.frame = raw->frame,
		        .code = raw->code,
		        .instruction = raw->instruction,
		        .print = print,
		        .stack = stack,
		        .loop_count = entry->loop_count,
		        .entry = entry};
	}
	thread->python_count = count;
	return stack;
}

/* The first walks: is the thread state this thread's, and are the frames' code objects code objects? */
static bool is_plausible(struct gm_stacks_thread *thread, uint64_t state, uint32_t count)
{
	struct gm_stacks_python *python = &gm_stacks_python;
	uint64_t ident = 0, type = 0;

	if (!gm_read_checked(state + (uint64_t)python->layout.thread_ident, &ident, 8) ||
	        ident != (uint64_t)pthread_self())
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (!gm_read_checked(thread->raw[i].code + 8, &type, 8) ||
		        type != python->code_type)
			return false;
	}
	if (count)
		__atomic_fetch_add(&python->trusted, 1, __ATOMIC_RELAXED);
	return true;
}

uint32_t gm_python_take(struct gm_stacks_thread *thread, uint64_t *ret_state)
{
	uint64_t state = (uint64_t)(uintptr_t)gm_stacks_python.this_thread();
	uint64_t frame = 0;
	uint32_t count;

	*ret_state = state;
	if (GM_UNLIKELY(atomic_load_explicit(&thread->state, memory_order_relaxed) != state)) {
		atomic_store(&thread->state, state);
		/* C++ threads get a state for each call into Python; one that Python has started, or the main
		 * one, keeps its own */
		thread->is_pythons = state && !thread->had_none;
	}
	if (!state) {
		thread->had_none = true;
		thread->python_count = 0;
		return 0;
	}
	frame = gm_python_innermost(state);
	count = frame ? gm_python_collect(thread, frame) : 0;
	if (GM_UNLIKELY(gm_stacks_python.trusted < TRUST_AFTER) &&
	        ((frame && !count) || !is_plausible(thread, state, count))) {
		refuse("this build of CPython has its structs laid out otherwise than the releases "
		       "(a debug or "
		       "patched build?): events have no Python stacks");
		return 0;
	}
	return gm_python_number(thread, count);
}
