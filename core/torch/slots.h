/*
 * What a node of the autograd graph calls the tensors that it saved: "self", "mat1". Internal to
 * core/torch and core/holders.
 */
#ifndef GM_TORCH_SLOTS_H
#define GM_TORCH_SLOTS_H

#include "torch/classes.h"

struct gm_torch;

/*
 * The name of the saved variable (or, `of_vector`, of the std::vector of them) at an offset of a
 * node of that class; NULL: not known. Lives as long as the class. Not thread-safe (a cache).
 */
const char *gm_torch_slot_name(
        struct gm_torch *torch, const struct gm_class *class, uint32_t offset, bool of_vector);
/*
 * Whether a saved variable may begin at that offset of a node of that class: true also where it is
 * not known. What is at other offsets is not set by each constructor (the second half of an
 * at::Scalar) and says what was there before.
 */
bool gm_torch_may_save_at(struct gm_torch *torch, const struct gm_class *class, uint32_t offset);

#endif
