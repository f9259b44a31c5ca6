/*
 * Backward of CUDA tensors runs on the autograd engine's own threads, which have no Python frames: such an event
 * borrows the stack of the one thread that waits in backward(), and is marked so. Where several wait, nothing
 * tells them apart and none is borrowed.
 *
 * Another thread's frames stand still only while it waits. So candidates are looked at through the kernel, and the
 * one that is found to wait is walked as if it were this one: it goes on only when the engine is done, which this
 * thread is part of. Only threads that Python itself has started are looked at, since their thread state lives until they
 * end, and one that ends waits for whoever looks at it.
 */
#include <sys/prctl.h>

#include "agent/stacks/inside.h"

struct gm_stacks_thread *_Atomic gm_stacks_threads[GM_STACKS_THREADS_MAX];

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

/* The innermost frame of a thread that waits in the engine; 0: it does not. */
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
	if (!frame || !gm_read_checked(frame + (uint64_t)layout->frame_code, &code, 8) ||
	        !gm_read_checked(code + 8, &type, 8) || type != gm_stacks_python.code_type)
		return 0;
	entry = gm_code_at(thread, code, gm_code_print(code));
	return entry && entry->kind == GM_CODE_ENGINE ? frame : 0;
}

static bool still_waits(const struct gm_stacks_thread *thread, struct gm_stacks_thread *other)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint64_t state = atomic_load(&other->state);

	return thread->lent_frame && gm_python_innermost(state) == thread->lent_frame &&
	       gm_load(thread->lent_frame + (uint64_t)layout->frame_code) == thread->lent_code;
}

static void tell_several(void)
{
	static _Atomic bool told;
	if (!atomic_exchange(&told, true))
		gm_agent_gap("several threads wait in backward() at once: events of the "
		             "autograd threads have no Python stack then");
}

/* Does another thread wait than the one that lends? It may have begun to since: what runs here may be its. */
static bool another_waits(struct gm_stacks_thread *thread, const struct gm_stacks_thread *lender)
{
	for (uint32_t i = 0; i < GM_STACKS_THREADS_MAX; i++) {
		struct gm_stacks_thread *other = atomic_load(&gm_stacks_threads[i]);
		if (!other)
			break;
		if (other == thread || other == lender || !other->is_pythons || !visit(other))
			continue;
		bool waits = waiting_frame(thread, other);
		leave(other);
		if (waits) {
			tell_several();
			return true;
		}
	}
	return false;
}

/* Finds the one that waits, visited. NULL: none or several. */
static struct gm_stacks_thread *find(struct gm_stacks_thread *thread)
{
	struct gm_stacks_thread *found = NULL;

	for (uint32_t i = 0; i < GM_STACKS_THREADS_MAX; i++) {
		struct gm_stacks_thread *other = atomic_load(&gm_stacks_threads[i]);
		uint64_t frame;
		if (!other)
			break;
		if (other == thread || !other->is_pythons || !visit(other))
			continue;
		frame = waiting_frame(thread, other);
		if (!frame) {
			leave(other);
			continue;
		}
		if (found) {
			leave(other);
			leave(found);
			tell_several();
			return NULL;
		}
		found = other;
		thread->lent_frame = frame;
		thread->lent_code = gm_load(frame + (uint64_t)gm_stacks_python.layout.frame_code);
		thread->lender = i + 1;
	}
	return found;
}

uint32_t gm_borrow_take(struct gm_stacks_thread *thread)
{
	struct gm_stacks_thread *other = NULL;
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
	if (thread->lender) {
		other = atomic_load(&gm_stacks_threads[thread->lender - 1]);
		if (!visit(other)) {
			other = NULL;
		} else if (!still_waits(thread, other)) {
			leave(other);
			other = NULL;
		} else if (another_waits(thread, other)) {
			leave(other);
			thread->lender = 0;
			return 0;
		}
	}
	if (!other)
		other = find(thread);
	if (!other) {
		thread->lender = 0;
		return 0;
	}
	stack = gm_python_walk(thread, thread->lent_frame);
	leave(other);
	return stack;
}
