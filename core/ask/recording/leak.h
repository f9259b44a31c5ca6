/* Lines that leak: what is found of each, and the list of them. */
#ifndef GM_ASK_LEAK_H
#define GM_ASK_LEAK_H

#include "ask/recording/place.h"
#include "cpython/cpython.h"
#include "holders/holders.h"
#include "model/categories.h"
#include "model/model.h"

enum {
	GM_LEAK_STEPS_MIN = 3, /* iterations in which a line must have left something */
	GM_LEAK_LOOPS_OF_KIND_MAX = 8,
	GM_LEAK_LOOPS_MAX = 1 + 3 * GM_LEAK_LOOPS_OF_KIND_MAX,
	GM_LEAK_HOLDERS_MAX = 64,
};

/* Whether the growth will end by itself, and how it is known. */
enum gm_leak_bound {
	GM_LEAK_GROWS,     /* nothing says that it will: a leak */
	GM_LEAK_FULL,      /* as many blocks as since `full_since`: a buffer that is full */
	GM_LEAK_BY_SHAPE,  /* a block for each shape of the inputs: a cache */
	GM_LEAK_HAS_LIMIT, /* what holds it has room for so many items: `holder->limit` */
	GM_LEAK_BOUNDS,
};
/* "full" */
const char *gm_leak_bound_name(enum gm_leak_bound bound);

struct gm_leak {
	uint32_t stack;            /* one of the Python stacks of the line */
	uint32_t block;            /* the latest block that it left */
	uint32_t oldest;           /* and the first */
	uint32_t level;            /* the loop: of the answer's */
	uint32_t steps;            /* its iterations in which the line left something */
	uint64_t bytes, blocks;    /* left, in sum, by the loop's iterations `from` to `to` */
	bool joined;               /* its one block grows */
	bool left_out;             /* while they are sought */
	uint64_t site;             /* a hash of the line */
	enum gm_category category; /* of most of its bytes */
	enum gm_leak_bound bound;
	uint32_t bound_level; /* the loop that shows it: of the answer's */
	uint32_t full_since;  /* of FULL: its iteration */
	uint64_t full_blocks; /* of FULL: how many are alive at the end of each since then */
	uint32_t recurrences; /* iterations in which a shape came again and the line made nothing */
	bool follows_shapes;  /* each of its blocks has another shape, and the inputs had it too */
	struct gm_leak_holder *holder; /* what holds the oldest block now; NULL: not asked; owned */
};

/* What a live process or a core says of a block that was left. */
struct gm_leak_holder {
	bool found;
	struct gm_holder first; /* the nearest; owned */
	size_t others;          /* further ones */
	bool there;             /* a storage of the block's size is at its address */
	bool complete;          /* all references to it were found */
	bool limited;           /* a container on the way has a limit */
	struct gm_python_bound limit;
	uint64_t bytes_when_full; /* an estimate: the line's bytes by item, times the limit */
};

/* How a loop is related to the steps. */
enum gm_leak_loop_kind {
	GM_LEAK_LOOP_STEPS,  /* the steps themselves, of one loop or several */
	GM_LEAK_LOOP_AROUND, /* it is around the steps: epochs */
	GM_LEAK_LOOP_PHASE,  /* one of several loops that have the steps, by itself */
	GM_LEAK_LOOP_LATER,  /* it iterates after the last step: an evaluation */
	GM_LEAK_LOOP_KINDS,
};
/* "around" */
const char *gm_leak_loop_kind_name(enum gm_leak_loop_kind kind);

/* A loop that was examined. */
struct gm_leak_loop {
	struct gm_step_loop loop; /* not of steps, which may be of several */
	enum gm_leak_loop_kind kind;
	bool of_steps;     /* the first kind */
	uint32_t from, to; /* iterations that were examined, from 1; from > to: too few */
};

struct gm_leaks {
	const struct gm_model *model;
	size_t device;     /* SIZE_MAX: no events at all */
	uint32_t from, to; /* the steps looked at; from > to: too few */
	/* the steps, then outwards, then phases, then later ones */
	struct gm_leak_loop loops[GM_LEAK_LOOPS_MAX];
	uint32_t loop_count;
	struct gm_leak *items; /* by loop, the largest first; owned */
	size_t count;
	/* Of the device's peak, what was allocated after the steps and is not explained by a loop
	 * that was examined, if that is more than half of it; 0: it is not. Of this, what a later
	 * loop had, and what was released by the end: no leak, but the peak. */
	uint64_t later_bytes, later_released;
	/* What was allocated after the steps, in no loop that was examined, and not released by the
	 * end of the program. */
	uint64_t later_kept, later_kept_blocks;
	/* Nothing was allocated before the steps' end, and beside parameters no line left more than
	 * two blocks after them, as one that accumulates would. */
	bool later_once;
	bool later_matters; /* it is more than a tenth of the peak, or made half of it */
	/* The same of what will end by itself. */
	struct gm_leak *bounded; /* owned */
	size_t bounded_count;
};

/* Puts the items whose `bound` is known among those that are bounded. */
struct gm_error *gm_leaks_part(struct gm_leaks *leaks);
/* Appends one. */
struct gm_error *gm_leaks_add(struct gm_leaks *leaks, const struct gm_leak *leak);
void gm_leaks_deinit(struct gm_leaks *leaks);

#endif
