/* What PyTorch got from CUDA, segment by segment: segments.c. Inside of the spool room. */
#ifndef GM_SPOOL_SEGMENTS_H
#define GM_SPOOL_SEGMENTS_H

#include "spool/replay_state.h"

/* What a thread's segment waits for: its next event, which may be the block that it was got for;
 * NULL: none comes. */
void gm_spool_write_held(
        struct gm_spool_replay *replay, struct thread_state *thread, const struct gm_event *next);
void gm_spool_segment_alloc(
        struct gm_spool_replay *replay, const struct gm_spool_event *from, struct gm_event *event);
void gm_spool_segment_free(struct gm_spool_replay *replay, struct gm_event *event);
void gm_spool_segment_unmap(struct gm_spool_replay *replay, const struct gm_event *event);
/* Before another event than the next part of what is being released; NULL: at the end. */
void gm_spool_end_unmap(struct gm_spool_replay *replay, const struct gm_spool_event *next);

#endif
