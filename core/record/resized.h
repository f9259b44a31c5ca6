/* The tensor that a storage is resized for. Internal to core/record. */
#ifndef GM_RECORD_RESIZED_H
#define GM_RECORD_RESIZED_H

#include "record/recorder.h"

/* At the entry of resize_bytes_cuda() or resize_bytes_cpu(). */
void gm_record_note_resize(struct gm_recorder *recorder, const struct gm_moment *moment);

#endif
