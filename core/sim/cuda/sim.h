/*
 * The preloaded library's inside: what its files share.
 *
 * libgpumem-sim.so stands in front of the CUDA runtime, cuBLAS, cuBLASLt, cuDNN and the driver
 * under an unmodified PyTorch, on a machine without a GPU. Memory is real (host-backed, see
 * memory.c), copies and memsets are real, streams are in order and complete at once, kernels are
 * counted, and compute nothing but for those that decide control flow (sim/kernels/). It must live
 * in any process that a program starts (it is preloaded into all of them), so it does nothing until
 * CUDA is first used, and needs nothing but libc.
 *
 * One file a subject: process.c (account, messages), state.c (devices), lifetime.c (fork, exit),
 * memory.c (allocation), data.c (which bytes were ever written, copies, zeroing), host_capacity.c
 * (host memory for them), copy.c (cudaMemcpy…), host.c (pinned memory), device.c (properties),
 * stream.c, event.c, capture.c, graph.c (captured work), work.c (collectives in progress),
 * foreign.c (other processes' memory), nvml.c, loaded.c (what goes past all this), kernel.c
 * (registration, launches), module.c (the driver's modules), error.c, blas.c, cudnn*.c, fft.c,
 * driver.c (cu…), vmm.c (virtual memory: expandable segments), pool.c (cudaMallocAsync), managed.c,
 * array.c, driver_memory.c (cuMemAlloc…), report.c (PyTorch's own counts), stubs.c (everything
 * else, refused by name).
 */
#ifndef GM_SIM_CUDA_SIM_H
#define GM_SIM_CUDA_SIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/account.h"
#include "sim/profile.h"
#include "sim/ranges.h"

#define GM_SIM_EXPORT __attribute__((visibility("default")))

enum {
	GM_SIM_PAGE =
	        2 << 20, /* what cudaMalloc hands out is whole pages of this size, as on a GPU */
	GM_SIM_GRANULE =
	        512, /* PyTorch's caching allocator rounds to this; so fine is "written" known */
	GM_SIM_RUNTIME = 13000, /* CUDA 13.0, what torch 2.11's wheel is built for */
};

/*
 * One device. Its memory is a sparse memfd mapped once, wider than the device (span > total), since
 * on a GPU too an allocation fails for want of memory, not of addresses. `written` has a bit for
 * each granule that a copy or memset wrote since the memory was handed out, `chunks` one for each 2
 * MiB that has any such bit: what is not marked reads as zero, and is neither read nor written by
 * us, so it costs no host memory.
 */
struct CUevent_st;
struct CUstream_st;

struct gm_sim_device {
	unsigned index;
	struct gm_sim_choice choice;
	struct gm_sim_device_account *account;
	int memory, marks; /* the memfds: of the bytes, and of `written` and `chunks` */
	uint64_t inode;    /* of `memory` */
	uint32_t physical; /* its number on the machine: CUDA_VISIBLE_DEVICES leaves some out */
	uint64_t outside;  /* bytes that libraries keep for themselves (NCCL) */
	bool foreign;      /* another process's, seen from this one (foreign.c) */
	unsigned char *base;
	uint64_t span;
	_Atomic uint64_t *written, *chunks,
	        *doubtful;    /* doubtful: written, but from what was never computed */
	pthread_mutex_t lock; /* of `ranges` and of the account's used */
	struct gm_sim_ranges ranges;
	_Atomic bool ready, failed;
	_Atomic bool active; /* the primary context exists */
	_Atomic bool loaded[GM_SIM_CODE_COUNT];
};

extern struct gm_sim_account gpumem_sim_account;

/* The devices of this run, read from GPUMEM_SIM once; 0 where that is wrong (said once) or after
 * fork(). */
unsigned gm_sim_device_count(void);

/* A device with its memory mapped; NULL where there is no such device or no address space (said
 * once). */
struct gm_sim_device *gm_sim_device(int index);

/* loading.c: the process uses this on the device; the first time the device's memory for it is
 * taken, if there is as much. */
void gm_sim_code_load(struct gm_sim_device *device, enum gm_sim_code what);
/* The same for a kernel that is launched. */
struct gm_sim_kernel;
void gm_sim_code_load_of_kernel(struct gm_sim_device *device, struct gm_sim_kernel *kernel);

/* The device whose memory holds `address` (mapped ones only), or NULL. */
struct gm_sim_device *gm_sim_device_of(const void *address);

/* What the machine has: CUDA_VISIBLE_DEVICES leaves devices out of the others' answers. A count of
 * 0: none. */
const struct gm_sim_choice *gm_sim_machine_choice(void);

/* uuid.c: who a device is, by its number on the machine. */
enum { GM_SIM_FIRST_BUS = 0x1b, GM_SIM_UUID_TEXT = 41 };
void gm_sim_uuid(const struct gm_sim_profile *profile, uint32_t physical, unsigned char ret[16]);
void gm_sim_uuid_text(
        const struct gm_sim_profile *profile, uint32_t physical, char ret[GM_SIM_UUID_TEXT]);

/* A device's facts, without mapping its memory; NULL where there is no such device. */
struct gm_sim_device *gm_sim_device_facts(int index);

/* This thread's current device. */
int gm_sim_current_index(void);
void gm_sim_set_current_index(int index);
struct gm_sim_device *gm_sim_current(void);

/* state.c: the device of this process whose memory holds `address`, or NULL. */
struct gm_sim_device *gm_sim_device_mapped(const void *address);
/* Calls `function` when a device first gets memory. */
void gm_sim_state_on_first(void (*function)(void));
/* In a fork's child: there are no devices. */
void gm_sim_state_forget(void);

/* True in a child made by fork() of a process that used CUDA: every call fails there, as CUDA's
 * do. */
bool gm_sim_forked(void);
void gm_sim_set_forked(void);

/* One line on stderr, "gpumem sim: …", unless GPUMEM_SIM_QUIET is set. */
void gm_sim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sets this thread's last error (where it is one) and returns it. */
int gm_sim_error(int code);
/*
 * What a call of the runtime returns, with the thread's last error as it was before. The driver and
 * NCCL only return their codes: cudaGetLastError() reports failures of the runtime's calls.
 */
#define GM_SIM_KEEP_ERROR(call)                    \
	({                                         \
		int before_ = gm_sim_error_last(); \
		int code_ = (int)(call);           \
		gm_sim_error_restore(before_);     \
		code_;                             \
	})
int gm_sim_error_last(void);
void gm_sim_error_restore(int code);

/* take.c, memory.c: addresses of a device. */
int gm_sim_memory_take(struct gm_sim_device *device, uint64_t size, void **ret);
int gm_sim_memory_free(void *address);
/* Frees all that cudaMalloc() took of the device. */
void gm_sim_memory_reset(struct gm_sim_device *device);
/* The same without an address of its own: what cuMemCreate makes, whole pages, known to no other
 * call. */
int gm_sim_memory_take_physical(struct gm_sim_device *device, uint64_t size, void **ret);
void gm_sim_memory_give(struct gm_sim_device *device, void *address);
/* capacity.c: bytes that a library takes (or releases: negative) behind PyTorch's back; false
 * where there are not as many. */
bool gm_sim_memory_outside(struct gm_sim_device *device, int64_t bytes);
/* Which machine's devices these are, for processes that share them; 0: this process's own. */
uint64_t gm_sim_machine(void);
/* share.c: what this process holds of the device, told to the run's others; false where they leave
 * no room. */
void gm_sim_share_start(void);
bool gm_sim_share_set(const struct gm_sim_device *device, uint64_t bytes, bool must_fit);
uint64_t gm_sim_share_others(const struct gm_sim_device *device);
/* Calls visit() for each process that the run's page has; false where there is no page. */
bool gm_sim_share_visit(uint32_t physical, void (*visit)(uint32_t, uint64_t, void *), void *data);
/* True once in all the run's processes; the second: where the page was searched for already. */
bool gm_sim_share_first(void);
bool gm_sim_share_say(void);
/* Calls visit(process, bytes, data) for each process that holds memory of the machine's device
 * `physical`. */
void gm_sim_share_each(uint32_t physical, void (*visit)(uint32_t, uint64_t, void *), void *data);
/* ipc.c: an address of another process's memory that was opened. */
bool gm_sim_ipc_holds(const void *address, uint64_t size);
void gm_sim_ipc_lock(bool take);
/* event.c: cudaSuccess where the event was made for other processes. */
int gm_sim_event_interprocess(struct CUevent_st *event);
/* cudaSuccess where [address, address + size) is within one allocation (or the context's own
 * part). */
bool gm_sim_memory_holds(struct gm_sim_device *device, const void *address, uint64_t size);

/* What was asked for at the allocation that holds `address`; false where none does. */
bool gm_sim_memory_range(
        struct gm_sim_device *device, const void *address, uint64_t *ret_start, uint64_t *ret_size);

/* managed.c: memory of the host that moves. Evicting makes room on a device; false where there was
 * none to make. */
bool gm_sim_managed_holds(const void *address, uint64_t size);
int gm_sim_managed_free(void *address);
bool gm_sim_managed_evict(const struct gm_sim_device *device);
void gm_sim_managed_lock(bool take);

/* pool.c: allocations from the device's pools. */
bool gm_sim_pool_find(struct gm_sim_device *device, const void *address, struct gm_sim_range *ret);
int gm_sim_pool_free(struct gm_sim_device *device, void *address);
void gm_sim_pool_lock(bool take);

/* mapped.c: what an address of a mapping stands for, and how many bytes of it lie in one part. */
struct gm_sim_view {
	struct gm_sim_device *device;
	unsigned char *at; /* in the device's own mapping */
	uint64_t size;
};
bool gm_sim_vmm_find(const void *address, struct gm_sim_view *ret);

/*
 * foreign.c: a device's memory in another process of this machine, which NCCL and IPC handles read
 * and write. It has no ranges of its own: that an address is in use there is the other side's to
 * know.
 */
struct gm_sim_origin {
	uint32_t process;
	int32_t memory, marks; /* file descriptors there */
	uint32_t device;       /* its number there */
	uint64_t inode, span;
};
void gm_sim_origin_of(const struct gm_sim_device *device, struct gm_sim_origin *ret);
/* The device, mapped here (this process's own as it is); NULL where the process is gone or another
 * user's. */
struct gm_sim_device *gm_sim_foreign_take(const struct gm_sim_origin *origin);
void gm_sim_foreign_give(struct gm_sim_device *device);
/* The foreign device whose memory holds `address`, where IPC handles opened any. */
struct gm_sim_device *gm_sim_foreign_of(const void *address);
void gm_sim_foreign_lock(bool take);
uint64_t gm_sim_marks_size(uint64_t span);
bool gm_sim_map_marks(struct gm_sim_device *device, uint64_t span);

/* data.c: bytes of a device. The ranges must be memory of the device (gm_sim_memory_holds). */
void gm_sim_data_in(struct gm_sim_device *device, void *to, const void *from, uint64_t size);
void gm_sim_data_out(struct gm_sim_device *device, void *to, const void *from, uint64_t size);
void gm_sim_data_across(struct gm_sim_device *to_device, void *to,
        struct gm_sim_device *from_device, const void *from, uint64_t size);
void gm_sim_data_fill(struct gm_sim_device *device, void *to, int value, uint64_t size);
/* Makes the range read as zero, at the cost of what was written there. */
void gm_sim_data_zero(struct gm_sim_device *device, void *to, uint64_t size);
/* Marks bytes as written by a host implementation of a kernel; known: from nothing that was never
 * computed. */
void gm_sim_data_computed(struct gm_sim_device *device, const void *to, uint64_t size, bool known);
/* Marks what is written there as no longer right: a kernel that would have changed it computed
 * nothing. */
void gm_sim_data_stale(struct gm_sim_device *device, const void *at, uint64_t size);
/* True where all of the bytes were copied, set or computed from such; sets *ret_unwritten where
 * some were not at all. */
bool gm_sim_data_known(
        struct gm_sim_device *device, const void *at, uint64_t size, bool *ret_unwritten);
bool gpumem_sim_computed(const void *address, uint64_t size);
/* Copies to the host without counting it as read back: true where any of it was written, else
 * nothing is done. */
bool gm_sim_data_peek(struct gm_sim_device *device, void *to, const void *from, uint64_t size);
/* How many bytes of the range are in granules that were written. */
uint64_t gm_sim_data_written(struct gm_sim_device *device, const void *from, uint64_t size);

/*
 * loaded.c: true where a caller of the driver is a CUDA runtime that is not ours; begins: its call
 * is one that only such a runtime makes, so it is remembered and told.
 */
bool gm_sim_own_runtime(const void *caller, bool begins);
/* dlopen() of the file itself, also where ours would answer in its place. */
void *gm_sim_dlopen_real(const char *name, int flags);
/* Says that the PyTorch of a process that ends has no CUDA, if so. */
void gm_sim_say_no_cuda(void);

/* host_capacity.c: false where the host has no room for `more` bytes of a device (said once): they
 * are not to be kept. */
enum { GM_SIM_SMALL = 4096 };
bool gm_sim_host_capacity_take(uint64_t more);
void gm_sim_host_capacity_give(uint64_t bytes);

/* copy.c: sets elements of 1, 2 or 4 bytes, on a stream (in its capture) or at once. */
int gm_sim_fill(void *to, unsigned value, unsigned unit, size_t size);
int gm_sim_fill_on(
        struct CUstream_st *stream, void *to, unsigned value, unsigned unit, size_t size);

/* host.c */
bool gm_sim_host_find(const void *address, struct gm_sim_range *ret);

/* Locks taken around fork(), so that a child finds none held (lifetime.c). */
void gm_sim_host_lock(bool take);
void gm_sim_kernel_lock(bool take);
void gm_sim_vmm_lock(bool take);

/* kernel.c: one kernel of the program, as __cudaRegisterFunction told it. */
struct gm_sim_kernel {
	uint64_t magic;
	const void *host;   /* the host-side stub's address */
	const char *name;   /* mangled */
	const void *fatbin; /* its module's code (fatbin.c), NULL where not known */
	_Atomic uint64_t launches, computed;
	_Atomic uint8_t owner;  /* loading.c */
	_Atomic int shared_max; /* cudaFuncAttributeMaxDynamicSharedMemorySize */
	struct gm_sim_plan
	        *_Atomic plan; /* how it is computed (kernels/), NULL until its first launch */
};
/* Calls visit(kernel, data) for each kernel that was launched. */
void gm_sim_kernel_each(void (*visit)(const struct gm_sim_kernel *, void *), void *data);

/* fatbin.c: of a module, the architecture whose code the device (89 is 8.9) runs; 0 where there is
 * none or it is not known. */
int gm_sim_fatbin_architecture(const void *fatbin, int device);

/* A kernel of a module that the program loaded (module.c); its name is copied. NULL: no memory. */
struct gm_sim_kernel *gm_sim_kernel_add(const char *name);
/* Counts a launch of it. */
void gm_sim_kernel_count(struct gm_sim_kernel *kernel, bool computed);

/* graph.c, capture.c: one thing that was put on a capturing stream. */
struct gm_sim_node {
	enum gm_sim_node_kind {
		GM_SIM_NODE_COPY,
		GM_SIM_NODE_FILL,
		GM_SIM_NODE_KERNEL,
		GM_SIM_NODE_LIBRARY,
		GM_SIM_NODE_FRESH,
		GM_SIM_NODE_HOST,
		GM_SIM_NODE_GRAPH
	} what;
	unsigned value; /* a copy's kind, a fill's element */
	unsigned unit;  /* a fill's element's bytes: 1, 2 or 4 */
	void *to;
	const void *from;
	uint64_t size;
	struct gm_sim_kernel *kernel;
	struct gm_sim_kept *kept; /* its launch; NULL: it is not computed */
	void (*host)(void *);     /* cudaLaunchHostFunc(): called with `to` */
	struct gm_sim_part *part; /* the graph that is launched in this one */
};
struct CUgraph_st;
/* Where the stream is capturing, keeps the node in its graph, with what it has, and returns true:
 * nothing is to be done now. */
bool gm_sim_captured(struct CUstream_st *stream, const struct gm_sim_node *node);
bool gm_sim_stream_captures(struct CUstream_st *stream);
/*
 * graph_memory.c: memory that was allocated for a stream that is capturing is a graph's own (a
 * private pool's). A block of it that the allocator hands out then is empty again at each replay,
 * as blocks are outside graphs.
 */
void gm_sim_graph_memory(const void *address, uint64_t size, bool there);
void gm_sim_graph_block(struct gm_sim_device *device, const void *address, uint64_t size);
/* capture.c: whether the stream that this thread named last is capturing. */
bool gm_sim_captures_here(void);
void gm_sim_capture_lock(bool take);
/* capture.c: whether a capture in progress forbids this thread a call that is not safe during it,
 * as cudaMalloc(); if so, the capture is invalidated. */
bool gm_sim_capture_forbids(void);
/* The error of a call that waits for all of the current device, where a capture is in progress on
 * it. */
int gm_sim_capture_device_waits(void);
void gm_sim_graph_lock(bool take);
/* The same as gm_sim_captured() where a call does not say its stream: that of the thread's call
 * before. */
bool gm_sim_captured_library(void);
bool gm_sim_captured_here(const struct gm_sim_node *node);

/* work.c, stream.c: waits for the collectives in progress on a stream, or with bytes of a range. */
void gm_sim_stream_finish(struct CUstream_st *stream);
void gm_sim_range_finish(const void *address, uint64_t size);
void gm_sim_works_wait_all(void);
/* False where no collective in progress has to do with the bytes; else the function is called with
 * them once it is done. */
bool gm_sim_work_then(const void *address, uint64_t size, void (*function)(const void *, uint64_t));
void gm_sim_work_lock(bool take);

/* stubs.c */
struct gm_sim_site {
	const char *name;
	_Atomic uint64_t calls;
};
int gm_sim_refuse(struct gm_sim_site *site, int code, bool runtime);
int gm_sim_compute_nothing(struct gm_sim_site *site);
/* True for the code address of a stub: something that is not simulated. */
bool gm_sim_is_stub(const void *code);

#define GM_SIM_COUNT(counter, n) __atomic_fetch_add(&(counter), (n), __ATOMIC_RELAXED)

#endif
