/*
 * Finds which of several threads that wait in backward() waits for the engine task that this thread
 * works on.
 *
 * The engine has an object for each backward (GraphTask, torch/csrc/autograd/engine.cpp), held by
 * std::shared_ptr: by Engine::execute() on the stack of the waiting thread, and by thread_main() on
 * that of the working thread. A shared_ptr that std::make_shared() created is two words: an
 * object's address, and that of its counts, 16 bytes before it (libstdc++'s
 * _Sp_counted_ptr_inplace). Both stacks are searched for such pairs. The outermost pair of this
 * thread that exactly one waiter has identifies it. Stale pairs of earlier tasks are further
 * inside.
 *
 * The kernel copies a waiter's stack, because the waiter may continue meanwhile; /proc shows its
 * stack pointer. A thread that has not begun to wait yet, or was woken, has none there. If that is
 * the wanted thread, a stale pair could identify a wrong one, because its object was freed and the
 * object of a current waiter may be at the same address. So the outermost pair is used only if all
 * waiters were examined. It is a variable of thread_main(), so from then on it is at the same place
 * of this stack, and only that place is read.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/stacks/inside.h"
#include "agent/stacks/memory.h"

enum {
	PAIRS_MAX = 64,
	OWN_BYTES = 1 << 15,    /* bytes of this thread's stack, from its outer end */
	OTHERS_BYTES = 1 << 14, /* bytes of a waiter's stack, from its inner end */
	COUNTS = 16,            /* bytes between the counts and the object */
};

/* Is there a shared_ptr at this place? */
static inline bool is_pair(const uint64_t *words)
{
	return words[0] - words[1] == COUNTS && words[1] >= 0x10000 && !(words[1] & 15) &&
	       words[1] < UINT64_C(1) << 47;
}

/* Outermost first, each with its place. */
static size_t own_pairs(
        struct gm_stacks_thread *thread, uint64_t *ret_objects, uint64_t *ret_places)
{
	uint64_t here = ((uint64_t)(uintptr_t)__builtin_frame_address(0) + 15) & ~UINT64_C(7);
	size_t count = 0;

	if ((!thread->stack_end && !gm_native_find_stack(thread)) || here < thread->stack_start ||
	        here >= thread->stack_end)
		return 0;
	if (thread->task_place >= here) {
		const uint64_t words[2] = {
		        gm_load(thread->task_place), gm_load(thread->task_place + 8)};
		ret_objects[0] = words[0];
		ret_places[0] = thread->task_place;
		return is_pair(words);
	}
	if (thread->stack_end - here > OWN_BYTES)
		here = thread->stack_end - OWN_BYTES;
	for (uint64_t at = (thread->stack_end & ~UINT64_C(7)) - 16; at >= here && count < PAIRS_MAX;
	        at -= 8) {
		const uint64_t words[2] = {gm_load(at), gm_load(at + 8)};
		bool known = false;
		if (!is_pair(words))
			continue;
		for (size_t i = 0; i < count && !known; i++)
			known = ret_objects[i] == words[0];
		if (!known) {
			ret_places[count] = at;
			ret_objects[count++] = words[0];
		}
	}
	return count;
}

/* The stack pointer of a blocked thread; 0: it is not blocked, or /proc does not show it. */
static uint64_t stack_pointer(uint32_t thread)
{
	char path[64], text[256];
	ssize_t size;
	int fd, cancel;

	/* proc(5): number, six arguments, stack pointer, program counter; "running"; or "-1",
	 * pointer, counter */
	snprintf(path, sizeof(path), "/proc/self/task/%u/syscall", thread);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	size = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	if (fd >= 0)
		close(fd);
	pthread_setcancelstate(cancel, NULL);
	if (size <= 0)
		return 0;
	text[size] = 0;
	char *last = strrchr(text, ' ');
	if (!last)
		return 0;
	*last = 0;
	last = strrchr(text, ' ');
	return last ? strtoull(last + 1, NULL, 16) : 0;
}

/* Which of the objects the waiter has, as bits. False: its stack cannot be examined. */
static bool common(struct gm_stacks_thread *thread, uint32_t waiter, const uint64_t *objects,
        size_t object_count, uint64_t *ret_has)
{
	uint64_t *words = (uint64_t *)(void *)thread->raw;
	uint64_t at = stack_pointer(waiter) & ~UINT64_C(7), found = 0;
	size_t size = OTHERS_BYTES;

	_Static_assert(OTHERS_BYTES <= sizeof(thread->raw), "the scratch memory holds it");
	if (!at)
		return false;
	while (size >= 1024 && !gm_read_checked(at, words, size))
		size /= 2; /* it ends before */
	if (size < 1024)
		return false;
	for (size_t i = 0; i + 1 < size / 8; i++) {
		if (!is_pair(&words[i]))
			continue;
		for (size_t j = 0; j < object_count; j++)
			found |= (uint64_t)(objects[j] == words[i]) << j;
	}
	*ret_has = found;
	return true;
}

size_t gm_waiter_of(struct gm_stacks_thread *thread, const uint32_t *waiters, size_t count)
{
	uint64_t objects[PAIRS_MAX], places[PAIRS_MAX], has[GM_WAITERS_MAX] = {0};
	size_t object_count = own_pairs(thread, objects, places);
	bool all = true;

	for (size_t i = 0; i < count && object_count; i++) {
		struct gm_stacks_thread *other = atomic_load(&gm_stacks_threads[waiters[i]]);
		all &= common(thread, other->kernel_id, objects, object_count, &has[i]);
	}
	for (size_t j = 0; j < object_count && (all || thread->task_place); j++) {
		size_t holders = 0, which = 0;
		for (size_t i = 0; i < count; i++) {
			if (has[i] >> j & 1) {
				holders++;
				which = i;
			}
		}
		if (holders == 1) {
			thread->task_place = places[j];
			return which;
		}
	}
	return GM_WAITERS_MAX;
}
