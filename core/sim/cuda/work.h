/* Work that continues behind its call, and what waits for it (work.c). */
#ifndef GM_SIM_CUDA_WORK_H
#define GM_SIM_CUDA_WORK_H

#include "sim/cuda/sim.h"

enum { GM_SIM_WORKS = 16 };

/* One piece of work and the memory that it reads or writes; freed with its last reference. */
struct gm_sim_work {
	struct gm_sim_work *next;
	unsigned references;
	bool done;
	struct gm_sim_work_end {
		struct gm_sim_work_end *next;
		void (*function)(const void *, uint64_t);
		const void *address;
		uint64_t size;
	} * ends; /* what is to be done when it is */
	size_t count;
	struct gm_sim_work_range {
		uint64_t start, size;
	} ranges[];
};

/* What is in progress on a stream, or was when an event was recorded. All zero is an empty list. */
struct gm_sim_works {
	struct gm_sim_work *items[GM_SIM_WORKS];
	unsigned count;
};

extern _Atomic unsigned gm_sim_outstanding;

/* Begun, with the caller's reference, which gm_sim_work_finish() ends; with room for that many
 * ranges. */
struct gm_sim_work *gm_sim_work_start(size_t ranges);
void gm_sim_work_range(struct gm_sim_work *work, const void *address, uint64_t size);
void gm_sim_work_finish(struct gm_sim_work *work);

void gm_sim_works_add(struct gm_sim_works *works, struct gm_sim_work *work);
void gm_sim_works_merge(struct gm_sim_works *to, struct gm_sim_works *from);
void gm_sim_works_clear(struct gm_sim_works *works);
bool gm_sim_works_done(struct gm_sim_works *works);
void gm_sim_works_wait(struct gm_sim_works *works);
void gm_sim_works_wait_all(void);

/* The list of a stream of this thread's current device (stream.c). */
struct gm_sim_works *gm_sim_stream_works(struct CUstream_st *stream);
bool gm_sim_stream_capturing(struct CUstream_st *stream);

#endif
