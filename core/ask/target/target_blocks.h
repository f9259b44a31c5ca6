/*
 * blocks of a live process or a core dump: the allocator's own records, biggest first, with what
 * live tensors tell of each (shape, dtype, whether it is a parameter or a gradient).
 */
#ifndef GM_ASK_TARGET_BLOCKS_H
#define GM_ASK_TARGET_BLOCKS_H

#include "ask/blocks.h"
#include "ask/target/memory.h"
#include "holders/holders.h"

struct gm_target_blocks {
	struct gm_memory memory;
	size_t *order;               /* parts in use, biggest first; owned */
	struct gm_block_note *notes; /* as `order`; owned */
	size_t count;
	enum gm_group_by by;     /* of `groups`; never NONE */
	struct gm_group *groups; /* by category, module or shape: their bytes add up to
	                            memory.allocated; owned */
	size_t group_count;
};

/* by: GM_BY_CATEGORY (also for GM_BY_NONE), GM_BY_MODULE or GM_BY_SHAPE. */
struct gm_error *gm_ask_target_blocks(struct gm_context *context, int device, enum gm_group_by by,
        struct gm_target_blocks *ret_blocks);
void gm_target_blocks_deinit(struct gm_target_blocks *blocks);
/* "parameter", "gradient", ...: as far as a live tensor tells; "unknown". Static. */
const char *gm_note_category(const struct gm_block_note *note);

#endif
