/*
 * One rank whose peers exist only as sizes (gpumem run --sim --rank R --world W), and communicators
 * with one rank.
 *
 * Absent peers are assumed to do what this rank does, with the same values: a gather has this
 * rank's data in every place, a sum is W times the value, an average, minimum or maximum is the
 * value itself, and a peer sends what this rank sends to itself in the same group, or otherwise
 * data that was never computed (reads as zero). Copies for absent ranks are made only up to a
 * limit, so that one rank of a thousand costs one rank's host memory.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/nccl/nccl.h"

/* Written bytes that a call may copy for absent ranks. */
enum { COPIES = 16 << 20 };

static void copy(struct gm_sim_device *device, void *to, const void *from, uint64_t size)
{
	if (to != from && size)
		gm_sim_data_across(device, to, device, from, size);
}

static ncclResult_t reduce(struct ncclComm *comm, struct gm_sim_device *device,
        const struct gm_nccl_call *call, const void *from, void *to)
{
	size_t size = gm_nccl_type_size(call->type), step = GM_NCCL_TILE / size;
	unsigned ranks = (unsigned)comm->ranks;
	/* The mean, minimum and maximum of equal values are the value. */
	bool same = ranks == 1 ? call->op.kind != ncclNumOps
	                       : call->op.kind == ncclMax || call->op.kind == ncclMin ||
	                                 call->op.kind == ncclAvg;
	if (same) {
		copy(device, to, from, call->count * size);
		return ncclSuccess;
	}
	uint64_t scalar = call->op.scalar;
	if (call->op.on_device)
		gm_sim_data_peek(device, &scalar, call->op.device_scalar, size);
	unsigned char *tile = malloc(GM_NCCL_TILE);
	uint64_t *wide = malloc(step * sizeof(*wide)), *one = malloc(step * sizeof(*one));
	ncclResult_t code = tile && wide && one ? ncclSuccess : ncclSystemError;
	for (uint64_t done = 0; code == ncclSuccess && done < call->count; done += step) {
		size_t n = call->count - done < step ? (size_t)(call->count - done) : step;
		unsigned char *target = (unsigned char *)to + done * size;
		bool unwritten = false,
		     known = gm_sim_data_known(device, (const unsigned char *)from + done * size,
		             n * size, &unwritten);
		if (!gm_sim_data_peek(
		            device, tile, (const unsigned char *)from + done * size, n * size)) {
			gm_sim_data_zero(device, target, n * size);
			continue;
		}
		gm_nccl_widen(call->type, &call->op, scalar, wide, tile, n);
		memcpy(one, wide, step * sizeof(*one));
		/* By doubling: W equal terms. */
		for (int bit = 30 - __builtin_clz(ranks); bit >= 0; bit--) {
			gm_nccl_combine(call->type, call->op.kind, wide, wide, n);
			if (ranks >> bit & 1)
				gm_nccl_combine(call->type, call->op.kind, wide, one, n);
		}
		gm_nccl_narrow(call->type, call->op.kind, ranks, tile, wide, n);
		gm_sim_data_in(device, target, tile, n * size);
		if (!known)
			gm_sim_data_computed(device, target, n * size, false);
	}
	free(tile);
	free(wide);
	free(one);
	return code;
}

/* Whether `bytes` at `from` are copied for the absent ranks. */
static bool may_copy(
        struct ncclComm *comm, struct gm_sim_device *device, const void *from, uint64_t bytes)
{
	uint64_t written = gm_sim_data_written(device, from, bytes);
	return written && written * (uint64_t)(comm->ranks - 1) <= COPIES;
}

/* Copies `bytes` at `from` to every rank's place at `to`. */
static void spread(struct ncclComm *comm, struct gm_sim_device *device, unsigned char *to,
        const void *from, uint64_t bytes)
{
	bool all = may_copy(comm, device, from, bytes);
	copy(device, to + bytes * (uint64_t)comm->rank, from, bytes);
	from = to + bytes * (uint64_t)comm->rank;
	if (!all) {
		gm_sim_data_zero(device, to, bytes * (uint64_t)comm->rank);
		gm_sim_data_zero(device, to + bytes * (uint64_t)(comm->rank + 1),
		        bytes * (uint64_t)(comm->ranks - 1 - comm->rank));
		return;
	}
	for (int rank = 0; rank < comm->ranks; rank++)
		if (rank != comm->rank)
			copy(device, to + bytes * (uint64_t)rank, from, bytes);
}

/* The data from a peer: what this rank sends to itself in the group, if it is as large. */
static const struct gm_nccl_call *own_send(
        const struct gm_nccl_batch *batch, int rank, uint64_t bytes)
{
	for (size_t i = 0; i < batch->count; i++)
		if (batch->calls[i].what == GM_COLLECTIVE_SEND && batch->calls[i].peer == rank &&
		        batch->calls[i].send_bytes == bytes)
			return &batch->calls[i];
	return NULL;
}

/*
 * This rank's own call, if the batch is a gather by broadcasts: one by each rank, and this rank's
 * from another buffer than the one that it fills. PyTorch 2.15 implements all_gather() into a list
 * of tensors this way (ProcessGroupNCCL::allgather()). NULL: it is not one.
 */
static const struct gm_nccl_call *own_part(
        const struct ncclComm *comm, const struct gm_nccl_batch *batch)
{
	const struct gm_nccl_call *own = NULL;
	if (batch->count != (size_t)comm->ranks)
		return NULL;
	for (size_t i = 0; i < batch->count; i++) {
		const struct gm_nccl_call *call = &batch->calls[i];
		if (call->what != GM_COLLECTIVE_BROADCAST || call->peer != (int)i)
			return NULL;
		if (call->peer == comm->rank && call->send != call->receive)
			own = call;
	}
	return own;
}

/* The parts of the absent ranks in such a gather. */
static void gather(
        struct ncclComm *comm, const struct gm_nccl_batch *batch, const struct gm_nccl_call *own)
{
	struct gm_sim_device *device = gm_sim_device(comm->device);
	uint64_t own_bytes = own->count * gm_nccl_type_size(own->type);
	bool all = may_copy(comm, device, own->send, own_bytes);
	for (size_t i = 0; i < batch->count; i++) {
		const struct gm_nccl_call *call = &batch->calls[i];
		uint64_t bytes = call->count * gm_nccl_type_size(call->type);
		if (call == own || !call->receive)
			continue;
		if (all && bytes == own_bytes)
			copy(device, call->receive, own->send, bytes);
		else
			gm_sim_data_zero(device, call->receive, bytes);
	}
}

static ncclResult_t run(
        struct ncclComm *comm, struct gm_nccl_batch *batch, const struct gm_nccl_call *call)
{
	struct gm_sim_device *device = gm_sim_device(comm->device);
	uint64_t bytes = call->count * gm_nccl_type_size(call->type);
	const unsigned char *from = call->send;
	uint64_t before = bytes * (uint64_t)comm->rank;
	switch (call->what) {
	case GM_COLLECTIVE_REDUCE:
		if (call->peer != comm->rank)
			return ncclSuccess;
		return reduce(comm, device, call, from, call->receive);
	case GM_COLLECTIVE_ALL_REDUCE:
		return reduce(comm, device, call, from, call->receive);
	case GM_COLLECTIVE_REDUCE_SCATTER:
		return reduce(comm, device, call, from + before, call->receive);
	case GM_COLLECTIVE_BROADCAST:
		if (call->peer == comm->rank && call->receive)
			copy(device, call->receive, from, bytes);
		return ncclSuccess;
	case GM_COLLECTIVE_GATHER:
		if (call->peer != comm->rank)
			return ncclSuccess;
		spread(comm, device, call->receive, from, bytes);
		return ncclSuccess;
	case GM_COLLECTIVE_ALL_GATHER:
		spread(comm, device, call->receive, from, bytes);
		return ncclSuccess;
	case GM_COLLECTIVE_ALL_TO_ALL:
		spread(comm, device, call->receive, from + before, bytes);
		return ncclSuccess;
	case GM_COLLECTIVE_SCATTER:
		if (call->peer == comm->rank)
			copy(device, call->receive, from + before, bytes);
		else
			gm_sim_data_zero(device, call->receive, bytes);
		return ncclSuccess;
	case GM_COLLECTIVE_RECEIVE: {
		const struct gm_nccl_call *send = own_send(batch, comm->rank, call->receive_bytes);
		if (send)
			copy(device, call->receive, send->send, call->receive_bytes);
		else
			gm_sim_data_zero(device, call->receive, call->receive_bytes);
		return ncclSuccess;
	}
	case GM_COLLECTIVE_SEND:
		return ncclSuccess;
	}
	return ncclInternalError;
}

void gm_nccl_run_alone(struct ncclComm *comm, struct gm_nccl_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		ncclResult_t code = run(comm, batch, &batch->calls[i]);
		if (code != ncclSuccess)
			gm_nccl_fail(comm, code, "no host memory");
	}
	const struct gm_nccl_call *own = own_part(comm, batch);
	if (own)
		gather(comm, batch, own);
}

ncclResult_t gm_nccl_split_alone(
        struct ncclComm *parent, struct ncclComm *child, const ncclConfig_t *config)
{
	child->alone = true;
	if (child->color == -1) /* this rank is in no part */
		return ncclSuccess;
	int size = gm_nccl_part_size(config, parent, child);
	if (!size)
		return gm_nccl_fail(NULL, ncclInvalidUsage,
		        "ncclCommSplit of a single simulated rank: the size of the new "
		        "communicator is not known");
	child->ranks = size;
	child->rank = child->key;
	return ncclSuccess;
}
