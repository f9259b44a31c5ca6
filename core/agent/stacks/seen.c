/*
 * Native stacks that a thread had before: programs repeat themselves, and an earlier walk need only
 * be checked.
 *
 * A walk depends only on the innermost frame's registers and the words that it reads on the stack,
 * according to the call frame information. So for each stack these words are kept, with their
 * addresses and values: all return addresses, and the saved frame pointers and stack pointers from
 * which a frame was found. If pc, rsp and all words are the same, the stack is the same. The loads
 * are independent, so a word takes less than a nanosecond, while a step of a walk waits for the
 * previous one and for the row of its address.
 *
 * The words are in a ring: the newest stacks replace the oldest. Unloading a library, or another
 * recording, invalidates all of them (`salt`), and so does a thread's end, because another thread's
 * stack may begin elsewhere.
 */
#include "agent/stacks/inside.h"

enum {
	SETS = GM_SEEN / GM_SEEN_WAYS,
	LIST_MAX = GM_SEEN_WORDS /
	           4, /* words of one stack; words that are being written may be after seen_used */
};

/* A word: 48 bits of its value, and its position above rsp, in words. */
static uint64_t pack(uint64_t value, uint64_t place)
{
	return value << 16 | (uint16_t)place;
}

static uint64_t salt_now(const struct gm_stacks_thread *thread)
{
	/* never 0: that marks an unused slot */
	return (atomic_load_explicit(&gm_unload_salt, memory_order_relaxed) << 32 ^
	               (uint64_t)gm_stacks_generation << 16 ^ thread->epoch) |
	       UINT64_C(1) << 63;
}

static inline struct gm_seen *set_of(
        struct gm_stacks_thread *thread, uint64_t pc, uint64_t rsp, uint32_t hint)
{
	uint64_t hash = (pc ^ rsp << 20 ^ (uint64_t)hint << 40) * UINT64_C(0x9e3779b97f4a7c15);

	return &thread->seen[(hash >> 32) % SETS * GM_SEEN_WAYS];
}

/* Are the words unchanged? Checked in groups of eight: another stack usually differs early, after
 * the allocator's frames. */
static inline bool holds(const uint64_t *words, uint32_t count, uint64_t rsp)
{
	const volatile uint64_t *stack = (const volatile uint64_t *)(uintptr_t)rsp;
	uint64_t wrong = 0, word;

#define LOOK(i) (word = words[i], wrong |= stack[(uint16_t)word] ^ word >> 16)
	for (; count >= 8; count -= 8, words += 8) {
		LOOK(0), LOOK(1), LOOK(2), LOOK(3), LOOK(4), LOOK(5), LOOK(6), LOOK(7);
		if (wrong)
			return false;
	}
	for (uint32_t i = 0; i < count; i++)
		LOOK(i);
#undef LOOK
	return wrong == 0;
}

uint32_t gm_seen_find(
        struct gm_stacks_thread *thread, const struct gm_agent_registers *at, uint32_t hint)
{
	struct gm_seen *set = set_of(thread, at->rip, at->rsp, hint);
	const uint64_t salt = salt_now(thread);

	for (unsigned way = 0; way < GM_SEEN_WAYS; way++) {
		struct gm_seen *seen = &set[way];
		if (seen->pc != at->rip || seen->rsp != at->rsp || seen->salt != salt ||
		        (seen->has_rbp && seen->rbp != at->rbp) ||
		        thread->seen_used - seen->first > GM_SEEN_WORDS - LIST_MAX)
			continue;
		if (!holds(&thread->seen_words[seen->first % GM_SEEN_WORDS], seen->count,
		            seen->rsp))
			continue;
		if (way) {
			struct gm_seen found = *seen;
			*seen = set[0];
			set[0] = found;
		}
		return set[0].stack;
	}
	return 0;
}

/* Adds a word to the list. False: it does not fit into these bits. */
static bool keep(
        struct gm_stacks_thread *thread, struct gm_seen *seen, uint64_t address, uint64_t value)
{
	uint64_t place = (address - seen->rsp) / 8;

	if (place > UINT16_MAX || (address & 7) || value >> 48)
		return false;
	thread->seen_words[(seen->first + seen->count++) % GM_SEEN_WORDS] = pack(value, place);
	return true;
}

/* There is one. */
void gm_seen_keep(struct gm_stacks_thread *thread, uint32_t hint)
{
	const uint32_t count = thread->native_count, most = 3 * count;
	const struct gm_native_slot *innermost = &thread->native[count - 1];
	uint64_t rbp = innermost->rbp, rbp_at = 0;
	bool is_kept = false; /* the words from which frames were found through this rbp */
	struct gm_seen *set, seen = {.pc = innermost->pc,
	                             .rsp = innermost->rsp,
	                             .rbp = innermost->rbp,
	                             .salt = salt_now(thread),
	                             .stack = innermost->stack};

	if (most > LIST_MAX || innermost->exact)
		return;
	/* a list does not wrap around the ring's end */
	if (thread->seen_used % GM_SEEN_WORDS + most > GM_SEEN_WORDS)
		thread->seen_used += GM_SEEN_WORDS - thread->seen_used % GM_SEEN_WORDS;
	seen.first = thread->seen_used;
	for (uint32_t i = count; i-- > 0;) {
		const struct gm_native_slot *slot = &thread->native[i];
		if (slot != innermost) {
			if (slot->rsp_at && !keep(thread, &seen, slot->rsp_at, slot->rsp))
				return;
			if (!keep(thread, &seen, slot->pc_at, slot->pc))
				return;
			if (slot->rbp_at) {
				rbp_at = slot->rbp_at;
				rbp = slot->rbp;
				is_kept = false;
			}
		}
		if (slot->by_rbp && !is_kept) {
			is_kept = true;
			if (!rbp_at)
				seen.has_rbp = true;
			else if (!keep(thread, &seen, rbp_at, rbp))
				return;
		}
	}
	thread->seen_used = seen.first + seen.count;
	set = set_of(thread, seen.pc, seen.rsp, hint);
	memmove(&set[1], &set[0], (GM_SEEN_WAYS - 1) * sizeof(*set));
	set[0] = seen;
}
