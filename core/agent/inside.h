/* What the agent's own files ask of each other, and the hooks that others write do not need. */
#ifndef GM_AGENT_INSIDE_H
#define GM_AGENT_INSIDE_H

#include "agent/agent.h"
#include "torch/allocator.h"

/* event.c: numbers and counters from the start; the id of this process's file, for its children */
void gm_agent_events_begin(void);
uint64_t gm_agent_events_next(void); /* no event that comes has a smaller number */
void gm_agent_keep_id(uint64_t id);
uint64_t gm_agent_kept_id(void);

/* beside.c: one thread at a time begins or ends a recording. False: another one has been at it for too long. */
bool gm_agent_change_begin(void);
void gm_agent_change_end(void);

/* clock.c: ns since the epoch */
void gm_agent_clock_begin(void);
/* False: a look at the clock would end the thread (PR_SET_TSC). */
bool gm_agent_clock_allowed(void);
uint64_t gm_agent_now(void);

/* block.c */
struct gm_agent_block {
	uint64_t requested, stream;
};
/* Forgets all. */
void gm_agent_blocks_begin(void);
/* The allocator's record of a block that is being handed out. False: not found (told once). `at`: the
 * registers of the function that reports. */
bool gm_agent_block_new(int device, uint64_t address, uint64_t size,
        const struct gm_agent_registers *at, struct gm_agent_block *ret);
/* A block is given back: true where its free waits for a stream, and is told by gm_agent_block_completed() later. */
bool gm_agent_block_free(int device, uint64_t address, uint64_t size);
bool gm_agent_blocks_wait(int device);
/* A free that waited and has come about; false: none. */
bool gm_agent_block_completed(int device, uint64_t *ret_address, uint64_t *ret_size);

/* agent.c: what is recorded, as in gm_agent_file_header.features */
enum gm_agent_feature {
	GM_AGENT_CUDA = 1,
	GM_AGENT_CPU = 2,
	GM_AGENT_PYTHON = 4,
	GM_AGENT_NATIVE = 8
};
/* By the settings; gm_agent_records() is quicker, of a process that records. */
bool gm_agent_may_record(unsigned feature);
bool gm_agent_records(unsigned feature);

/* Records from here on, as a preloaded library does: CUDA begins, and the driver has loaded this library. Nothing where it
 * records already, or has ended doing so. */
void gm_agent_injected(const char *settings);

/* Has it not begun to record yet, and will at its first event? */
bool gm_agent_waits(void);

/* marks.c: a range of this thread; where nothing is recorded yet it is kept until something is. The name stays where it is
 * until the range ends. */
void gm_agent_range_begin(const char *name);
void gm_agent_range_end(void);
/* This thread's ranges that were kept; recording has begun. */
void gm_agent_ranges_kept(void);
void gm_agent_metadata(const char *text, size_t size);

/* torch_marks.c: to be called where PyTorch may have been loaded, by a thread that is in no allocator or loader */
void gm_agent_torch_marks_look(void);
void gm_agent_torch_marks_end(void);

/* existing.c: asks for what there was before and writes it; while the recording begins */
void gm_agent_existing(void);

/* runtime.c: whether PyTorch's allocator calls from there */
bool gm_agent_is_allocator(uint64_t address);
/* allocator.c: tells, once, where PyTorch's allocator is one that reports nothing */
void gm_agent_allocator_look(void);

/* driver_api.c: hooks of the driver's functions in the place of pointers that PyTorch has taken already */
void gm_agent_driver_api_patch(const struct gm_agent_hook *hooks);
void gm_agent_driver_api_undo(void);

/* runtime_more.c */
extern const struct gm_agent_hook gm_agent_memory_hooks[];
int16_t gm_agent_current_device(void);
/* Memory got or given back by the function that `at` calls from; GM_AGENT_RUNTIME becomes GM_AGENT_C10 where that is
 * PyTorch's allocator. Between enter and leave. */
void gm_agent_memory(enum gm_agent_action action, enum gm_agent_source source, uint64_t address,
        uint64_t size, uint64_t stream, const struct gm_agent_registers *at);

/* cupti.c: subscribes where there is a driver and it has not been tried; to be called where libraries may be loaded */
void gm_agent_cupti_look(void);
void gm_agent_cupti_end(void);
extern const struct gm_agent_hook gm_agent_cupti_hooks[];

/* grad_mode.c: the bit of an event that says that autograd does not record in this thread, or 0 */
uint32_t gm_agent_grad_bits(const struct gm_agent_event *event);
void gm_agent_grad_mode_begin(void); /* a file begins */

/* oom.c: does what on_oom asks for, once; between enter and leave */
void gm_agent_out_of_memory(const struct gm_agent_event *event);

/* tensors.c: the description of the tensor for which this thread allocates `size` bytes, from a function whose caller's
 * stack pointer is `sp`; 0: not known. Between enter and leave. */
uint32_t gm_agent_tensor_take(uint64_t size, uint64_t sp);
void gm_agent_tensors_begin(void); /* a file begins: none is known */

/* hooks.c */
void gm_agent_hooks_preloaded(void);
void gm_agent_completions(int16_t device, const struct gm_agent_registers *at);

/* lookup.c: an address of a loaded library by its file's beginning and a dynamic symbol; NULL. Takes no loader
 * lock that a dlopen() under way holds while constructors run. */
void *gm_agent_lookup(const char *library, const char *symbol);

#endif
