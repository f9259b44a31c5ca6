/* why: a block's life: what allocated it, which statement released it, how late, and what kept it
 * until then. */
#ifndef GM_ASK_WHY_H
#define GM_ASK_WHY_H

#include "ask/recording/cause.h"
#include "ask/context.h"

enum { GM_WHY_SKIPPED_MAX = 8 };
struct gm_why {
	const struct gm_model *model;
	struct gm_block block;
	uint32_t number; /* the model's, of the block */
	uint32_t freed;  /* event of the free request, else of its completion; GM_NO_EVENT: still
	                    alive */
	struct gm_frame_place made_at;  /* user's site of the allocation; code 0: not recorded */
	struct gm_frame_place freed_at; /* user's site of the free */
	struct gm_cause cause;          /* where it was freed */
	/* The first later block of the same statement and size that was allocated in another step
	 * while this one lived, and that outlives it; GM_NO_BLOCK: none. */
	uint32_t successor;
	/* The biggest block that the statement of the free itself had allocated before, in the same
	 * iteration, and that lives on; GM_NO_BLOCK: none. */
	uint32_t replacement_block;
	uint64_t meanwhile_bytes, meanwhile_blocks; /* allocated on its device during its life */
	/* Steps of its life that a GradScaler skipped, at least in part: the first ones. */
	uint32_t skipped[GM_WHY_SKIPPED_MAX];
	size_t skipped_count; /* of all */
};

struct gm_error *gm_ask_why(struct gm_context *context, uint32_t block, struct gm_why *ret_why);
/* The statement that released the block; code 0: none is known. */
const struct gm_frame_place *gm_why_statement(const struct gm_why *why);

#endif
