/* Lines that leak: what is found of each, and the list of them. */
#ifndef GM_ASK_LEAK_H
#define GM_ASK_LEAK_H

#include "ask/recording/place.h"
#include "holders/holders.h"
#include "model/categories.h"
#include "model/model.h"

enum {
	GM_LEAK_STEPS_MIN = 3, /* iterations in which a line must have left something */
	GM_LEAK_LOOPS_MAX = 8, /* the steps, and loops around them */
	GM_LEAK_HOLDERS_MAX = 64,
};

struct gm_leak {
	uint32_t stack;                /* one of the Python stacks of the line */
	uint32_t block;                /* the latest block that it left */
	uint32_t oldest;               /* and the first */
	uint32_t level;                /* the loop: of the answer's */
	uint32_t steps;                /* its iterations in which the line left something */
	uint64_t bytes, blocks;        /* left, in sum, by the loop's iterations `from` to `to` */
	bool joined;                   /* its one block grows */
	bool left_out;                 /* while they are sought */
	uint64_t site;                 /* a hash of the line */
	enum gm_category category;     /* of the latest block */
	struct gm_leak_holder *holder; /* what holds the oldest block now; NULL: not asked; owned */
};

/* What a live process or a core says of a block that was left. */
struct gm_leak_holder {
	bool found;
	struct gm_holder first; /* the nearest; owned */
	size_t others;          /* further ones */
	bool there;             /* a storage of the block's size is at its address */
	bool complete;          /* all references to it were found */
};

/* A loop that was examined. */
struct gm_leak_loop {
	struct gm_step_loop loop; /* not of steps, which may be of several */
	bool of_steps;
	uint32_t from, to; /* iterations that were examined, from 1; from > to: too few */
};

struct gm_leaks {
	const struct gm_model *model;
	size_t device;                                /* SIZE_MAX: no events at all */
	uint32_t from, to;                            /* the steps looked at; from > to: too few */
	struct gm_leak_loop loops[GM_LEAK_LOOPS_MAX]; /* the steps, then outwards */
	uint32_t loop_count;
	struct gm_leak *items; /* by loop, the largest first; owned */
	size_t count;
};

/* Appends one. */
struct gm_error *gm_leaks_add(struct gm_leaks *leaks, const struct gm_leak *leak);
void gm_leaks_deinit(struct gm_leaks *leaks);

#endif
