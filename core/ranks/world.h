/*
 * The processes that answer one question together, as MPI or nobody started them: process 0 gives
 * out the work, collects the results and answers.
 *
 * This room (ranks) answers questions about the recordings of a whole job. Each process reduces the
 * recordings near it to summaries of kilobytes; only those move. What it says of one recording is
 * what the room ask says of it. Its `main/` has the only file that knows MPI.
 */
#ifndef GM_RANKS_WORLD_H
#define GM_RANKS_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { GM_WORLD_HOST_MAX = 256, GM_WORLD_ANY = -1 };

struct gm_world {
	unsigned rank, size;
	unsigned node_count;                 /* machines */
	unsigned node;                       /* of this process, from 0 */
	unsigned *neighbours;                /* ranks of the processes on this machine; owned */
	unsigned neighbour_count, place;     /* and which of these is this one */
	char host[GM_WORLD_HOST_MAX];        /* the machine's name */
	uint64_t sent_bytes, received_bytes; /* by this process */
};

/* These are in main/world_mpi.c, or in main/world_one.c where there is no MPI. */

/* "Open MPI 4.1.4", or "" where there is none. */
const char *gm_world_engine(void);
/* Before arguments are looked at: a launcher may have added some. */
struct gm_error *gm_world_begin(int *argc, char ***argv, struct gm_world *ret_world);
void gm_world_end(struct gm_world *world);
/* To another process. Waits until it is received, or buffered. */
struct gm_error *gm_world_send(struct gm_world *world, unsigned to, const void *bytes, size_t size);
/* Waits for bytes from a process, or from GM_WORLD_ANY. The caller frees them. */
struct gm_error *gm_world_receive(struct gm_world *world, int from, unsigned *ret_from,
        uint8_t **ret_bytes, size_t *ret_size);
/* Whether gm_world_receive() from GM_WORLD_ANY would not wait. MPI's own waiting keeps a processor
 * busy, which a program beside it needs. */
bool gm_world_arrived(struct gm_world *world);
/* Ends all processes, now: this one cannot go on, and the others would wait for it. */
_Noreturn void gm_world_abort(struct gm_world *world, int status);

#endif
