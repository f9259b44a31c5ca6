/*
 * The recorder's internals: its state, and the functions that its files share.
 *
 *   record.c    create, close, flush: the life of a recorder
 *   probes.c    where breakpoints go
 *   hit.c       one stop: which probe, which event
 *   blocks.c    allocations and frees, deferred frees among them
 *   oom.c       out-of-memory errors, and what the device had then
 *   segments.c  cudaMalloc and cudaFree
 *   existing.c  blocks allocated before recording began
 *   tensors.c   the tensor for which a block is allocated
 *   resized.c   the same for a storage that is resized
 *   stacks.c    call stacks, interned
 *   advance.c   executes the instruction at a breakpoint, without a step by the debugger
 *   steps.c     the current iteration of the training loop
 *   watch.c     conditions at which the program stops
 *   naming.c    modules, names of native addresses, counters of the simulated device
 */
#ifndef GM_RECORD_RECORDER_H
#define GM_RECORD_RECORDER_H

#include <uthash.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "model/watches.h"
#include "record/record.h"
#include "torch/allocator.h"
#include "torch/new_tensor.h"

enum {
	GM_RECORD_FRAMES_MAX = 1024, /* of one stack, whatever the options ask */
	GM_RECORD_FRAMES_DEFAULT = 256,
	GM_RECORD_SITES_MAX = 64,
	GM_RECORD_CALLS_MAX = 256, /* cudaMalloc calls in progress at once: one a thread */
};

/*
 * A block that is alive as far as we know: what a free needs to know and does not carry. Hashed by
 * address. A block whose free waits for a stream stays here, pending, until its record tells
 * otherwise.
 */
struct gm_live_block {
	uint64_t address;
	uint64_t size, requested, stream;
	uint64_t event;  /* number of the one that allocated it; UINT64_MAX: not recorded */
	uint64_t record; /* the allocator's Block, 0: not found */
	uint8_t device_type;
	int8_t device;
	uint32_t tensor; /* id in the log of what it was allocated for; 0: not known */
	bool pending;
	struct gm_live_block *pending_next; /* in the order of the free requests */
	UT_hash_handle hh;
};

/* A segment: what the allocator got from CUDA. Hashed by address. */
struct gm_live_segment {
	uint64_t address, size, stream;
	int8_t device;
	UT_hash_handle hh;
};

/* A cudaMalloc between its entry and its return. */
struct gm_cuda_call {
	pid_t thread;
	uint64_t result; /* void **devPtr */
	uint64_t size;
	uint64_t return_address;
	uint64_t stack_pointer; /* after the return */
};

/*
 * A segment_alloc that waits for the alloc it serves, as only that tells the device and the stream
 * (cudaMalloc has neither). The allocator holds its lock from one to the other, so that no other
 * event of the device can come between.
 */
struct gm_held_segment {
	pid_t thread;
	struct gm_event event;
	struct gm_python_frame *frames; /* of its Python stack; owned */
	size_t frame_count;
	uint64_t *addresses; /* of its native stack; owned */
	size_t address_count;
};

/* A Python frame's place -> its id in the log. */
struct gm_frame_id {
	uint64_t key; /* code id << 32 | lasti */
	uint32_t id;
	UT_hash_handle hh;
};

struct gm_code_id {
	uint32_t code;             /* gm_code.id */
	uint32_t id;               /* in the log */
	struct gm_log_loop *loops; /* owned; as many as the code has */
	UT_hash_handle hh;
};

/* A native address of some stack; named when the log is flushed. */
struct gm_native_address {
	uint64_t address;
	bool is_return;
	char *function; /* owned; NULL: not asked for yet, or without memory; "": it has none */
	UT_hash_handle hh;
};

/* A thread of the target, by what its name tells. */
struct gm_thread_kind {
	pid_t thread;
	bool autograd; /* "pt_autograd_N": backward runs there, without Python frames */
	UT_hash_handle hh;
};

struct gm_device_counters {
	uint64_t allocated, reserved;
	bool known;
};

/* A call in progress that makes a tensor. */
struct gm_tensor_note {
	pid_t thread;
	uint64_t sp; /* at its entry, where the return address stands */
	uint64_t return_address;
	struct gm_new_tensor tensor; /* bytes 0: there is none */
};

/* One stop, as the handlers share it. Stacks are read at most once. */
struct gm_moment {
	pid_t thread;
	struct gm_registers registers;
	uint64_t time_ns;
	bool stacks_read;
	uint32_t python_stack, native_stack, flags;
	size_t frame_count; /* the thread's own Python frames, in recorder->frames */
};

/* A loop whose passes are told by its iterator, and where that stood last. */
struct gm_known_loop {
	uint32_t code, loop; /* id in the log, index */
	uint64_t position;
};
enum { GM_RECORD_LOOPS_MAX = 256 };

/* The instruction at a site, as far as its work can be done for it: advance.c. */
struct gm_site_instruction {
	uint8_t length; /* 0: it cannot be done */
	int8_t pushed;  /* number of the register that it pushes; -1: none */
	uint64_t jump;  /* address of the word that it jumps through; 0: it does not jump */
};

struct gm_recorder {
	pid_t pid;
	bool cuda, cpu, python_stacks, native_stacks;
	uint32_t max_frames;

	struct gm_image *image;
	struct gm_symbols *symbols;
	struct gm_python *python; /* NULL until there is one that can be read */
	struct gm_torch *torch;
	uint64_t next_python_try, next_torch_try; /* event counts: not at every stop */
	struct gm_log_writer *writer;
	uint64_t event_count, gap_count;

	struct gm_probe_site sites[GM_RECORD_SITES_MAX];
	size_t site_count;
	struct gm_site_instruction instructions[GM_RECORD_SITES_MAX]; /* of each site */
	uint32_t missing;                /* bits: probes whose library lacks them */
	uint64_t link_state;             /* address of _r_debug.r_state, 0: unknown */
	const struct gm_module *runtime; /* the module whose cudaMalloc is used */
	size_t modules_written;
	bool exiting, existing_done, closed_names;
	char *refusal;

	struct gm_live_block *blocks;
	struct gm_live_block *pending_first, *pending_last;
	struct gm_live_segment *segments;
	GM_ARRAY(struct gm_cuda_call) calls;
	GM_ARRAY(struct gm_held_segment) held;
	GM_ARRAY(struct gm_tensor_note) notes;  /* at most one of a thread */
	GM_ARRAY(struct gm_new_tensor) tensors; /* by their ids in the log, from 1 */
	struct gm_device_counters counters[GM_TORCH_DEVICES_MAX];
	uint64_t cuda_peak, cpu_allocated, cpu_peak;

	struct gm_frame_id *frame_ids;
	struct gm_code_id *code_ids;
	struct gm_thread_kind *threads;
	uint32_t last_native_stack;
	struct gm_native_address *native; /* every address ever seen */
	GM_ARRAY(struct gm_native_address *) unnamed;
	struct gm_python_frame frames[GM_RECORD_FRAMES_MAX];
	uint32_t frame_log_ids[GM_RECORD_FRAMES_MAX];
	uint64_t addresses[GM_RECORD_FRAMES_MAX];
	uint32_t python_unread;

	struct gm_known_loop loops[GM_RECORD_LOOPS_MAX];
	size_t loop_count;
	uint32_t main_code;     /* gm_code.id of the outermost frame of the first stack */
	struct gm_steps *steps; /* NULL: no memory for them */
	const struct gm_python_frame *fed_frames; /* of the event that is written now */
	size_t fed_count;
	const uint64_t *fed_addresses;
	size_t fed_address_count;
	uint32_t last_step;

	/* each of these gaps is reported once */
	bool reported_no_record, reported_expandable, reported_python, reported_torch,
	        reported_waiting;

	uint64_t stop_after; /* event count at which to stop, 0: not */
	uint32_t stop_step;
	bool stop_due;
	struct gm_watches watches;
};

#endif
