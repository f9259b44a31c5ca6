/* NCCL's entry points: they check their arguments and call the other files. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "sim/nccl/nccl.h"

#define API(declaration)                        \
	GM_SIM_EXPORT ncclResult_t declaration; \
	GM_SIM_EXPORT ncclResult_t declaration

static ncclResult_t invalid(const char *what)
{
	return gm_nccl_fail(NULL, ncclInvalidArgument, "%s", what);
}

/* The version of the installed NCCL: its own answer, which needs no GPU. */
API(ncclGetVersion(int *version))
{
	static _Atomic int known;
	if (!version)
		return invalid("ncclGetVersion: the pointer is NULL");
	if (!known) {
		int answer = GM_NCCL_VERSION;
		void *library = gm_sim_dlopen_real("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
		ncclResult_t (*real)(int *) = NULL;
		if (library)
			*(void **)&real = dlsym(library, "ncclGetVersion");
		if (real && real != ncclGetVersion && real(&answer) != ncclSuccess)
			answer = GM_NCCL_VERSION;
		if (library)
			dlclose(library);
		known = answer;
	}
	*version = known;
	return ncclSuccess;
}

GM_SIM_EXPORT const char *ncclGetErrorString(ncclResult_t code);
GM_SIM_EXPORT const char *ncclGetErrorString(ncclResult_t code)
{
	static const char *const texts[] = {"no error",
	        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
	        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
	        "internal error - please report this issue to the NCCL developers",
	        "invalid argument (run with NCCL_DEBUG=WARN for details)",
	        "invalid usage (run with NCCL_DEBUG=WARN for details)",
	        "remote process exited or there was a network error", "NCCL operation in progress"};
	return (unsigned)code < sizeof(texts) / sizeof(texts[0]) ? texts[code]
	                                                         : "unknown result code";
}

GM_SIM_EXPORT const char *ncclGetLastError(ncclComm_t comm);
GM_SIM_EXPORT const char *ncclGetLastError(ncclComm_t comm)
{
	return gm_nccl_comm_valid(comm) && *comm->message ? comm->message : gm_nccl_last_error();
}

API(ncclGetUniqueId(ncclUniqueId *ret))
{
	if (!ret)
		return invalid("ncclGetUniqueId: the pointer is NULL");
	struct gm_nccl_id id = {0};
	ncclResult_t code = gm_nccl_world(NULL) ? ncclSuccess : gm_nccl_id_make(&id);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, &id, sizeof(id));
	return code;
}

static ncclResult_t start(ncclComm_t *ret, struct ncclComm *comm, const struct gm_nccl_id *id)
{
	comm->id = *id;
	ncclResult_t code = gm_nccl_comm_start(comm);
	if (code == ncclSuccess && gm_nccl_in_group())
		code = gm_nccl_group_new(comm);
	else if (code == ncclSuccess)
		code = comm->nonblocking && !comm->alone ? ncclInProgress
		                                         : gm_nccl_comm_wait_ready(comm);
	if (code != ncclSuccess && code != ncclInProgress) {
		/* The handle is not returned; its text stays with the thread. */
		char message[sizeof(comm->message)];
		memcpy(message, comm->message, sizeof(message));
		atomic_store(&comm->aborted, true);
		gm_nccl_comm_end(comm, true);
		gm_nccl_remember(message);
		*ret = NULL;
		return code;
	}
	*ret = comm;
	return code;
}

API(ncclCommInitRankConfig(
        ncclComm_t *ret, int ranks, ncclUniqueId unique, int rank, ncclConfig_t *config))
{
	if (!ret || ranks < 1 || rank < 0 || rank >= ranks)
		return invalid("ncclCommInitRank: invalid rank requested");
	if (gm_sim_forked() || !gm_sim_current())
		return gm_nccl_fail(NULL, ncclUnhandledCudaError, "ncclCommInitRank: no device");
	struct gm_nccl_id id;
	memcpy(&id, &unique, sizeof(id));
	struct ncclComm *comm = gm_nccl_comm_new(ranks, rank, config);
	if (!comm)
		return ncclSystemError;
	comm->alone = ranks == 1 || gm_nccl_world(NULL);
	if (ranks == 1)
		gm_nccl_id_close(&id);
	if (!comm->alone && ranks > GM_NCCL_RANKS) {
		free(comm);
		return gm_nccl_fail(NULL, ncclInvalidUsage,
		        "%d ranks: at most %d processes share a simulated communicator; one rank "
		        "of "
		        "many: gpumem run --sim --rank R --world W",
		        ranks, GM_NCCL_RANKS);
	}
	return start(ret, comm, &id);
}

API(ncclCommInitRank(ncclComm_t *ret, int ranks, ncclUniqueId unique, int rank))
{
	return ncclCommInitRankConfig(ret, ranks, unique, rank, NULL);
}

API(ncclCommInitRankScalable(
        ncclComm_t *ret, int ranks, int rank, int count, ncclUniqueId *ids, ncclConfig_t *config))
{
	if (!ids || count < 1)
		return invalid("ncclCommInitRankScalable: no unique id");
	return ncclCommInitRankConfig(ret, ranks, ids[0], rank, config);
}

API(ncclCommInitAll(ncclComm_t *comms, int count, const int *devices))
{
	if (!comms || count < 1)
		return invalid("ncclCommInitAll: invalid device count requested");
	ncclUniqueId unique;
	struct gm_nccl_id id;
	ncclResult_t code = gm_nccl_id_make(&id);
	if (code != ncclSuccess)
		return code;
	memset(&unique, 0, sizeof(unique));
	memcpy(&unique, &id, sizeof(id));
	int before = gm_sim_current_index();
	ncclGroupStart();
	for (int i = 0; i < count && code == ncclSuccess; i++) {
		gm_sim_set_current_index(devices ? devices[i] : i);
		code = ncclCommInitRankConfig(&comms[i], count, unique, i, NULL);
	}
	ncclResult_t ended = ncclGroupEnd();
	gm_sim_set_current_index(before);
	return code != ncclSuccess ? code : ended;
}

API(ncclCommFinalize(ncclComm_t comm))
{
	if (!gm_nccl_comm_valid(comm))
		return invalid("ncclCommFinalize: not a communicator");
	gm_nccl_comm_drain(comm);
	atomic_store(&comm->finalized, true);
	return ncclSuccess;
}

API(ncclCommDestroy(ncclComm_t comm))
{
	if (!comm)
		return ncclSuccess;
	if (!gm_nccl_comm_valid(comm))
		return invalid("ncclCommDestroy: not a communicator");
	gm_nccl_comm_end(comm, false);
	return ncclSuccess;
}

API(ncclCommAbort(ncclComm_t comm))
{
	if (!comm)
		return ncclSuccess;
	if (!gm_nccl_comm_valid(comm))
		return invalid("ncclCommAbort: not a communicator");
	atomic_store(&comm->aborted, true);
	gm_nccl_comm_end(comm, true);
	return ncclSuccess;
}

API(ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *ret))
{
	if (!gm_nccl_comm_valid(comm) || !ret)
		return invalid("ncclCommGetAsyncError: not a communicator");
	int error = atomic_load(&comm->error);
	*ret = error                       ? (ncclResult_t)error
	       : atomic_load(&comm->ready) ? ncclSuccess
	                                   : ncclInProgress;
	return ncclSuccess;
}

#define ASK(name, type, value)                                        \
	API(name(const struct ncclComm *comm, type *ret))             \
	{                                                             \
		if (!gm_nccl_comm_valid(comm) || !ret)                \
			return invalid(#name ": not a communicator"); \
		*ret = value;                                         \
		return ncclSuccess;                                   \
	}
ASK(ncclCommCount, int, comm->ranks)
ASK(ncclCommCuDevice, int, comm->device)
ASK(ncclCommUserRank, int, comm->rank)

API(ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *ret, ncclConfig_t *config))
{
	if (!gm_nccl_comm_valid(parent) || !ret || color < -1)
		return invalid("ncclCommSplit: not a communicator, or a wrong color");
	struct ncclComm *child = gm_nccl_comm_new(1, 0, config);
	if (!child)
		return ncclSystemError;
	*ret = NULL;
	child->device = parent->device;
	child->color = color;
	child->key = key;
	ncclResult_t code = ncclSuccess;
	if (!parent->alone) {
		gm_nccl_comm_drain(parent);
		code = gm_nccl_split_run(parent, child);
	} else if (parent->ranks > 1) {
		code = gm_nccl_split_alone(parent, child, config);
	} else {
		child->alone = true;
	}
	if (code != ncclSuccess || color == -1) {
		gm_nccl_comm_end(child, false);
		return code;
	}
	if (child->ranks == 1)
		child->alone = true;
	return start(ret, child, &child->id);
}

/* --- memory --- */

API(ncclMemAlloc(void **ret, size_t size))
{
	if (!ret)
		return invalid("ncclMemAlloc: the pointer is NULL");
	return GM_SIM_KEEP_ERROR(cudaMalloc(ret, size)) == cudaSuccess ? ncclSuccess
	                                                               : ncclUnhandledCudaError;
}

API(ncclMemFree(void *pointer))
{
	return GM_SIM_KEEP_ERROR(cudaFree(pointer)) == cudaSuccess ? ncclSuccess
	                                                           : ncclUnhandledCudaError;
}

/* Registered buffers are used like all others: the handle is the buffer. */
API(ncclCommRegister(const struct ncclComm *comm, void *buffer, size_t size, void **handle))
{
	if (!gm_nccl_comm_valid(comm) || !handle)
		return invalid("ncclCommRegister: not a communicator");
	*handle = buffer;
	return ncclSuccess;
}

API(ncclCommDeregister(const struct ncclComm *comm, void *handle))
{
	return gm_nccl_comm_valid(comm) ? ncclSuccess : ncclInvalidArgument;
}

API(ncclCommWindowRegister(
        ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *window, int flags))
{
	if (!gm_nccl_comm_valid(comm) || !window)
		return invalid("ncclCommWindowRegister: not a communicator");
	*window = (ncclWindow_t)buffer;
	return ncclSuccess;
}

API(ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window))
{
	return gm_nccl_comm_valid(comm) ? ncclSuccess : ncclInvalidArgument;
}

/* --- operators --- */

API(ncclRedOpCreatePreMulSum(ncclRedOp_t *ret, void *scalar, ncclDataType_t type,
        ncclScalarResidence_t where, ncclComm_t comm))
{
	size_t size = gm_nccl_type_size(type);
	if (!gm_nccl_comm_valid(comm) || !ret || !scalar || !size)
		return invalid("ncclRedOpCreatePreMulSum: a wrong communicator, pointer or type");
	for (int i = 0; i < GM_NCCL_OPERATORS; i++) {
		if (comm->operator_used[i])
			continue;
		struct gm_nccl_operator *op = &comm->operators[i];
		*op = (struct gm_nccl_operator){
		        .kind = ncclNumOps, .on_device = where == ncclScalarDevice};
		if (op->on_device)
			op->device_scalar = scalar;
		else
			memcpy(&op->scalar, scalar, size);
		comm->operator_used[i] = true;
		*ret = (ncclRedOp_t)(ncclNumOps + i);
		return ncclSuccess;
	}
	return gm_nccl_fail(NULL, ncclInternalError, "more than %d operators", GM_NCCL_OPERATORS);
}

API(ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm))
{
	int i = (int)op - ncclNumOps;
	if (!gm_nccl_comm_valid(comm) || i < 0 || i >= GM_NCCL_OPERATORS || !comm->operator_used[i])
		return invalid("ncclRedOpDestroy: not an operator of the communicator");
	comm->operator_used[i] = false;
	return ncclSuccess;
}

/* --- collectives --- */

static bool readable(const void *pointer, uint64_t bytes)
{
	struct gm_sim_device *device = bytes ? gm_sim_device_of(pointer) : NULL;
	return !bytes || (device && gm_sim_memory_holds(device, pointer, bytes));
}

static ncclResult_t submit(const char *name, ncclComm_t comm, struct gm_nccl_call call, int op)
{
	if (!gm_nccl_comm_valid(comm))
		return gm_nccl_fail(NULL, ncclInvalidArgument, "%s: not a communicator", name);
	size_t size = gm_nccl_type_size(call.type);
	if (!size || call.peer < 0 || call.peer >= comm->ranks ||
	        call.count > UINT64_MAX / 8 / (uint64_t)comm->ranks)
		return gm_nccl_fail(NULL, ncclInvalidArgument,
		        "%s: type %d, root or peer %d, count %llu: one is out of range", name,
		        (int)call.type, call.peer, (unsigned long long)call.count);
	if (op >= ncclNumOps) {
		int i = op - ncclNumOps;
		if (i >= GM_NCCL_OPERATORS || !comm->operator_used[i])
			return gm_nccl_fail(NULL, ncclInvalidArgument, "%s: operator %d", name, op);
		call.op = comm->operators[i];
	} else {
		call.op.kind = (ncclRedOp_t)op;
	}
	int error = atomic_load(&comm->error);
	if (error)
		return (ncclResult_t)error;
	const struct gm_collective_bytes bytes = gm_collective_bytes(call.what, call.count * size,
	        (uint64_t)comm->ranks, call.peer == comm->rank, call.send == call.receive);
	call.send_bytes = bytes.send;
	call.receive_bytes = bytes.receive;
	if (!readable(call.send, call.send_bytes) || !readable(call.receive, call.receive_bytes))
		return gm_nccl_fail(NULL, ncclInvalidArgument,
		        "%s: %llu bytes at %p or %llu at %p are not device memory in use", name,
		        (unsigned long long)call.send_bytes, call.send,
		        (unsigned long long)call.receive_bytes, call.receive);
	/* NCCL drops these before it orders them, so a rank may leave one out. */
	if (!call.count && call.what < GM_COLLECTIVE_SEND)
		return ncclSuccess;
	if (gm_sim_stream_capturing(call.stream))
		return gm_nccl_fail(NULL, ncclInvalidUsage,
		        "%s: collectives in a CUDA graph are not simulated", name);
	return gm_nccl_submit(comm, &call);
}

#define CALL(...) ((struct gm_nccl_call){__VA_ARGS__, .stream = stream})

API(ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
{
	return submit("ncclAllReduce", comm,
	        CALL(.what = GM_COLLECTIVE_ALL_REDUCE, .type = type, .count = count, .send = send,
	                .receive = receive),
	        (int)op);
}

API(ncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
        int root, ncclComm_t comm, cudaStream_t stream))
{
	return submit("ncclReduce", comm,
	        CALL(.what = GM_COLLECTIVE_REDUCE, .type = type, .count = count, .send = send,
	                .receive = receive, .peer = root),
	        (int)op);
}

API(ncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type, int root,
        ncclComm_t comm, cudaStream_t stream))
{
	return submit("ncclBroadcast", comm,
	        CALL(.what = GM_COLLECTIVE_BROADCAST, .type = type, .count = count, .send = send,
	                .receive = receive, .peer = root),
	        0);
}

API(ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
        cudaStream_t stream))
{
	return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

API(ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type,
        ncclComm_t comm, cudaStream_t stream))
{
	return submit("ncclAllGather", comm,
	        CALL(.what = GM_COLLECTIVE_ALL_GATHER, .type = type, .count = count, .send = send,
	                .receive = receive),
	        0);
}

API(ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
{
	return submit("ncclReduceScatter", comm,
	        CALL(.what = GM_COLLECTIVE_REDUCE_SCATTER, .type = type, .count = count,
	                .send = send, .receive = receive),
	        (int)op);
}

API(ncclAlltoAll(const void *send, void *receive, size_t count, ncclDataType_t type,
        ncclComm_t comm, cudaStream_t stream))
{
	return submit("ncclAlltoAll", comm,
	        CALL(.what = GM_COLLECTIVE_ALL_TO_ALL, .type = type, .count = count, .send = send,
	                .receive = receive),
	        0);
}

API(ncclGather(const void *send, void *receive, size_t count, ncclDataType_t type, int root,
        ncclComm_t comm, cudaStream_t stream))
{
	return submit("ncclGather", comm,
	        CALL(.what = GM_COLLECTIVE_GATHER, .type = type, .count = count, .send = send,
	                .receive = receive, .peer = root),
	        0);
}

API(ncclScatter(const void *send, void *receive, size_t count, ncclDataType_t type, int root,
        ncclComm_t comm, cudaStream_t stream))
{
	return submit("ncclScatter", comm,
	        CALL(.what = GM_COLLECTIVE_SCATTER, .type = type, .count = count, .send = send,
	                .receive = receive, .peer = root),
	        0);
}

API(ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
        cudaStream_t stream))
{
	return submit("ncclSend", comm,
	        CALL(.what = GM_COLLECTIVE_SEND, .type = type, .count = count, .send = send,
	                .peer = peer),
	        0);
}

API(ncclRecv(void *receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
        cudaStream_t stream))
{
	return submit("ncclRecv", comm,
	        CALL(.what = GM_COLLECTIVE_RECEIVE, .type = type, .count = count,
	                .receive = receive, .peer = peer),
	        0);
}
