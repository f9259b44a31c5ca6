/*
 * Two answers of `retained` compared: what grew, what shrank, between two moments of a program or
 * in two programs.
 *
 * Groups are matched by their names without counts ("20 items" and "40 items" are one), variables
 * by their name alone.
 */
#ifndef GM_ASK_RETAINED_DIFF_H
#define GM_ASK_RETAINED_DIFF_H

#include "holders/retained/retained.h"

struct gm_retained_change {
	/* as the later answer has it, the earlier one's where it is gone: belongs to that answer */
	const struct gm_retained_node *node;
	uint64_t before, after; /* bytes */
	uint64_t blocks_before, blocks_after;
	struct gm_retained_change
	        *children; /* the greatest change first; unchanged ones are left out */
	size_t child_count;
};

struct gm_retained_device_change {
	int device;
	uint64_t before, after, blocks_before, blocks_after; /* of all */
	struct gm_retained_change *changes;
	size_t change_count;
};

struct gm_retained_diff {
	struct gm_retained_device_change *devices;
	size_t device_count;
};

/* Both answers must outlive what is returned. */
struct gm_error *gm_ask_retained_diff(const struct gm_retained *before,
        const struct gm_retained *after, struct gm_retained_diff *ret_diff);
void gm_retained_diff_deinit(struct gm_retained_diff *diff);

#endif
