/*
 * Which tensors to do without for a request to be served: the cheapest that this finds. Either
 * blocks next to each other, whose place and the free parts around it are then one part that is
 * large enough, or all blocks of some segments, which then go back to the device. The answer is a
 * proof: PyTorch would do just that before it raises its error. It need not be the least.
 */
#ifndef GM_ASK_OOM_RELEASE_H
#define GM_ASK_OOM_RELEASE_H

#include "ask/oom/oom_answer.h"

/* Fills oom->release, if the memory is that at the error and all of it is known; `missing` as
 * gm_oom_missing() has it. */
struct gm_error *gm_oom_find_release(struct gm_oom *oom, uint64_t missing);

#endif
