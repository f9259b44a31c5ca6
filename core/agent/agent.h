/*
 * The agent: records every allocation from within the program, into a file that outlives it.
 *
 * libgpumem-agent.so is preloaded (`gpumem run`) or loaded into a running program (`gpumem
 * attach`). Its hooks see each allocation and release; each event is written, with both stacks, to
 * a mapped file (spool.h), which core/spool reads. The agent looks up no names, and decodes and
 * compresses nothing: the reader does that.
 *
 *   start.c     start, stop, fork, exit
 *   state.c     whether this process records and this thread may record; settings
 *   own_thread.c  start and stop in a thread of the agent
 *   event.c     encodes an event
 *   put.c       writes a record to the file
 *   gap.c       notes gaps of the recording
 *   stops.c     events at which a debugger stops the program
 *   grad_mode.c whether autograd records in the thread
 *   clock.c     the time of an event
 *   spool.c     the mapped file and each thread's buffer in it
 *   ring.c      a file of limited size, which reuses its oldest extents
 *   carried.c   data that is copied from these extents
 *   hooks.c     libc10's reports
 *   tensors.c   dtype, sizes and strides of the tensor that a block is allocated for
 *   resized.c   the same for a resized storage
 *   amp.c       GradScaler and autocast
 *   oom.c       what is done when a device runs out of memory
 *   aside.c     runs gpumem next to the program
 *   names.c     the moment at which names of tensors can be read from outside
 *   block.c     the allocator's Block of a report: requested size, stream, deferred free
 *   runtime.c   the CUDA runtime's functions         (see runtime.h)
 *   cupti.c     CUPTI's callbacks                    (see cupti.h)
 *   patch.c     import tables of loaded libraries    (see patch.h)
 *   stacks/     Python and native call stacks, interned (see stacks/stacks.h)
 *
 * This room runs inside another program. It includes no other room except format headers, and needs
 * only libc. It prints nothing except one line if it cannot record. Hooks never call malloc, take
 * no lock that a signal or a fork can leave locked, and preserve errno. After a failure it records
 * less, but the program's behaviour does not change.
 */
#ifndef GM_AGENT_AGENT_H
#define GM_AGENT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/format.h"

#define GM_AGENT_EXPORT __attribute__((visibility("default")))

/* ---- events ---------------------------------------------------------------------------------- */

/* What a hook knows about the calling function: its registers as they are at its return address.
 * Those that a C hook cannot know are 0; rip, rsp and rbp it can (gm_agent_caller). */
struct gm_agent_registers {
	uint64_t rip, rsp, rbp, rbx, r12, r13, r14, r15;
};

/* For a hook written in C, compiled with frame pointers: the registers of whoever called it. */
#define gm_agent_caller()                                             \
	((struct gm_agent_registers){                                 \
	        .rip = (uint64_t)__builtin_return_address(0),         \
	        .rsp = (uint64_t)__builtin_frame_address(0) + 16,     \
	        .rbp = *(const uint64_t *)__builtin_frame_address(0), \
	})

enum {
	GM_AGENT_DEVICE_UNKNOWN = -1, /* reading takes it from the alloc that the segment serves */
};

struct gm_agent_event {
	uint8_t action;      /* enum gm_agent_action */
	uint8_t device_type; /* c10::DeviceType: 0 CPU, 1 CUDA */
	uint8_t source;      /* enum gm_agent_source: whose memory */
	int16_t device;
	bool deferred;    /* of a free_requested: free_completed is told later, else both at once */
	bool preexisting; /* the block was there before recording began */
	uint64_t address, size;
	uint64_t requested; /* 0: unknown */
	uint64_t stream;
	uint64_t allocated, reserved; /* c10's counters after the event; UINT64_MAX: unknown */
	uint32_t tensor; /* id of the tensor's description (GM_AGENT_TENSOR); 0: not known */
	const struct gm_agent_registers *at; /* of the caller; NULL: this function's caller */
};

/* ---- life ------------------------------------------------------------------------------------ */

/*
 * Begins to record. `settings`: "key=value;key=value", as in GPUMEM_AGENT, which a preloaded agent
 * reads:
 *   out=PATH    where to; %p is the process id, %r the rank (job.h; else 0), %h the host;
 *               relative to the folder at start
 *   spool=DIR   records in this folder; whoever started the program moves the file to `out`
 *   list=PATH   each process that records appends a line "PID PATH" to it
 *   devices=cuda,cpu   stacks=python,native   frames=256   max=BYTES   keep=newest|oldest
 *   names=1     asks a process next to this one to read the names of tensors (names.h)
 *   on_oom=none|stop|core|report|debugger    report: RECORDING.oom.txt, and on stderr; debugger:
 *                      stop, for the one that is there, without a line
 *   existing=1|0       1: the caller provides the blocks allocated before (existing.h); 0: there
 *                      are some, but nobody provides them
 *
 * Returns 0; 1: it records already (nothing changes); 2: it cannot, and a line on stderr
 * gives the reason. A debugger or an injector may call it in any thread that is not inside an
 * allocator or the loader.
 */
GM_AGENT_EXPORT int gpumem_agent_start(const char *settings);
/* Ends recording: hooks do nothing from now on, the file is closed. 0; 1: it does not record. */
GM_AGENT_EXPORT int gpumem_agent_stop(void);
/*
 * The same in a new thread of the agent: they return at once. Return 0, or the errno if no thread
 * could be created. The result is later in gpumem_agent_thread_result, with the caller's ticket
 * (own_thread.c).
 */
GM_AGENT_EXPORT int gpumem_agent_start_in_thread(const char *settings, uint32_t ticket);
GM_AGENT_EXPORT int gpumem_agent_stop_in_thread(uint32_t ticket);
/* The path of this process's file; "" before its first event. */
GM_AGENT_EXPORT const char *gpumem_agent_path(void);

/* The hooks that patch.c puts into import tables: symbol, what to put there, and where to keep what
 * was there before (the hook goes on to it; NULL there: libc10's own, or the next preloaded
 * library's). Ends with a NULL symbol. */
struct gm_agent_hook {
	const char *symbol;
	void *hook;
	void *_Atomic *before;
};

#endif
