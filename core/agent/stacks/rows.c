/*
 * Rows by program counter, for all threads: an open table in which a new row replaces another in
 * the same slot. The replaced row is then computed again; nothing else is lost.
 */
#include "agent/stacks/inside.h"
#include "agent/stacks/memory.h"

struct gm_row_slot *gm_row_slots;

bool gm_row_slots_init(void)
{
	if (!gm_row_slots)
		gm_row_slots = gm_stacks_map(GM_ROW_SLOTS * sizeof(*gm_row_slots));
	return gm_row_slots != NULL;
}

void gm_row_slots_clear(void)
{
	gm_stacks_clear(gm_row_slots, GM_ROW_SLOTS * sizeof(*gm_row_slots));
}

struct gm_frame_row gm_row_search(struct gm_stacks_thread *thread, uint64_t pc)
{
	struct gm_row_slot *slot = &gm_row_slots[pc * UINT64_C(0x9e3779b97f4a7c15) >> (64 - 15)];
	struct gm_frame_row row = {.kind = GM_ROW_UNKNOWN};
	struct gm_loaded loaded;
	uint64_t word, salt;

	gm_modules_poll();
	salt = atomic_load(&gm_unload_salt);
	if (gm_module_at(thread, pc, &loaded))
		row = gm_frame_table_row(loaded.frame_header, loaded.frame_header_size,
		        loaded.start, loaded.end, pc);
	else
		return row; /* not stored: code may be loaded there later */
	memcpy(&word, &row, sizeof(word));
	if (!word) {
		row.offset = 1; /* unknown, but not empty */
		memcpy(&word, &row, sizeof(word));
	}
	atomic_store_explicit(&slot->row, word, memory_order_relaxed);
	atomic_store_explicit(&slot->key, pc ^ word ^ salt, memory_order_relaxed);
	return row;
}
