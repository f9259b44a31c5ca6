/* Judging an event. Internal to core/walk. */
#ifndef GM_WALK_JUDGE_H
#define GM_WALK_JUDGE_H

#include "base/error.h"
#include "walk/state.h"

/* Reads the events from walk->seen on, and evaluates those in [walk->from, walk->to). */
struct gm_error *gm_walk_read(struct gm_walk *walk);
enum gm_truth gm_walk_judge_stacks(
        const struct gm_walk *walk, const struct gm_event *event, const struct gm_clause *clause);
/* `tensor`: id in the log */
enum gm_truth gm_walk_judge_tensor(
        const struct gm_walk *walk, uint32_t tensor, const struct gm_clause *clause);
/* The block that an event allocated, if it is alive; NULL. */
struct gm_walk_block *gm_walk_block_of(const struct gm_walk *walk, uint64_t event);

#endif
