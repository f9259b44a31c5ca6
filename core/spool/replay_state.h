/* Where the replay of an agent's file stands: for replay.c, segments.c and live.c. */
#ifndef GM_SPOOL_REPLAY_STATE_H
#define GM_SPOOL_REPLAY_STATE_H

#include "spool/internal.h"
#include "torch/allocator.h"

enum { CPU = 0, CUDA = 1, LOOPS_MAX = 256, HELD_MAX = 4096 };

struct live_block {
	uint64_t key[2]; /* address, device type */
	uint64_t size, requested, stream;
	bool preexisting;
	UT_hash_handle hh;
};

/* What one call got from CUDA: a segment, or a part of an expandable one. */
struct live_segment {
	uint64_t address, size, stream;
	int16_t device;
	UT_hash_handle hh;
};

struct counters {
	uint64_t allocated, reserved;
};

/* What the agent noted before the next event of a thread. */
struct pending_iteration {
	uint32_t code, slot;
	uint64_t position;
};
struct pending_mark {
	uint32_t kind;          /* 0: it is of mixed precision */
	char *name;             /* owned */
	struct gm_log_amp *amp; /* owned */
};
struct thread_state {
	uint32_t thread;
	GM_ARRAY(struct pending_iteration) iterations;
	GM_ARRAY(struct pending_mark) marks;
	bool holds; /* a segment_alloc or segment_map that waits for the thread's next event */
	struct gm_event held;
	UT_hash_handle hh;
};

struct known_loop {
	uint32_t code, loop;
	uint64_t position;
};

struct gm_spool_replay {
	const struct gm_spool_file *file;
	struct gm_spool_tables *tables;
	struct gm_log_writer *log;
	struct live_block *blocks;
	struct live_segment *segments;
	struct gm_event unmap; /* what was released so far; size 0: none */
	struct thread_state *threads;
	struct counters counters[GM_TORCH_DEVICES_MAX];
	struct known_loop loops[LOOPS_MAX];
	size_t loop_count;
	uint64_t written; /* events of the log */
	struct gm_spool_external *external;
	uint64_t next_sequence, missing, outside;
	uint64_t cuda_peak, cpu_allocated, cpu_peak, cuda_ooms;
	bool no_memory;
	bool beginning_dropped; /* of a ring */
};

/* The thread's; NULL: no memory. */
struct thread_state *gm_spool_thread(struct gm_spool_replay *replay, uint32_t id);
/* Drops the marks that the thread left for its next event. */
void gm_spool_forget_marks(struct thread_state *thread);
void gm_spool_write(struct gm_spool_replay *replay, const struct gm_event *event);

#endif
