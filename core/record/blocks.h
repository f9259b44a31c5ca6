/* Blocks of the allocators. Internal to core/record. */
#ifndef GM_RECORD_BLOCKS_H
#define GM_RECORD_BLOCKS_H

#include "record/recorder.h"

void gm_record_report(struct gm_recorder *recorder, struct gm_moment *moment);
void gm_record_cpu_new(struct gm_recorder *recorder, struct gm_moment *moment);
void gm_record_cpu_delete(struct gm_recorder *recorder, struct gm_moment *moment);
/* Frees that were waiting for a stream and have been completed meanwhile. */
void gm_record_completions(struct gm_recorder *recorder, struct gm_moment *moment);
struct gm_live_block *gm_record_keep_block(
        struct gm_recorder *recorder, const struct gm_live_block *block);
void gm_record_pend(struct gm_recorder *recorder, struct gm_live_block *block);
void gm_record_forget_blocks(struct gm_recorder *recorder);

#endif
