/* Segments that the caching allocator has. Internal to core/record. */
#ifndef GM_RECORD_SEGMENTS_H
#define GM_RECORD_SEGMENTS_H

#include "record/recorder.h"

/* The segment that begins at the address; NULL: none is known. */
struct gm_live_segment *gm_record_segment(const struct gm_recorder *recorder, uint64_t address);
/* Writes the thread's held segment_alloc, if any: `block` (may be NULL) tells its device and
 * stream. */
void gm_record_release_held(
        struct gm_recorder *recorder, pid_t thread, const struct gm_live_block *block);
void gm_record_release_all_held(struct gm_recorder *recorder);
void gm_record_keep_segment(struct gm_recorder *recorder, uint64_t address, uint64_t size,
        uint64_t stream, int8_t device);
void gm_record_forget_segment(struct gm_recorder *recorder, struct gm_live_segment *segment);
void gm_record_forget_segments(struct gm_recorder *recorder);

#endif
