/*
 * The same model on several ranks: shardings of several processes that belong together, as kind,
 * optimizer, number of ranks and all parameters agree in name and size. Where several agree, the
 * first of one process belongs to the first of another.
 */
#ifndef GM_ASK_ZERO_RANKS_H
#define GM_ASK_ZERO_RANKS_H

#include "ask/zero/facts.h"

struct gm_zero_model {
	const struct gm_zero_sharding **shardings; /* of each process; NULL: it has none; owned */
	const struct gm_zero_sharding *first;      /* of the first process that has one */
	size_t count;                              /* of the processes that have one */
	uint32_t ranks;                            /* different ones that are there */
	bool complete;                             /* all are */
	uint64_t owned; /* elements that they own, each rank counted once */
};

struct gm_zero_ranks {
	struct gm_zero_now *nows; /* one for each process; owned, as are the others */
	size_t count;
	struct gm_zero_model *models;
	size_t model_count;
};

/* Finds the models. False: no memory. */
bool gm_zero_ranks_match(struct gm_zero_ranks *ranks);
void gm_zero_ranks_deinit(struct gm_zero_ranks *ranks);

/* What a rank has of something, in bytes or as a count. */
typedef int64_t (*gm_zero_figure)(
        const struct gm_zero_sharding *sharding, enum gm_zero_part part, int number);
int64_t gm_zero_figure_bytes(
        const struct gm_zero_sharding *sharding, enum gm_zero_part part, int number);
int64_t gm_zero_figure_host(
        const struct gm_zero_sharding *sharding, enum gm_zero_part part, int number);
/* `number`: of a difference */
int64_t gm_zero_figure_difference(
        const struct gm_zero_sharding *sharding, enum gm_zero_part part, int number);
/* `number`: of a kind of buckets; how many there are */
int64_t gm_zero_figure_buckets(
        const struct gm_zero_sharding *sharding, enum gm_zero_part part, int number);
/* Do the ranks of a model differ in it? */
bool gm_zero_differ(const struct gm_zero_model *model, size_t processes, gm_zero_figure figure,
        enum gm_zero_part part, int number);

#endif
