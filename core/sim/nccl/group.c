/*
 * Groups: calls between ncclGroupStart and ncclGroupEnd begin together at the end, as one batch for
 * each communicator. A call outside a group is a group of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/nccl/nccl.h"

struct pending {
	struct pending *next;
	struct ncclComm *comm;
	struct gm_nccl_batch *batch;
};

static _Thread_local struct group {
	unsigned depth;
	struct pending *first, *last; /* batches, one for each communicator */
	struct pending *new;          /* communicators that are being created */
	ncclResult_t error;
} group;

bool gm_nccl_in_group(void)
{
	return group.depth > 0;
}

static struct gm_nccl_batch *batch_of(struct ncclComm *comm)
{
	for (struct pending *at = group.first; at; at = at->next)
		if (at->comm == comm)
			return at->batch;
	struct pending *pending = calloc(1, sizeof(*pending));
	struct gm_nccl_batch *batch = calloc(1, sizeof(*batch));
	if (!pending || !batch) {
		free(pending);
		free(batch);
		return NULL;
	}
	pending->comm = comm;
	pending->batch = batch;
	if (group.last)
		group.last->next = pending;
	else
		group.first = pending;
	group.last = pending;
	return batch;
}

static bool add(struct gm_nccl_batch *batch, const struct gm_nccl_call *call)
{
	if (batch->count == batch->capacity) {
		size_t capacity = batch->capacity ? batch->capacity * 2 : 4;
		struct gm_nccl_call *calls = reallocarray(batch->calls, capacity, sizeof(*calls));
		if (!calls)
			return false;
		batch->calls = calls;
		batch->capacity = capacity;
	}
	batch->calls[batch->count++] = *call;
	return true;
}

static ncclResult_t begin(struct ncclComm *comm, struct gm_nccl_batch *batch)
{
	int before = gm_sim_current_index();
	gm_sim_set_current_index(comm->device);
	batch->work = gm_sim_work_start(batch->count * 2);
	ncclResult_t code = batch->work ? ncclSuccess : ncclSystemError;
	for (size_t i = 0; i < batch->count && code == ncclSuccess; i++) {
		const struct gm_nccl_call *call = &batch->calls[i];
		if (call->send_bytes)
			gm_sim_work_range(batch->work, call->send, call->send_bytes);
		if (call->receive_bytes)
			gm_sim_work_range(batch->work, call->receive, call->receive_bytes);
		gm_sim_works_merge(&batch->before, gm_sim_stream_works(call->stream));
	}
	if (code == ncclSuccess) {
		for (size_t i = 0; i < batch->count; i++)
			gm_sim_works_add(gm_sim_stream_works(batch->calls[i].stream), batch->work);
		gm_nccl_comm_queue(comm, batch);
	} else {
		free(batch->calls);
		free(batch);
	}
	gm_sim_set_current_index(before);
	return code;
}

static ncclResult_t end(void)
{
	ncclResult_t code = group.error;
	for (struct pending *at = group.new, *next; at; at = next) {
		next = at->next;
		ncclResult_t its =
		        at->comm->nonblocking ? ncclInProgress : gm_nccl_comm_wait_ready(at->comm);
		if (code == ncclSuccess || (code == ncclInProgress && its != ncclSuccess))
			code = its;
		free(at);
	}
	for (struct pending *at = group.first, *next; at; at = next) {
		next = at->next;
		if (code == ncclSuccess || code == ncclInProgress) {
			ncclResult_t its = begin(at->comm, at->batch);
			if (its != ncclSuccess)
				code = its;
		} else if (at->batch) {
			free(at->batch->calls);
			free(at->batch);
		}
		free(at);
	}
	memset(&group, 0, sizeof(group));
	return code;
}

GM_SIM_EXPORT ncclResult_t ncclGroupStart(void);
GM_SIM_EXPORT ncclResult_t ncclGroupStart(void)
{
	group.depth++;
	return ncclSuccess;
}

GM_SIM_EXPORT ncclResult_t ncclGroupEnd(void);
GM_SIM_EXPORT ncclResult_t ncclGroupEnd(void)
{
	if (!group.depth)
		return gm_nccl_fail(NULL, ncclInvalidUsage, "ncclGroupEnd: not in a group call");
	return --group.depth ? ncclSuccess : end();
}

/* An estimate of a group's duration: time is not simulated here. */
GM_SIM_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info);
GM_SIM_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
	if (!group.depth)
		return ncclInvalidUsage;
	if (info)
		info->estimatedTime = 0;
	if (--group.depth)
		return ncclSuccess;
	group.error = ncclInvalidUsage; /* none of it is begun */
	end();
	return ncclSuccess;
}

ncclResult_t gm_nccl_group_new(struct ncclComm *comm)
{
	struct pending *pending = calloc(1, sizeof(*pending));
	if (!pending)
		return ncclSystemError;
	pending->comm = comm;
	pending->next = group.new;
	group.new = pending;
	return ncclSuccess;
}

ncclResult_t gm_nccl_submit(struct ncclComm *comm, const struct gm_nccl_call *call)
{
	group.depth++;
	struct gm_nccl_batch *batch = batch_of(comm);
	if (!batch || !add(batch, call))
		group.error = ncclSystemError;
	return ncclGroupEnd();
}
