/* The memory of a device of the process or core that the context is about. */
#ifndef GM_ASK_MEMORY_NOW_H
#define GM_ASK_MEMORY_NOW_H

#include "ask/context.h"
#include "ask/target/memory.h"

/*
 * Of the process or core that the context is about. device: -1: the first with memory. GM_TARGET:
 * it has no PyTorch, or no such device.
 */
struct gm_error *gm_memory_now(
        struct gm_context *context, int device, struct gm_memory *ret_memory);

#endif
