/*
 * The frame that is being torn down while something is freed: its function has returned and its
 * locals are released one by one. core/cpython/threads/dying.c explains how it is found; here it
 * belongs to the calling thread itself.
 *
 * Slots that were released before the current one (below it; from 3.14 on above it) point to freed
 * memory, perhaps to unmapped pages. So the slots are read from the other end, whose objects are
 * alive, and the kernel is asked first whether each page is mapped. (To have the kernel copy the
 * reference counts, process_vm_readv(2), takes some 3 us for ten of them.)
 */
#include "agent/stacks/inside.h"
#include "agent/put.h"
#include "agent/stacks/memory.h"

enum {
	OWNED_BY_THREAD = 0,
	EVIDENCE_DYING_FRAME = 1, /* enum gm_evidence_kind of log/log.h */
	EVIDENCE_GENERATOR = 2,
	PAGES = 8,
	GENERATOR =
	        0x20 | 0x80 |
	        0x200, /* CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR, Include/cpython/code.h */
	STACK_MAX = 32,
};

/* Pages that are known to be mapped, while one frame is examined. */
struct pages {
	uint64_t known[PAGES];
	unsigned next;
};

static bool is_there(struct pages *pages, uint64_t object)
{
	const uint64_t page = object / GM_PAGE;

	if (page == 0 || (object & 7))
		return false;
	for (unsigned i = 0; i < PAGES; i++) {
		if (pages->known[i] == page)
			return true;
	}
	if (!gm_can_read(object))
		return false;
	pages->known[pages->next++ % PAGES] = page;
	return true;
}

/* The first slot whose object has no reference left, from the end that is released last: objects
 * before it have not been released yet. */
static int dying_slot(uint64_t frame, const struct gm_stack_code *code)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	const uint64_t slots = frame + (uint64_t)layout->frame_localsplus;
	const bool downwards = gm_stacks_python.version >= 0x030e;
	struct pages pages = {0};

	for (uint32_t k = 0; k < code->local_count; k++) {
		uint32_t i = downwards ? k : code->local_count - 1 - k;
		uint64_t object = gm_stackref_counted(layout, gm_load(slots + 8 * (uint64_t)i));
		if (object && is_there(&pages, object) &&
		        gm_refcount_in(layout, gm_load(object)) == 0)
			return (int)i;
	}
	return -1;
}

/* There are few different ones: a small table of those written, by any thread; one that was evicted
 * is written again. Each recording numbers its own from 1. */
static struct {
	_Atomic uint64_t key;
	_Atomic uint32_t id;
} written[1024];
static _Atomic uint32_t evidence_count;

void gm_evidence_clear(void)
{
	for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++)
		atomic_store_explicit(&written[i].id, 0, memory_order_relaxed);
	atomic_store(&evidence_count, 0);
}

static uint32_t write_evidence(
        uint32_t kind, const struct gm_stack_code *code, uint64_t frame, int slot)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint32_t offset = gm_code_offset(layout, gm_stacks_python.version, code->address,
	        gm_load(frame + (uint64_t)layout->frame_instruction));
	/* code 17 bits, slot 16, offset 24, kind 2 */
	uint64_t key = (uint64_t)code->id << 42 ^ (uint64_t)(slot + 1) << 26 ^
	               (uint64_t)offset << 2 ^ kind;
	size_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 54;
	uint8_t bytes[48], *end = bytes;
	uint32_t id = atomic_load_explicit(&written[at].id, memory_order_acquire);

	if (atomic_load_explicit(&written[at].key, memory_order_relaxed) == key && id)
		return id;
	id = atomic_fetch_add(&evidence_count, 1) + 1;
	end = gm_put_varint(end, kind);
	end = gm_put_varint(end, code->id);
	end = gm_put_varint(end, offset);
	end = gm_put_varint(end, (uint64_t)(slot + 1));
	if (!gm_agent_put(GM_AGENT_EVIDENCE, id, bytes, (size_t)(end - bytes)))
		return 0;
	/* if another thread writes in between, both are written again later */
	atomic_store_explicit(&written[at].id, 0, memory_order_release);
	atomic_store_explicit(&written[at].key, key, memory_order_release);
	atomic_store_explicit(&written[at].id, id, memory_order_release);
	return id;
}

static bool is_code(uint64_t address)
{
	return address && !(address & 7) && gm_can_read(address + 8) &&
	       gm_load(address + 8) == gm_stacks_python.code_type;
}

static uint8_t owner_of(uint64_t frame)
{
	return *(const uint8_t *)(uintptr_t)(frame + (uint64_t)gm_stacks_python.layout.frame_owner);
}

/* The code of the frame at `address`, if it is a complete frame that ends at `top` and was called
 * by `caller`. */
static const struct gm_stack_code *dying_code(
        struct gm_stacks_thread *thread, uint64_t address, uint64_t top, uint64_t caller)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	const struct gm_stack_code *entry;
	uint64_t code;

	if (!address || (address & 7) || address + (uint64_t)layout->frame_localsplus > top ||
	        top - address > 1 << 20 ||
	        gm_load(address + (uint64_t)layout->frame_previous) != caller ||
	        owner_of(address) != OWNED_BY_THREAD)
		return NULL;
	code = gm_load(address + (uint64_t)layout->frame_code) & gm_stacks_python.code_mask;
	if (!is_code(code))
		return NULL;
	entry = gm_code_at(thread, code, gm_code_print(code));
	return entry && address + entry->frame_size == top ? entry : NULL;
}

static uint8_t opcode_under_way(const struct gm_python_slot *frame)
{
	return *(const uint8_t *)(uintptr_t)frame->instruction;
}

/* A generator that has just ended clears its frame, which is inside the generator. A `for` loop
 * that iterates over it has it on the value stack. */
static uint32_t find_generator(struct gm_stacks_thread *thread, const struct gm_python_slot *driver)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint32_t count =
	        driver->entry->stack_size < STACK_MAX ? driver->entry->stack_size : STACK_MAX;
	uint64_t values = driver->frame + (uint64_t)layout->frame_localsplus +
	                  8 * (uint64_t)driver->entry->local_count;

	if (gm_stacks_python.opcodes[opcode_under_way(driver)].op != GM_OP_FOR_ITER)
		return 0;
	for (uint32_t i = count; i-- > 0;) {
		uint64_t object = gm_stackref_object(layout, gm_load(values + 8 * (uint64_t)i));
		uint64_t type, frame, code;
		int8_t state;
		if (!object || (object & 7) || !gm_can_read(object + 8))
			continue;
		type = gm_load(object + 8);
		if (type != gm_stacks_python.generator_types[0] &&
		        type != gm_stacks_python.generator_types[1] &&
		        type != gm_stacks_python.generator_types[2])
			continue;
		state = *(const int8_t *)(uintptr_t)(object + (uint64_t)layout->generator_state);
		frame = object + (uint64_t)layout->generator_frame;
		if (state < layout->generator_finished)
			return 0; /* the innermost running one */
		code = gm_load(frame + (uint64_t)layout->frame_code) & gm_stacks_python.code_mask;
		if (!is_code(code))
			return 0;
		const struct gm_stack_code *entry = gm_code_at(thread, code, gm_code_print(code));
		int slot = entry ? dying_slot(frame, entry) : -1;
		return slot >= 0 ? write_evidence(EVIDENCE_GENERATOR, entry, frame, slot) : 0;
	}
	return 0;
}

uint32_t gm_dying_take(struct gm_stacks_thread *thread, uint64_t state)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	const struct gm_stack_code *code;
	uint64_t top, chunk, current, live_end = 0, address;

	if (layout->thread_chunk == GM_NO_FIELD || !thread->python_count)
		return 0;
	top = gm_load(state + (uint64_t)layout->thread_chunk_top);
	chunk = gm_load(state + (uint64_t)layout->thread_chunk);
	current = gm_python_innermost(state);
	if (!top || !chunk || top <= chunk)
		return 0;
	/* After the innermost live frame on the data stack. Frames of generators are not there. */
	for (uint32_t i = thread->python_count; i-- > 0;) {
		const struct gm_python_slot *slot = &thread->python[i];
		if (owner_of(slot->frame) == OWNED_BY_THREAD) {
			live_end = slot->frame + slot->entry->frame_size;
			break;
		}
	}
	if (live_end == top)
		return find_generator(thread, &thread->python[thread->python_count - 1]);
	address = live_end;
	code = live_end > chunk && live_end < top ? dying_code(thread, address, top, current)
	                                          : NULL;
	if (!code) {
		/* the first one of a chunk that was pushed only for it (Python/pystate.c,
		 * push_chunk()) */
		uint64_t previous = gm_load(chunk + (uint64_t)layout->chunk_previous);
		address = chunk + (uint64_t)layout->chunk_data + (previous ? 0 : 8);
		code = dying_code(thread, address, top, current);
	}
	if (!code)
		return 0;
	return write_evidence((code->flags & GENERATOR) ? EVIDENCE_GENERATOR : EVIDENCE_DYING_FRAME,
	        code, address, dying_slot(address, code));
}
