/* The memory of a device after an event of a recording. */
#ifndef GM_ASK_MEMORY_AFTER_H
#define GM_ASK_MEMORY_AFTER_H

#include "ask/context.h"
#include "ask/target/memory.h"

/* For the recording that the context is about, after an event; GM_NO_EVENT: after the last. */
struct gm_error *gm_memory_after(
        struct gm_context *context, int device, uint32_t event, struct gm_memory *ret_memory);

#endif
