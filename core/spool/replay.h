/* What replay.c and segments.c share: where the replay of an agent's file stands. */
#ifndef GM_SPOOL_REPLAY_H
#define GM_SPOOL_REPLAY_H

#include "spool/internal.h"
#include "torch/allocator.h"

enum { CPU = 0, CUDA = 1, LOOPS_MAX = 256, HELD_MAX = 4096 };

struct live_block {
	uint64_t key[2]; /* address, device type */
	uint64_t size, requested, stream;
	bool preexisting;
	UT_hash_handle hh;
};

/* What one call got from CUDA: a segment, or a piece of an expandable one. */
struct live_segment {
	uint64_t address, size, stream;
	int16_t device;
	UT_hash_handle hh;
};

struct counters {
	uint64_t allocated, reserved;
};

/* What a thread said of its next event. */
struct told_pass {
	uint32_t code, slot;
	uint64_t position;
};
struct told_mark {
	uint32_t kind;          /* 0: it is of mixed precision */
	char *name;             /* owned */
	struct gm_log_amp *amp; /* owned */
};
struct thread_state {
	uint32_t thread;
	GM_ARRAY(struct told_pass) passes;
	GM_ARRAY(struct told_mark) marks;
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
	struct gm_event unmap; /* pieces given back so far; size 0: none */
	struct thread_state *threads;
	struct counters counters[GM_TORCH_DEVICES_MAX];
	struct known_loop loops[LOOPS_MAX];
	size_t loop_count;
	uint64_t written; /* events of the log */
	struct gm_spool_external *external;
	uint64_t next_sequence, missing, unknown_frees, outside;
	uint64_t cuda_peak, cpu_allocated, cpu_peak, cuda_ooms;
	bool no_memory;
	bool beginning_dropped; /* of a ring */
};

struct thread_state *gm_spool_thread(struct gm_spool_replay *replay, uint32_t id);
void gm_spool_write(struct gm_spool_replay *replay, const struct gm_event *event);

/* segments.c */
/* What a thread's segment waits for: its next event, which may be the block that it was got for;
 * NULL: none comes. */
void gm_spool_write_held(
        struct gm_spool_replay *replay, struct thread_state *thread, const struct gm_event *next);
void gm_spool_segment_alloc(
        struct gm_spool_replay *replay, const struct gm_spool_event *from, struct gm_event *event);
void gm_spool_segment_free(struct gm_spool_replay *replay, struct gm_event *event);
void gm_spool_segment_unmap(struct gm_spool_replay *replay, const struct gm_event *event);
/* Before another event than the next piece of what is being given back; NULL: at the end. */
void gm_spool_end_unmap(struct gm_spool_replay *replay, const struct gm_spool_event *next);

#endif
