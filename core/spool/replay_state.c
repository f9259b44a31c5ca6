#include "spool/replay_state.h"

struct gm_error *gm_spool_replay_create(const struct gm_spool_file *file,
        struct gm_spool_tables *tables, struct gm_log_writer *log,
        struct gm_spool_replay **ret_replay)
{
	struct gm_spool_replay *replay = calloc(1, sizeof(*replay));
	if (!replay)
		return &gm_error_no_memory;
	replay->file = file;
	replay->tables = tables;
	replay->log = log;
	replay->next_sequence = 1;
	replay->external = gm_spool_external_create(tables, log);
	if (!replay->external) {
		free(replay);
		return &gm_error_no_memory;
	}
	*ret_replay = replay;
	return NULL;
}

void gm_spool_forget_marks(struct thread_state *thread)
{
	while (thread->marks.count) {
		struct pending_mark *mark = &thread->marks.items[--thread->marks.count];
		free(mark->name);
		free(mark->amp);
	}
}

void gm_spool_replay_destroy(struct gm_spool_replay *replay)
{
	if (!replay)
		return;
	struct live_block *block, *next_block;
	HASH_ITER(hh, replay->blocks, block, next_block)
	{
		HASH_DEL(replay->blocks, block);
		free(block);
	}
	struct live_segment *segment, *next_segment;
	HASH_ITER(hh, replay->segments, segment, next_segment)
	{
		HASH_DEL(replay->segments, segment);
		free(segment);
	}
	struct thread_state *thread, *next_thread;
	HASH_ITER(hh, replay->threads, thread, next_thread)
	{
		HASH_DEL(replay->threads, thread);
		gm_spool_forget_marks(thread);
		gm_array_deinit(&thread->iterations);
		gm_array_deinit(&thread->marks);
		free(thread);
	}
	gm_spool_external_destroy(replay->external);
	free(replay);
}

struct thread_state *gm_spool_thread(struct gm_spool_replay *replay, uint32_t id)
{
	struct thread_state *thread;
	HASH_FIND(hh, replay->threads, &id, sizeof(id), thread);
	if (thread)
		return thread;
	thread = calloc(1, sizeof(*thread));
	if (thread) {
		thread->thread = id;
		HASH_ADD(hh, replay->threads, thread, sizeof(thread->thread), thread);
	}
	return thread;
}

void gm_spool_write(struct gm_spool_replay *replay, const struct gm_event *event)
{
	gm_log_writer_event(replay->log, event);
	replay->written++;
}
