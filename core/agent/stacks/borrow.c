/*
 * Borrowed stacks. Backward of CUDA tensors runs on the autograd engine's own threads, which have
 * no Python frames, or only those of an operator's override: such an event gets the stack of the
 * thread that waits in backward() for it, and is marked as borrowed. If several threads wait,
 * waiter.c finds the right one; if it cannot, no stack is borrowed. The engine numbers its tasks,
 * so the search is made once for each.
 *
 * Another thread's frames stay unchanged only while it waits. So candidates are examined through
 * the kernel, and a thread that is found to wait is walked as if it were this one: it continues
 * only when the engine is done, which this thread is part of. Only threads that Python itself
 * started are considered, because their thread state lives until they end, and a thread that ends
 * waits for any thread that is examining it.
 */
#include <sys/prctl.h>

#include "agent/stacks/inside.h"
#include "agent/gap.h"
#include "agent/stacks/memory.h"
#include "torch/names.h"

enum { TRIES = 8 /* time to find the thread that waits for a task: it takes microseconds */ };

static bool visit(struct gm_stacks_thread *other)
{
	atomic_fetch_add(&other->visitors, 1);
	if (atomic_load(&other->alive) && atomic_load(&other->state))
		return true;
	atomic_fetch_sub(&other->visitors, 1);
	return false;
}

static void leave(struct gm_stacks_thread *other)
{
	atomic_fetch_sub(&other->visitors, 1);
}

/* The innermost frame of a thread that waits in the engine; 0: it does not wait there. */
static uint64_t waiting_frame(struct gm_stacks_thread *thread, struct gm_stacks_thread *other)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint64_t state = atomic_load(&other->state), at = 0, frame = 0, code = 0, type = 0;
	const struct gm_stack_code *entry;

	if (layout->thread_cframe == GM_NO_FIELD) {
		if (!gm_read_checked(state + (uint64_t)layout->thread_frame, &frame, 8))
			return 0;
	} else if (!gm_read_checked(state + (uint64_t)layout->thread_cframe, &at, 8) ||
	           !gm_read_checked(at + (uint64_t)layout->cframe_frame, &frame, 8)) {
		return 0;
	}
	if (!frame || !gm_read_checked(frame + (uint64_t)layout->frame_code, &code, 8))
		return 0;
	code &= gm_stacks_python.code_mask;
	if (!gm_read_checked(code + 8, &type, 8) || type != gm_stacks_python.code_type)
		return 0;
	entry = gm_code_at(thread, code, gm_code_print(code));
	return entry && entry->kind == GM_CODE_ENGINE ? frame : 0;
}

static bool still_waits(
        const struct gm_borrowed_from *borrowed_from, struct gm_stacks_thread *other)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint64_t state = atomic_load(&other->state);

	return borrowed_from->frame && gm_python_innermost(state) == borrowed_from->frame &&
	       (gm_load(borrowed_from->frame + (uint64_t)layout->frame_code) &
	               gm_stacks_python.code_mask) == borrowed_from->code;
}

static void report_several(void)
{
	gm_agent_gap("several threads waited in backward() at once: events of the autograd "
	             "threads that could belong to either have no Python stack");
}

/* The task that this thread of the engine works on; 0: this PyTorch does not tell. */
static uint64_t current_task(void)
{
	/* int torch::autograd::get_current_graph_task_id(): torch/csrc/autograd/engine.cpp, 1.13+;
	 * -1: none */
	static int (*_Atomic ask)(void);
	static _Atomic bool sought;
	int (*function)(void);
	int id;

	if (GM_UNLIKELY(!atomic_load_explicit(&sought, memory_order_acquire))) {
		uint64_t at = gm_module_symbol(GM_TORCH_CURRENT_TASK);
		atomic_store(&ask, (int (*)(void))(uintptr_t)at);
		atomic_store(&sought, true);
	}
	function = atomic_load_explicit(&ask, memory_order_relaxed);
	id = function ? function() : -1;
	return id < 0 ? 0 : (uint64_t)id + 1;
}

/* Finds the thread that waits for this thread's task, and examines it. NULL: none or several. */
static struct gm_stacks_thread *find(
        struct gm_stacks_thread *thread, uint64_t task, struct gm_borrowed_from *ret)
{
	uint32_t waiters[GM_WAITERS_MAX];
	uint64_t frame;
	size_t count = 0;

	for (uint32_t i = 0; i < GM_STACKS_THREADS_MAX && count < GM_WAITERS_MAX; i++) {
		struct gm_stacks_thread *other = atomic_load(&gm_stacks_threads[i]);
		if (!other)
			break;
		if (other == thread || !other->is_pythons || !visit(other))
			continue;
		if (waiting_frame(thread, other))
			waiters[count++] = i;
		leave(other);
	}
	size_t which = count > 1 ? GM_WAITERS_MAX : 0;
	if (count > 1 && task)
		which = gm_waiter_of(thread, waiters, count);
	if (count > 1 && which >= count)
		report_several();
	if (which >= count)
		return NULL;
	struct gm_stacks_thread *found = atomic_load(&gm_stacks_threads[waiters[which]]);
	if (!visit(found))
		return NULL;
	frame = waiting_frame(thread, found);
	if (!frame) {
		leave(found);
		return NULL;
	}
	ret->frame = frame;
	ret->code = gm_load(frame + (uint64_t)gm_stacks_python.layout.frame_code) &
	            gm_stacks_python.code_mask;
	ret->owner = waiters[which] + 1;
	return found;
}

/* For a task without a number nothing is cached: another one may have begun. */
static struct gm_stacks_thread *owner_of(
        struct gm_stacks_thread *thread, uint64_t task, struct gm_borrowed_from *borrowed_from)
{
	struct gm_stacks_thread *other;

	if (task && borrowed_from->task == task && borrowed_from->owner) {
		other = atomic_load(&gm_stacks_threads[borrowed_from->owner - 1]);
		if (visit(other)) {
			if (still_waits(borrowed_from, other))
				return other;
			leave(other);
		}
	}
	if (borrowed_from->task != task)
		*borrowed_from = (struct gm_borrowed_from){.task = task};
	borrowed_from->owner = 0;
	if (task && borrowed_from->tries >= TRIES)
		return NULL;
	borrowed_from->tries++;
	return find(thread, task, borrowed_from);
}

uint32_t gm_borrow_take(struct gm_stacks_thread *thread)
{
	struct gm_stacks_thread *other;
	struct gm_borrowed_from *borrowed_from;
	uint64_t task;
	uint32_t stack;

	if (!thread->is_named) {
		char name[16] = "";
		prctl(PR_GET_NAME, name);
		/* torch/csrc/autograd/engine.cpp: set_thread_name("pt_autograd_" + device) */
		thread->is_autograd = !strncmp(name, "pt_autograd_", 12);
		thread->is_named = true;
	}
	if (!thread->is_autograd)
		return 0;
	task = current_task();
	borrowed_from = &thread->borrowed_from[task % GM_BORROWED_FROM];
	other = owner_of(thread, task, borrowed_from);
	if (!other)
		return 0;
	stack = gm_python_take_from(thread, borrowed_from->frame);
	leave(other);
	return stack;
}
