/*
 * The bytes of a sharding's tensors: each storage is counted once, by the first term that has a
 * tensor in it, and each tensor once in a term.
 */
#ifndef GM_ASK_ZERO_LEDGER_H
#define GM_ASK_ZERO_LEDGER_H

#include "ask/zero/reading.h"
#include "base/map.h"

struct gm_zero_ledger {
	struct gm_torch *torch;
	struct gm_map storages; /* -> its term, plus 1 */
	struct gm_map tensors[GM_ZERO_PART_COUNT];
	uint64_t claimed[GM_ZERO_PART_COUNT]; /* by tensors in a term's own storages */
	bool on_device;                       /* the parameters are in a device's memory */
	bool no_memory;
};

void gm_zero_ledger_deinit(struct gm_zero_ledger *ledger);
/* Counts a tensor in a term. True: it was not counted there before. *ret_bytes: of its elements. */
bool gm_zero_ledger_add(struct gm_zero_ledger *ledger, struct gm_zero_sharding *sharding,
        enum gm_zero_part part, const struct gm_tensor *tensor, uint64_t *ret_bytes);
/* Once all tensors are in: what storages have beside their tensors. */
void gm_zero_ledger_close(struct gm_zero_ledger *ledger, struct gm_zero_sharding *sharding);

#endif
