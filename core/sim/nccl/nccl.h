/*
 * NCCL on the simulated device: collectives between processes of one machine, with right values.
 *
 * libgpumem-sim.so stands in front of libnccl.so.2 too. A communicator is a memory file that its
 * ranks share (segment.c): who they are, what each has published, how far each is. Bytes are not
 * sent: a rank maps the other ranks' device memory (cuda/foreign.c) and reads it. Each communicator
 * has a thread (comm.c) that does its collectives in order, behind what was in progress on their
 * streams, so a call returns at once, as NCCL's does, and a program may do on the host what it
 * likes meanwhile.
 *
 * What this does not do: several machines, and the device-side API (ncclDevComm…), which is refused
 * by name.
 *
 * Files: api.c (entry points), group.c (batches, groups), comm.c (communicators and their threads),
 * segment.c (shared memory, waiting, who is alive), collective.c (between processes), alone.c (one
 * rank whose peers are not there), part.c (how large a part of such a communicator is), reduce.c
 * (arithmetic).
 *
 * The types are NCCL's, as nccl.h of 2.28.9 has them; those of 2.20 to 2.27 are the same as far as
 * used.
 */
#ifndef GM_SIM_NCCL_NCCL_H
#define GM_SIM_NCCL_NCCL_H

#include <limits.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"
#include "sim/cuda/work.h"
#include "sim/nccl_calls.h"

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7,
} ncclResult_t;

typedef enum {
	ncclInt8 = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclFloat32 = 7,
	ncclFloat64 = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes = 12,
} ncclDataType_t;

typedef enum {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
	ncclNumOps = 5,
	ncclMaxRedOp = 0x7fffffff,
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

/* The beginning of ncclConfig_t, which all versions since 2.14 share; `size` says how much there
 * is. */
typedef struct {
	size_t size;
	unsigned magic, version;
	int blocking;
} ncclConfig_t;

typedef struct {
	size_t size;
	unsigned magic, version;
	float estimatedTime;
} ncclSimInfo_t;

typedef struct {
	char internal[128];
} ncclUniqueId;

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;

enum {
	GM_NCCL_VERSION = 22809,
	GM_NCCL_CONFIG_MAGIC = (int)0xcafebeef,
	GM_NCCL_RANKS = 256,      /* processes of one communicator, on one machine */
	GM_NCCL_CHUNKS = 1 << 16, /* of the buffers of one rank's calls in progress */
	GM_NCCL_OPERATORS = 64,   /* of a program's own alive at once, by communicator */
	GM_NCCL_TILE = 256 << 10, /* bytes that are reduced at a time */
};

struct gm_nccl_operator {
	ncclRedOp_t kind; /* ncclSum … ncclAvg; ncclNumOps: sum of what is first multiplied by
	                     `scalar` */
	bool on_device;
	uint64_t scalar;           /* the bytes of one element */
	const void *device_scalar; /* read when the collective runs */
};

/* What a call asks for, resolved. */
struct gm_nccl_call {
	enum gm_collective_kind what;
	ncclDataType_t type;
	struct gm_nccl_operator op;
	int peer; /* or root */
	uint64_t count;
	const void *send;
	void *receive;
	uint64_t send_bytes, receive_bytes;
	cudaStream_t stream;
};

/* The calls of one group on one communicator, or a single call. */
struct gm_nccl_batch {
	struct gm_nccl_batch *next;
	struct gm_sim_work *work;
	struct gm_sim_works before; /* what was in progress on its streams */
	size_t count, capacity;
	struct gm_nccl_call *calls;
};

/* --- the shared memory of a communicator (segment.c) --- */

struct gm_nccl_id {
	char mark[16]; /* "gpumem-sim-nccl" */
	uint64_t inode, cookie;
	uint32_t process;
	int32_t file;
	char host[64];
};

/* A part of a rank's device memory; a buffer is a run of them (one, but for expandable
 * segments). */
struct gm_nccl_chunk {
	uint64_t offset, size;
};

struct gm_nccl_view {
	uint32_t first, count;
	uint64_t bytes;
};

struct gm_nccl_posted {
	uint32_t what, type, op, root;
	uint64_t count, scalar;
	struct gm_nccl_view send, receive;
};

struct gm_nccl_slot {
	_Atomic uint32_t state; /* 0 free, 1 being filled, 2 joined, 3 left by abort */
	uint32_t process;
	struct gm_sim_origin origin;
	uint64_t machine; /* which run's devices; 0: its own */
	uint32_t physical;
	/* Numbers of the last collective that was posted, was half done and was finished. */
	_Atomic uint64_t posted, half, finished;
	struct gm_nccl_posted call;
	uint64_t words[24]; /* an exchange of the communicator's own (split) */
};

struct gm_nccl_mail {
	_Atomic uint64_t sent, taken;
	struct gm_nccl_view view;
};

struct gm_nccl_header {
	uint64_t magic, cookie;
	_Atomic uint32_t ranks;
	_Atomic uint32_t bell; /* a futex: rung at each change */
	_Atomic uint32_t waiting;
	uint32_t creator;
	_Atomic uint32_t closed; /* the creator's file descriptor, once all have joined */
};

struct gm_nccl_segment {
	struct gm_nccl_header *header;
	size_t size;
	int file; /* ours, or -1 */
	int rank, ranks;
	int watch[GM_NCCL_RANKS]; /* pidfds, or -1 */
	struct gm_sim_device *devices[GM_NCCL_RANKS];
};

struct ncclComm {
	uint64_t magic;
	int rank, ranks, device;
	bool alone; /* its peers are sizes only, or it has none */
	bool nonblocking;
	struct gm_nccl_segment segment;
	uint64_t number; /* of the last collective */
	uint32_t chunks; /* in use of this rank's */
	_Atomic int error;
	_Atomic bool ready, aborted, finalized;
	char message[256];
	uint64_t device_bytes; /* what NCCL itself takes of the device */
	struct gm_nccl_operator operators[GM_NCCL_OPERATORS];
	bool operator_used[GM_NCCL_OPERATORS];
	/* The thread and its queue. */
	pthread_t thread;
	bool threaded;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct gm_nccl_batch *first, *last;
	bool busy, ending;
	/* How it is to come to be. */
	struct gm_nccl_id id;
	int color, key; /* of a split */
};

/* comm.c */
ncclResult_t gm_nccl_comm_start(struct ncclComm *comm);
struct ncclComm *gm_nccl_comm_new(int ranks, int rank, const ncclConfig_t *config);
ncclResult_t gm_nccl_comm_wait_ready(struct ncclComm *comm);
void gm_nccl_comm_queue(struct ncclComm *comm, struct gm_nccl_batch *batch);
void gm_nccl_comm_drain(struct ncclComm *comm);
void gm_nccl_comm_end(struct ncclComm *comm, bool abort);
bool gm_nccl_comm_valid(const struct ncclComm *comm);
ncclResult_t gm_nccl_fail(struct ncclComm *comm, ncclResult_t code, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
const char *gm_nccl_last_error(void);
void gm_nccl_remember(const char *message);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
int gm_nccl_world(int *ret_rank); /* of a rank that stands alone: GPUMEM_SIM_WORLD; else 0 */

/* segment.c */
ncclResult_t gm_nccl_id_make(struct gm_nccl_id *id);
/* Once all have joined, nobody opens the file through the descriptor of the process that made it.
 */
void gm_nccl_id_close(const struct gm_nccl_id *id);
ncclResult_t gm_nccl_join(struct ncclComm *comm, const struct gm_nccl_id *id);
void gm_nccl_leave(struct ncclComm *comm);
struct gm_nccl_slot *gm_nccl_slot(struct gm_nccl_segment *segment, int rank);
struct gm_nccl_chunk *gm_nccl_chunks(struct gm_nccl_segment *segment, int rank);
struct gm_nccl_mail *gm_nccl_mail(struct gm_nccl_segment *segment, int from, int to);
void gm_nccl_ring(struct gm_nccl_segment *segment);
/*
 * Waits until met(comm, data) holds. `needs(comm, rank, data)` says whether that hangs on a rank:
 * where such a rank is gone the communicator has failed (ncclRemoteError). False then, and where it
 * was aborted.
 */
typedef bool gm_nccl_condition(struct ncclComm *comm, void *data);
typedef bool gm_nccl_needs(struct ncclComm *comm, int rank, void *data);
bool gm_nccl_wait(struct ncclComm *comm, gm_nccl_condition *met, gm_nccl_needs *needs, void *data);
/* All ranks' numbers of this kind are at least `number`. */
enum gm_nccl_mark { GM_NCCL_POSTED, GM_NCCL_HALF, GM_NCCL_FINISHED };
bool gm_nccl_wait_all(struct ncclComm *comm, enum gm_nccl_mark mark, uint64_t number);

/* collective.c, alone.c: false where the communicator failed or was aborted. */
bool gm_nccl_run(struct ncclComm *comm, struct gm_nccl_batch *batch);
void gm_nccl_run_alone(struct ncclComm *comm, struct gm_nccl_batch *batch);
ncclResult_t gm_nccl_split_run(struct ncclComm *parent, struct ncclComm *child);
ncclResult_t gm_nccl_split_alone(
        struct ncclComm *parent, struct ncclComm *child, const ncclConfig_t *config);

/* part.c: the number of ranks of the part that PyTorch asks for with this configuration: at most
 * the parent's, this process's rank is number child->key of them; 0: not known. */
int gm_nccl_part_size(
        const ncclConfig_t *config, const struct ncclComm *parent, const struct ncclComm *child);

/* group.c */
ncclResult_t gm_nccl_submit(struct ncclComm *comm, const struct gm_nccl_call *call);
bool gm_nccl_in_group(void);
ncclResult_t gm_nccl_group_new(struct ncclComm *comm); /* to be waited for at the group's end */

/* reduce.c */
size_t gm_nccl_type_size(ncclDataType_t type);
/* A tile of wide values: float, double, int64 or uint64 by type; 8 bytes an element. */
void gm_nccl_widen(ncclDataType_t type, const struct gm_nccl_operator *op, uint64_t scalar,
        void *wide, const void *from, size_t count);
void gm_nccl_combine(
        ncclDataType_t type, ncclRedOp_t op, void *wide, const void *other, size_t count);
void gm_nccl_narrow(ncclDataType_t type, ncclRedOp_t op, unsigned ranks, void *to, const void *wide,
        size_t count);

#endif
