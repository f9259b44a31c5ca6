/* Results of all processes, in process 0. */
#ifndef GM_RANKS_GATHER_H
#define GM_RANKS_GATHER_H

#include "ranks/world.h"

/* In process 0: takes each process's bytes, its own first, the others' as they come. May keep the
 * bytes, and then sets *bytes to NULL. */
typedef struct gm_error *(*gm_world_taker)(
        void *context, unsigned from, uint8_t **bytes, size_t size);
/* Each process gives its bytes. After an error of `take` the rest is received and dropped, so that
 * no process waits. */
struct gm_error *gm_world_gather(
        struct gm_world *world, uint8_t **bytes, size_t size, gm_world_taker take, void *context);

#endif
