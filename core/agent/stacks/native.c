/*
 * The calling thread's C stack, from call frame information; no frame pointers are needed. Only the
 * thread's own stack is read, and nothing beyond its end.
 *
 * For its last stack a thread stores each frame's program counter, its registers, and where on the
 * stack they were read. A walk goes from the innermost frame outwards until it reaches a frame of
 * the last stack in the same state. If all words from which the outer frames were found are
 * unchanged, the outer frames are the same (each one's position follows from the one within it).
 * That check is a load and a compare for each frame. Only new frames are looked up. Stacks that the
 * thread had before are not walked at all: seen.c.
 */
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/stacks/inside.h"
#include "agent/gap.h"
#include "agent/state.h"

enum { POLL_EVERY = 64 }; /* captures of a thread between two checks for unloaded files */

/* ld.so: where the main thread's stack ended when the program began */
extern void *__libc_stack_end;

/* The stack that the kernel gave to the process. */
static void find_first_stack(uint64_t *ret_start, uint64_t *ret_end)
{
	struct rlimit limit;
	uint64_t most = UINT64_C(64) << 20;
	if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	        limit.rlim_cur > most)
		most = limit.rlim_cur;
	*ret_end = (uint64_t)(uintptr_t)__libc_stack_end;
	*ret_start = *ret_end - most;
}

/*
 * Whether this thread is the one that the kernel made. That its number is the process's does not
 * say it: so is that of the only thread of a forked child, which keeps the stack of the thread that
 * forked. pthread_getattr_np() would know, but for the first thread it calls malloc(): as long as
 * the first thread is not known, such a thread is taken for it.
 */
static pthread_t first_thread;
static _Atomic bool knows_first_thread;

static bool is_first_thread(uint64_t start, uint64_t end)
{
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	if (atomic_load(&knows_first_thread))
		return pthread_equal(first_thread, pthread_self()) != 0;
	if (here >= start && here < end) {
		first_thread = pthread_self();
		atomic_store(&knows_first_thread, true);
	}
	return true;
}

/* A preloaded library is loaded by the first thread; otherwise its first event on that stack shows
 * which it is. */
__attribute__((constructor)) static void look_at_first_thread(void)
{
	uint64_t start, end;
	find_first_stack(&start, &end);
	if (syscall(SYS_gettid) == getpid())
		is_first_thread(start, end);
}

bool gm_native_find_stack(struct gm_stacks_thread *thread)
{
	if (gm_agent_thread() == gm_agent_pid()) {
		uint64_t first_start, first_end;
		find_first_stack(&first_start, &first_end);
		if (is_first_thread(first_start, first_end)) {
			thread->stack_start = first_start;
			thread->stack_end = first_end;
			return true;
		}
	}
	pthread_attr_t attributes;
	void *start;
	size_t size;
	if (pthread_getattr_np(pthread_self(), &attributes) != 0)
		return false;
	if (pthread_attr_getstack(&attributes, &start, &size) == 0) {
		thread->stack_start = (uint64_t)(uintptr_t)start;
		thread->stack_end = thread->stack_start + size;
	}
	pthread_attr_destroy(&attributes);
	return thread->stack_end != 0;
}

struct walk {
	uint64_t pc, rsp, rbp;
	uint64_t pc_at, rbp_at, rsp_at; /* where this step read them; 0: it did not read them */
	uint64_t end;                   /* of the stack */
	bool exact;                     /* pc belongs to an instruction that is not a call */
	bool by_rbp;                    /* this step used rbp */
	bool lost;                      /* the walk ended outside of any loaded file */
};

static inline bool readable(const struct walk *walk, uint64_t address)
{
	return address >= walk->rsp && address <= walk->end - 8 && !(address & 7);
}

static bool step_signal(struct walk *walk)
{
	/* struct ucontext at rsp: gregs at 40, in the order of enum REG_ (sys/ucontext.h); kernel's
	 * rt_sigframe */
	enum {
		GREGS = 40,
		RBP_AT = GREGS + 8 * 10,
		RSP_AT = GREGS + 8 * 15,
		RIP_AT = GREGS + 8 * 16
	};
	uint64_t rsp;

	if (!readable(walk, walk->rsp + RIP_AT))
		return false;
	rsp = gm_load(walk->rsp + RSP_AT);
	if (rsp <= walk->rsp || rsp >= walk->end)
		return false; /* it was on another stack */
	walk->rsp_at = walk->rsp + RSP_AT;
	walk->pc_at = walk->rsp + RIP_AT;
	walk->rbp_at = walk->rsp + RBP_AT;
	walk->pc = gm_load(walk->pc_at);
	walk->rbp = gm_load(walk->rbp_at);
	walk->rsp = rsp;
	walk->exact = true;
	return true;
}

/* Steps to the caller. False: this is the last frame that can be reported. */
static inline bool step(struct gm_stacks_thread *thread, struct walk *walk)
{
	struct gm_frame_row row = gm_row_of(thread, walk->exact ? walk->pc : walk->pc - 1);
	uint64_t cfa, at;

	walk->rsp_at = 0;
	walk->by_rbp =
	        row.kind == GM_ROW_RBP || row.kind == GM_ROW_RBP_LOAD || row.rbp == GM_RBP_RBP;
	switch (row.kind) {
	case GM_ROW_RSP:
		cfa = walk->rsp + (uint64_t)(int64_t)row.offset;
		break;
	case GM_ROW_RBP:
		cfa = walk->rbp + (uint64_t)(int64_t)row.offset;
		break;
	case GM_ROW_RBP_LOAD:
		at = walk->rbp + (uint64_t)(int64_t)row.offset;
		if (!readable(walk, at))
			return false;
		cfa = gm_load(at);
		walk->rsp_at = at;
		break;
	case GM_ROW_PLT:
		cfa = walk->rsp + 8 + ((walk->pc & 15) >= 11 ? 8 : 0);
		break;
	case GM_ROW_SIGNAL:
		return step_signal(walk);
	default:
		walk->lost = row.kind == GM_ROW_UNKNOWN && row.offset == 0; /* rows.c */
		return false;
	}
	if (cfa <= walk->rsp || !readable(walk, cfa - 8))
		return false;
	walk->rbp_at = 0;
	if (row.rbp != GM_RBP_SAME) {
		at = (row.rbp == GM_RBP_CFA ? cfa : walk->rbp) + (uint64_t)(int64_t)row.rbp_offset;
		if (!readable(walk, at))
			return false;
		walk->rbp_at = at;
		walk->rbp = gm_load(at);
	}
	walk->pc_at = cfa - 8;
	walk->pc = gm_load(cfa - 8);
	walk->rsp = cfa;
	walk->exact = false;
	return walk->pc != 0;
}

/* Are the frames outside of slot `from` still those of the last walk? Returns the first one that is
 * not, or 0. */
static inline uint32_t first_changed(const struct gm_native_slot *slots, uint32_t from)
{
	for (uint32_t i = from; i-- > 0;) {
		const struct gm_native_slot *slot = &slots[i];
		if (gm_load(slot->pc_at) != slot->pc ||
		        (slot->rbp_at && gm_load(slot->rbp_at) != slot->rbp) ||
		        GM_UNLIKELY(slot->rsp_at && gm_load(slot->rsp_at) != slot->rsp))
			return i + 1;
	}
	return 0;
}

static uint32_t number(struct gm_stacks_thread *thread, uint32_t base, uint32_t count)
{
	uint32_t stack = base ? thread->native[base - 1].stack : 0;

	for (uint32_t i = count; i-- > 0;) {
		struct gm_native_slot *slot = &thread->native[base + (count - 1 - i)];
		*slot = thread->walked[i];
		stack = gm_trie_child(&gm_native_trie, stack, slot->pc);
		if (!stack) {
			thread->native_count = 0;
			return 0;
		}
		slot->stack = stack;
	}
	thread->native_count = base + count;
	return stack;
}

static void report_deep(void)
{
	gm_agent_gap("some native stacks were too deep: of those the innermost 256 frames "
	             "are recorded");
}

static uint32_t walk_from(struct gm_stacks_thread *thread, struct walk walk)
{
	const struct walk innermost = walk;
	const uint32_t most = gm_stacks_options.max_frames;
	uint32_t count = 0, known = thread->native_count;

	for (;;) {
		/* frames of the last stack that were further inside */
		while (known && thread->native[known - 1].rsp < walk.rsp)
			known--;
		struct gm_native_slot *same = known ? &thread->native[known - 1] : NULL;
		if (same && same->rsp == walk.rsp && same->pc == walk.pc && same->rbp == walk.rbp &&
		        same->exact == walk.exact) {
			uint32_t changed = first_changed(thread->native, known - 1);
			/* it may have been the innermost, which was not read from the stack */
			same->pc_at = walk.pc_at;
			same->rbp_at = walk.rbp_at;
			same->rsp_at = walk.rsp_at;
			if (GM_UNLIKELY(known + count >= most)) {
				thread->native_count = 0; /* the stack is too deep */
				return walk_from(thread, innermost);
			}
			if (!changed)
				return number(thread, known, count);
			for (uint32_t i = known; i-- > changed;)
				thread->walked[count++] = thread->native[i];
			/* continue after the last frame that is the same */
			const struct gm_native_slot *last = &thread->native[changed];
			walk.pc = last->pc;
			walk.rsp = last->rsp;
			walk.rbp = last->rbp;
			walk.exact = last->exact;
			known = changed;
		} else {
			thread->walked[count++] = (struct gm_native_slot){.pc = walk.pc,
			        .rsp = walk.rsp,
			        .rbp = walk.rbp,
			        .pc_at = walk.pc_at,
			        .rbp_at = walk.rbp_at,
			        .rsp_at = walk.rsp_at,
			        .exact = walk.exact};
		}
		if (GM_UNLIKELY(count >= most)) {
			report_deep();
			uint32_t stack = number(thread, 0, gm_stacks_kept());
			thread->native_count = 0; /* its outermost frame is not known */
			return stack;
		}
		bool goes_on = step(thread, &walk);
		thread->walked[count - 1].by_rbp = walk.by_rbp;
		if (!goes_on)
			break;
	}
	thread->native_ended = !walk.lost;
	return number(thread, 0, count);
}

uint32_t gm_native_take(
        struct gm_stacks_thread *thread, const struct gm_agent_registers *at, uint32_t hint)
{
	const struct walk walk = {
	        .pc = at->rip, .rsp = at->rsp, .rbp = at->rbp, .end = thread->stack_end};
	uint32_t stack;

	if (GM_UNLIKELY(!thread->stack_end))
		return gm_native_find_stack(thread) ? gm_native_take(thread, at, hint) : 0;
	if (at->rsp < thread->stack_start || at->rsp >= thread->stack_end || (at->rsp & 7))
		return 0; /* a stack that the program created itself: its bounds are not known */
	if (GM_UNLIKELY(++thread->captures % POLL_EVERY == 0))
		gm_modules_poll();
	stack = gm_seen_find(thread, at, hint);
	if (GM_LIKELY(stack))
		return stack;
	stack = walk_from(thread, walk);
	if (stack && thread->native_count && thread->native_ended)
		gm_seen_keep(thread, hint);
	return stack;
}
