/* Calls of the CUDA runtime. Internal to core/record. */
#ifndef GM_RECORD_RUNTIME_H
#define GM_RECORD_RUNTIME_H

#include "record/recorder.h"

bool gm_record_cuda_malloc(struct gm_recorder *recorder, struct gm_moment *moment); /* new site */
void gm_record_cuda_malloc_return(struct gm_recorder *recorder, struct gm_moment *moment);
void gm_record_cuda_free(struct gm_recorder *recorder, struct gm_moment *moment);

#endif
