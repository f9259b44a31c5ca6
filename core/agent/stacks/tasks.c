/*
 * The coroutine to which an event belongs, if several share a thread (asyncio's tasks, trio's):
 * that of the outermost coroutine's frame on the stack. Stacks alone do not distinguish two tasks
 * that run the same code.
 *
 * A frame has the same address as long as its coroutine lives, and another coroutine may have that
 * address afterwards. So a coroutine gets a number when it is first seen. When a thread switches to
 * another one, the previous coroutine is examined: if it has ended, its address counts as new. A
 * coroutine that ends later, without another event, is not noticed: then two successive tasks get
 * the same number.
 *
 * The autograd engine's threads borrow the stack of the thread that waits (borrow.c), and so its
 * task too.
 */
#include <stdio.h>

#include "agent/stacks/inside.h"
#include "agent/put.h"
#include "agent/stacks/memory.h"

enum {
	CO_COROUTINE = 0x80,
	CO_ASYNC_GENERATOR = 0x200, /* Include/cpython/code.h */
	TASKS = 1 << 10,            /* known at once, by any thread */
	PROBES = 8,
};

static struct {
	_Atomic uint64_t frame;
	_Atomic uint32_t number;
} tasks[TASKS];
static _Atomic uint32_t last_number;

bool gm_task_is_coroutine(uint32_t flags)
{
	return flags & (CO_COROUTINE | CO_ASYNC_GENERATOR);
}

void gm_tasks_clear(void)
{
	for (uint32_t i = 0; i < TASKS; i++)
		atomic_store_explicit(&tasks[i].frame, 0, memory_order_relaxed);
}

static uint32_t slot_of(uint64_t frame, uint32_t probe)
{
	return (uint32_t)(((frame >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54) + probe) &
	       (TASKS - 1);
}

/* 0: no space. */
static uint32_t number_of(uint64_t frame)
{
	for (uint32_t probe = 0; probe < PROBES; probe++) {
		uint32_t at = slot_of(frame, probe);
		if (atomic_load(&tasks[at].frame) == frame)
			return atomic_load(&tasks[at].number);
	}
	for (uint32_t probe = 0; probe < PROBES; probe++) {
		uint32_t at = slot_of(frame, probe);
		uint64_t none = 0;
		/* nobody but the thread that runs it, or that waits for an engine's thread, looks
		 * up this frame */
		if (!atomic_compare_exchange_strong(&tasks[at].frame, &none, frame))
			continue;
		uint32_t number = atomic_fetch_add(&last_number, 1) + 1;
		atomic_store(&tasks[at].number, number);
		return number;
	}
	return 0;
}

/* A frame that a thread was in before: has its coroutine ended? It may be freed, and its memory
 * too. */
static bool has_ended(uint64_t frame)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	int8_t state;

	if (layout->generator_state == GM_NO_FIELD)
		return false; /* up to 3.10 */
	return !gm_read_checked(frame - (uint64_t)layout->generator_frame +
	                                (uint64_t)layout->generator_state,
	               &state, 1) ||
	       state >= layout->generator_finished;
}

static void forget(uint64_t frame)
{
	for (uint32_t probe = 0; probe < PROBES; probe++) {
		uint32_t at = slot_of(frame, probe);
		uint64_t expected = frame;
		if (atomic_compare_exchange_strong(&tasks[at].frame, &expected, 0))
			return;
	}
}

void gm_tasks_turn(struct gm_stacks_thread *thread, uint64_t frame, uint32_t depth)
{
	uint8_t bytes[48], *at = bytes;
	char text[32];
	uint32_t number = 0;

	if (thread->task_frame && has_ended(thread->task_frame))
		forget(thread->task_frame);
	thread->task_frame = frame;
	thread->task_depth = depth;
	thread->task_turned = true;
	if (frame)
		number = number_of(frame);
	int size = number ? snprintf(text, sizeof(text), "%u %u", number, depth) : 0;
	at = gm_put_varint(at, GM_AGENT_MARK_TASK);
	at = gm_write_string(at, text, (size_t)size);
	gm_agent_put(GM_AGENT_MARK, 0, bytes, (size_t)(at - bytes));
}
