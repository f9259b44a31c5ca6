#include "agent/stacks/inside.h"
#include "agent/gap.h"
#include "agent/put.h"
#include "agent/stacks/memory.h"

enum { LEVEL_0_BITS = 12, LEVEL_STEP = 2 };

static uint32_t level_size(unsigned level)
{
	return 1u << (LEVEL_0_BITS + LEVEL_STEP * level);
}

bool gm_trie_init(struct gm_trie *trie, enum gm_agent_record kind, uint32_t max,
        uint32_t (*write)(uint8_t *bytes, const struct gm_trie_node *node))
{
	trie->kind = kind;
	trie->write = write;
	trie->max = max;
	if (!trie->nodes)
		trie->nodes = gm_stacks_map(((size_t)max + 1) * sizeof(*trie->nodes));
	for (unsigned i = 0; i < GM_TRIE_LEVELS; i++) {
		if (!trie->slots[i])
			trie->slots[i] = gm_stacks_map(level_size(i) * sizeof(*trie->slots[i]));
		if (!trie->slots[i])
			return false;
	}
	return trie->nodes != NULL;
}

void gm_trie_clear(struct gm_trie *trie)
{
	if (!trie->nodes)
		return;
	gm_stacks_clear(trie->nodes, ((size_t)trie->max + 1) * sizeof(*trie->nodes));
	for (unsigned i = 0; i < GM_TRIE_LEVELS; i++) {
		gm_stacks_clear(trie->slots[i], level_size(i) * sizeof(*trie->slots[i]));
		atomic_store(&trie->used[i], 0);
	}
	atomic_store(&trie->count, 0);
	atomic_store(&trie->reported_full, false);
}

static bool is_child(const struct gm_trie *trie, uint32_t id, uint32_t parent, uint64_t value)
{
	return trie->nodes[id].value == value && trie->nodes[id].parent == parent;
}

/* A new node, which is already in the file. 0: no space. */
static uint32_t make(struct gm_trie *trie, uint32_t parent, uint64_t value)
{
	uint8_t bytes[64];
	uint32_t id = 0;

	if (atomic_load_explicit(&trie->count, memory_order_relaxed) < trie->max)
		id = atomic_fetch_add_explicit(&trie->count, 1, memory_order_relaxed) + 1;
	if (id == 0 || id > trie->max) {
		if (!atomic_exchange(&trie->reported_full, true))
			gm_agent_gap(trie->kind == GM_AGENT_PYTHON_STACK
			                     ? "the agent's table of Python stacks is full: stacks "
			                       "not seen "
			                       "before are left out from here on"
			             : trie->kind == GM_AGENT_NATIVE_STACK
			                     ? "the agent's table of native stacks is full: stacks "
			                       "not seen "
			                       "before are left out from here on"
			                     : "the agent's table of tensors is full: dtypes and "
			                       "shapes not seen "
			                       "before are left out from here on");
		return 0;
	}
	trie->nodes[id].value = value;
	trie->nodes[id].parent = parent;
	return gm_agent_put(trie->kind, id, bytes, trie->write(bytes, &trie->nodes[id])) ? id : 0;
}

uint32_t gm_trie_search(struct gm_trie *trie, uint32_t parent, uint64_t value)
{
	uint64_t hash = (value ^ (uint64_t)parent * UINT64_C(0xff51afd7ed558ccd)) *
	                UINT64_C(0x9e3779b97f4a7c15);
	uint32_t made = 0;

	hash ^= hash >> 32;
	for (unsigned level = 0; level < GM_TRIE_LEVELS; level++) {
		uint32_t size = level_size(level);
		_Atomic uint32_t *slots = trie->slots[level];
		/* A level is closed when half of it is in use, so its chains stay short and end at
		 * an empty slot. */
		bool open =
		        atomic_load_explicit(&trie->used[level], memory_order_relaxed) < size / 2;
		for (uint32_t i = (uint32_t)hash & (size - 1), tries = 0; tries < size;
		        i = (i + 1) & (size - 1), tries++) {
			uint32_t id = atomic_load_explicit(&slots[i], memory_order_acquire);
			if (!id && !open)
				break;
			if (!id) {
				if (!made)
					made = make(trie, parent, value);
				if (!made)
					return 0;
				if (atomic_compare_exchange_strong(&slots[i], &id, made)) {
					atomic_fetch_add_explicit(
					        &trie->used[level], 1, memory_order_relaxed);
					id = made;
				}
			}
			if (is_child(trie, id, parent, value)) {
				atomic_store_explicit(
				        &trie->nodes[parent].last_child, id, memory_order_release);
				return id;
			}
		}
	}
	return made; /* all levels are closed: the node is in the file, but cannot be found again */
}
