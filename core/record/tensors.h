/* What tensor a block is allocated for. Internal to core/record. */
#ifndef GM_RECORD_TENSORS_H
#define GM_RECORD_TENSORS_H

#include "record/recorder.h"

/* At the entry of at::detail::empty_generic() or, `strided`, empty_strided_generic(). */
void gm_record_note_tensor(
        struct gm_recorder *recorder, const struct gm_moment *moment, bool strided);
/* The note of a thread's last call that makes a tensor, to be written again; of a thread whose call
 * is over where there are many. NULL: no memory. */
struct gm_tensor_note *gm_record_tensor_note(struct gm_recorder *recorder, pid_t thread);
/* The tensor for which this thread asks an allocator for `size` bytes: its id in the log; 0: not
 * known. */
uint32_t gm_record_take_tensor(
        struct gm_recorder *recorder, const struct gm_moment *moment, uint64_t size);
/* Of an id in the log; NULL: it has none. Until the next one is taken. */
const struct gm_new_tensor *gm_record_tensor(const struct gm_recorder *recorder, uint32_t id);

#endif
