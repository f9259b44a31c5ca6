/* What the files of core/walk share: where a walk stands. */
#ifndef GM_WALK_STATE_H
#define GM_WALK_STATE_H

#include <uthash.h>

#include "agent/stop_filter.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "image/image.h"
#include "log/log.h"
#include "model/watches.h"
#include "spool/spool.h"
#include "walk/place.h"

/* A block that is allocated: by its address and the type of its device. */
struct gm_walk_block {
	uint64_t key[2];
	uint64_t event;  /* number of the one that allocated it */
	uint32_t tensor; /* for which it was allocated; 0: not known */
	UT_hash_handle hh;
};

struct gm_walk {
	char *path;
	pid_t pid;
	struct gm_image *image;
	struct gm_walk_place place;
	uint32_t generation;

	struct gm_spool_live *live; /* NULL: the file is not there yet */
	struct gm_log *log;
	uint64_t seen;     /* events that were read */
	uint64_t from, to; /* of these, the one of the latest stop */
	size_t iterations, marks, amps, steps_marked;
	struct gm_steps *steps;
	uint32_t step;
	bool declares_steps; /* the program says itself where its steps begin */
	struct gm_walk_block *blocks;

	struct gm_watches watches;
	bool every;
	bool waits_for_block; /* a condition names one that is not allocated yet: `block=N` */
	uint64_t block_waited_for;
};

#endif
