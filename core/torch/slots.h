/*
 * What a node of the autograd graph calls the tensors that it saved: "self", "mat1". Internal to core/torch and
 * core/holders.
 */
#ifndef GM_TORCH_SLOTS_H
#define GM_TORCH_SLOTS_H

#include "torch/readers.h"

/*
 * The name of the saved variable (or, `of_vector`, of the std::vector of them) at an offset of a node of
 * that class; NULL: not known. Lives as long as the class. Not thread-safe (a cache).
 */
const char *gm_torch_slot_name(
        struct gm_torch *torch, const struct gm_class *class, uint32_t offset, bool of_vector);
void gm_slots_destroy(struct gm_slots *slots);

#endif
