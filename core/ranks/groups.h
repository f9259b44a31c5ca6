/*
 * Ranks that are alike, and ranks that stand out. Ranks are alike where their memory at the peak
 * comes from the same lines in nearly the same bytes: the stages of a pipeline differ in their
 * lines or bytes, the replicas of data parallelism do not. A rank stands out that no other is like,
 * or whose peak is far from the median of those that it is like.
 */
#ifndef GM_RANKS_GROUPS_H
#define GM_RANKS_GROUPS_H

#include "ask/diff.h"
#include "base/array.h"

struct gm_rank_group {
	GM_ARRAY(size_t) files;       /* of the comparison, ascending; two at least */
	uint64_t least, median, most; /* of their peaks */
};

struct gm_rank_odd {
	size_t file;
	size_t group;    /* the nearest; with which it is compared */
	bool alone;      /* no other rank is like it; otherwise it is of the group */
	uint64_t median; /* of the group's peaks */
	/* What differs most in the rank's direction: the row of the last table, its bytes here and
	 * the group's median; row SIZE_MAX: none. */
	size_t row;
	uint64_t bytes, usual;
};

struct gm_rank_groups {
	GM_ARRAY(struct gm_rank_group) items; /* by their first file */
	GM_ARRAY(struct gm_rank_odd) odd;     /* the farthest first */
	size_t alone;                         /* files in no group */
};

struct gm_error *gm_rank_groups(
        const struct gm_compare *compare, struct gm_rank_groups *ret_groups);
void gm_rank_groups_deinit(struct gm_rank_groups *groups);

static inline uint64_t gm_rank_gap(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

#endif
