/*
 * Which ranks of a simulated job are run, and what is inferred of the others.
 *
 * Ranks of equal stage and shard sizes do the same. Two ranks are taken as equal where their whole
 * recordings were (their class, see sim_digest.h). What a rank does depends on its place in the
 * job's groups: on rank / N for an outer group (pipeline stages), on rank % N for an inner one
 * (tensor parallelism), on being near the end where something was divided unevenly. So these are
 * run:
 *
 *   1. The first and the last rank, and from rank 0 the steps of each divisor of the world: that is
 *      one step along each dimension that a mesh of these ranks can have. The smallest step after
 *      which rank 0's class comes again, when it does not at once, is the period. The same is done
 *      from an odd rank, one whose neighbours differ from it while they are equal to each other, or
 *      the last one.
 *   2. With a period P, ranks of equal remainder are one sequence each; remainders whose first
 *      ranks are equal share one. Between two neighbours of a sequence that differ, the
 *      roundest number is run, as stages begin at such; where the upper one is the roundest, the
 *      rank before it. So each border between classes is found, between two adjacent ranks.
 *   3. Ranks between two equal ones are inferred to be equal. A random sample of the inferred ranks
 *      is run. One that differs is odd, and both steps are done again with what is known now; the
 *      check begins anew.
 */
#ifndef GM_RANKS_SIM_PLAN_H
#define GM_RANKS_SIM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct gm_rank_plan_options {
	uint32_t world;
	bool all;       /* every rank is run */
	uint32_t most;  /* run at most so many; 0: no limit */
	uint32_t check; /* inferred ranks to be run for a check */
};

struct gm_rank_plan;

struct gm_error *gm_rank_plan_create(
        const struct gm_rank_plan_options *options, struct gm_rank_plan **ret_plan);
void gm_rank_plan_destroy(struct gm_rank_plan *plan);

/* The next rank to be run, which is then given out. False: none now; with `ret_done`: and none
 * later, whatever the ranks that were given out give. */
struct gm_error *gm_rank_plan_next(
        struct gm_rank_plan *plan, bool *ret_has, uint32_t *ret_rank, bool *ret_done);
/* A rank was run. class: from 1. One that was not given out (an earlier run of the command ran it)
 * is used like another: where it is not as it was inferred, more is run. */
void gm_rank_plan_put(struct gm_rank_plan *plan, uint32_t rank, uint32_t class);

enum gm_sim_known { GM_SIM_NOT_KNOWN, GM_SIM_INFERRED, GM_SIM_RUN };
/* What is known of a rank, and its class. */
enum gm_sim_known gm_rank_plan_class(
        const struct gm_rank_plan *plan, uint32_t rank, uint32_t *ret_class);
/* The same of all ranks at once, in time for a large world: their classes, 0 where it is not known.
 * ret_classes: of as many as the world has. */
void gm_rank_plan_classes(const struct gm_rank_plan *plan, uint32_t *ret_classes);
bool gm_rank_plan_was_run(const struct gm_rank_plan *plan, uint32_t rank);
/* How many inferred ranks were run for the check since the last that differed. */
uint32_t gm_rank_plan_checked(const struct gm_rank_plan *plan);

#endif
