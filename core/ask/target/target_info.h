/* info of a process or a core. */
#ifndef GM_ASK_TARGET_INFO_H
#define GM_ASK_TARGET_INFO_H

#include "ask/context.h"
#include "ask/target/memory.h"
#include "ask/target/pause.h"

/* For a live process or a core dump, from the allocator's own records: nothing was recorded. */
struct gm_target_info {
	char *source;              /* "process 4711 (python train.py)", "core.4711"; owned */
	int pid;                   /* 0: unknown */
	const char *torch;         /* the context's; "2.11.0+cu130" */
	struct gm_memory *devices; /* those with memory, now or before; owned */
	size_t device_count;
	uint64_t kernels_not_computed;
	char *recording; /* the file that it is recorded into, or was; NULL: none; owned */
	struct gm_pause pause;
	bool complete; /* gm_memory_agrees() of each device, and it was stopped */
};
struct gm_error *gm_ask_target_info(struct gm_context *context, struct gm_target_info *ret_info);
void gm_target_info_deinit(struct gm_target_info *info);

#endif
