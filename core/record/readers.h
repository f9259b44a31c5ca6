/* What reads Python and PyTorch, and whether their allocator can be recorded. Internal to
 * core/record. */
#ifndef GM_RECORD_READERS_H
#define GM_RECORD_READERS_H

#include "record/recorder.h"

/* Opens what reads Python and PyTorch, as soon as that can be done. */
void gm_record_open_readers(struct gm_recorder *recorder);
/* Refuses an allocator that is not the caching one. */
void gm_record_check_allocator(struct gm_recorder *recorder);

#endif
