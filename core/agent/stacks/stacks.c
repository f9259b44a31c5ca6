/*
 * The stacks of one event.
 */
#include "agent/stacks/stacks.h"

#include "agent/stacks/inside.h"
#include "agent/stacks/memory.h"

static bool ready;
static _Atomic uint32_t python_tries;

/* --- start --- */

static uint32_t write_python(uint8_t *bytes, const struct gm_trie_node *node)
{
	uint8_t *at = gm_put_varint(bytes, node->parent);

	at = gm_put_varint(at, node->value >> 32);
	at = gm_put_varint(at, (uint32_t)node->value);
	return (uint32_t)(at - bytes);
}

static uint32_t write_native(uint8_t *bytes, const struct gm_trie_node *node)
{
	uint8_t *at = gm_put_varint(bytes, node->parent);

	at = gm_put_varint(at, node->value);
	return (uint32_t)(at - bytes);
}

bool gm_stacks_start(const struct gm_stacks_options *options)
{
	gm_stacks_threads_begin();
	gm_stacks_options = *options;
	if (!gm_stacks_options.max_frames || gm_stacks_options.max_frames > GM_STACKS_FRAMES_MAX)
		gm_stacks_options.max_frames = GM_STACKS_FRAMES_MAX;
	ready = false;
	if (gm_stacks_generation++) {
		gm_trie_clear(&gm_python_trie);
		gm_trie_clear(&gm_native_trie);
		gm_codes_clear();
		gm_evidence_clear();
		gm_row_slots_clear();
		gm_iterators_clear();
		gm_tasks_clear();
		gm_stacks_clear(gm_stacks_arena.bytes, gm_stacks_arena.size);
		atomic_store(&gm_stacks_arena.used, 0);
	}
	gm_modules_clear();
	if (!gm_stacks_arena.bytes && (gm_stacks_arena.bytes = gm_stacks_map(GM_STACKS_ARENA)))
		gm_stacks_arena.size = GM_STACKS_ARENA;
	ready = gm_stacks_arena.bytes && gm_codes_init() && gm_row_slots_init() &&
	        gm_trie_init(&gm_python_trie, GM_AGENT_PYTHON_STACK, GM_PYTHON_STACKS_MAX,
	                write_python) &&
	        gm_trie_init(
	                &gm_native_trie, GM_AGENT_NATIVE_STACK, GM_NATIVE_STACKS_MAX, write_native);
	atomic_store(&python_tries, 0);
	if (ready && options->python)
		gm_python_seek();
	return ready;
}

size_t gm_stacks_memory(size_t *ret_per_thread)
{
	size_t levels = 0;

	for (unsigned i = 0; i < GM_TRIE_LEVELS; i++)
		levels += sizeof(uint32_t) << (12 + 2 * i);
	*ret_per_thread = sizeof(struct gm_stacks_thread);
	return GM_STACKS_ARENA + 2 * levels +
	       sizeof(struct gm_trie_node) * (GM_PYTHON_STACKS_MAX + GM_NATIVE_STACKS_MAX + 2) +
	       GM_ROW_SLOTS * sizeof(struct gm_row_slot) + (8 << 16) + GM_STACKS_CODES_MAX * 2 * 16;
}

/* --- an event --- */

/* A program that loads Python itself does so at some time: searched less and less often. */
static void seek_python(void)
{
	uint32_t tries = atomic_fetch_add_explicit(&python_tries, 1, memory_order_relaxed);

	if (tries && (tries & (tries - 1)) == 0)
		gm_python_seek();
}

/* Is the last stack only an operator's override in Python (torch/_native/registry.py, 2.15: bmm)?
 * It runs on the autograd engine's threads too. The thread that called backward() says more then.
 */
static bool is_override(const struct gm_stacks_thread *thread)
{
	return thread->python_count && thread->python[0].entry->kind == GM_CODE_OVERRIDE;
}

static void borrow(struct gm_stacks_thread *thread, struct gm_agent_stacks *ret)
{
	uint32_t stack = gm_borrow_take(thread);

	if (!stack)
		return;
	ret->python = stack;
	ret->evidence = 0; /* of the thread's own frames */
	ret->flags |= GM_STACKS_BORROWED;
}

void gm_stacks_take(const struct gm_agent_registers *at, bool freed, struct gm_agent_stacks *ret)
{
	struct gm_stacks_thread *thread;
	uint64_t state = 0;

	*ret = (struct gm_agent_stacks){0};
	if (!ready || !(thread = gm_stacks_thread()))
		return;
	if (gm_stacks_options.python) {
		if (GM_LIKELY(__atomic_load_n(&gm_stacks_python.on, __ATOMIC_ACQUIRE))) {
			ret->python = gm_python_take(thread, &state);
			if (ret->python && freed)
				ret->evidence = gm_dying_take(thread, state);
			if (GM_UNLIKELY(!thread->has_frames || is_override(thread)))
				borrow(thread, ret);
			if (ret->python) {
				gm_tasks_take(thread);
				gm_iterators_take(thread);
			}
			if (GM_UNLIKELY(gm_forward_is_on()))
				gm_forward_take(thread);
		} else if (!gm_stacks_python.refused) {
			seek_python();
		}
	}
	if (gm_stacks_options.native)
		ret->native = gm_native_take(thread, at, ret->python);
}

void gm_stacks_see_task(void)
{
	struct gm_stacks_thread *thread = ready ? gm_stacks_current : NULL;
	uint64_t state;

	if (thread && thread->task_frame && gm_stacks_options.python &&
	        thread->generation == gm_stacks_generation &&
	        __atomic_load_n(&gm_stacks_python.on, __ATOMIC_ACQUIRE) &&
	        gm_python_take(thread, &state))
		gm_tasks_take(thread);
}
