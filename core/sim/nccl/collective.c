/*
 * Collectives between processes. A rank posts its call, waits until all have, reads the others'
 * device memory, and is done when all are, so that no buffer is reused while it is read.
 *
 * An all-reduce is a reduce-scatter of parts followed by an all-gather: each part of a buffer is
 * read by only one rank before it is overwritten, so it may be in place and needs no second copy.
 *
 * The calls of all ranks are compared. If they differ, a GPU hangs or computes nonsense; here the
 * communicator fails and reports the difference.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/nccl/nccl.h"

static const char *name_of(uint32_t what)
{
	static const char *const names[] = {"?", "ncclAllReduce", "ncclReduce", "ncclBroadcast",
	        "ncclAllGather", "ncclReduceScatter", "ncclAlltoAll", "ncclGather", "ncclScatter",
	        "ncclSend", "ncclRecv"};
	return what < sizeof(names) / sizeof(names[0]) ? names[what] : "?";
}

/* Describes the location of a buffer in this rank's device file, as chunks, in memory that the
 * others can read. */
static bool post_view(
        struct ncclComm *comm, const void *address, uint64_t bytes, struct gm_nccl_view *ret)
{
	struct gm_nccl_chunk *chunks = gm_nccl_chunks(&comm->segment, comm->rank);
	struct gm_sim_device *device = gm_sim_device(comm->device);
	*ret = (struct gm_nccl_view){.first = comm->chunks, .bytes = bytes};
	uintptr_t at = (uintptr_t)address;
	while (bytes) {
		struct gm_sim_view view = {device, (unsigned char *)at, bytes};
		if (at - (uintptr_t)device->base >= device->span &&
		        (!gm_sim_vmm_find((const void *)at, &view) || view.device != device)) {
			gm_nccl_fail(comm, ncclInvalidArgument,
			        "the buffer at %p is not memory of the communicator's device %d",
			        address, comm->device);
			return false;
		}
		if (view.size > bytes)
			view.size = bytes;
		if (comm->chunks == GM_NCCL_CHUNKS) {
			gm_nccl_fail(comm, ncclSystemError,
			        "the buffers of one group are of more "
			        "than %d chunks",
			        GM_NCCL_CHUNKS);
			return false;
		}
		chunks[comm->chunks++] =
		        (struct gm_nccl_chunk){(uint64_t)(view.at - device->base), view.size};
		ret->count++;
		at += view.size;
		bytes -= view.size;
	}
	return true;
}

/* Calls visit for each contiguous part of [from, from + size) of another rank's buffer. */
typedef void visit_function(
        struct gm_sim_device *device, unsigned char *at, uint64_t done, uint64_t size, void *data);

static void each_chunk(struct ncclComm *comm, int rank, const struct gm_nccl_view *view,
        uint64_t from, uint64_t size, visit_function *visit, void *data)
{
	const struct gm_nccl_chunk *chunks = gm_nccl_chunks(&comm->segment, rank);
	struct gm_sim_device *device = comm->segment.devices[rank];
	uint64_t done = 0;
	/* Data from another process is checked before it is used. */
	for (uint32_t i = 0; i < view->count && done < size; i++) {
		uint64_t n = view->first + i;
		if (n >= GM_NCCL_CHUNKS)
			return;
		struct gm_nccl_chunk chunk = chunks[n];
		if (chunk.offset > device->span || chunk.size > device->span - chunk.offset)
			return;
		if (from >= chunk.size) {
			from -= chunk.size;
			continue;
		}
		uint64_t here = chunk.size - from;
		if (here > size - done)
			here = size - done;
		visit(device, device->base + chunk.offset + from, done, here, data);
		done += here;
		from = 0;
	}
}

struct copying {
	struct gm_sim_device *device;
	unsigned char *to;
};

static void copy_chunk(
        struct gm_sim_device *device, unsigned char *at, uint64_t done, uint64_t size, void *data)
{
	struct copying *copying = data;
	gm_sim_data_across(copying->device, copying->to + done, device, at, size);
}

/* Copies bytes of a rank's posted buffer into this rank's memory. */
static void fetch(struct ncclComm *comm, int rank, const struct gm_nccl_view *view, uint64_t from,
        void *to, uint64_t size)
{
	struct copying copying = {gm_sim_device(comm->device), to};
	each_chunk(comm, rank, view, from, size, copy_chunk, &copying);
}

struct peeking {
	unsigned char *to;
	bool any, doubtful; /* written, but partly copied or computed from unwritten bytes */
};

static void peek_chunk(
        struct gm_sim_device *device, unsigned char *at, uint64_t done, uint64_t size, void *data)
{
	struct peeking *peeking = data;
	if (gm_sim_data_peek(device, peeking->to + done, at, size))
		peeking->any = true;
	else
		memset(peeking->to + done, 0, size);
	bool unwritten;
	if (!gm_sim_data_known(device, at, size, &unwritten))
		peeking->doubtful = true;
}

/* Reduces elements [from, from + count) of all ranks' buffers into `to`. */
static void reduce(struct ncclComm *comm, const struct gm_nccl_call *call, uint64_t from,
        uint64_t count, void *to)
{
	struct gm_nccl_segment *segment = &comm->segment;
	struct gm_sim_device *device = gm_sim_device(comm->device);
	size_t size = gm_nccl_type_size(call->type), step = GM_NCCL_TILE / size;
	unsigned char *tile = malloc(GM_NCCL_TILE);
	uint64_t *wide = malloc(step * sizeof(*wide)), *other = malloc(step * sizeof(*other));
	if (!tile || !wide || !other) {
		gm_nccl_fail(comm, ncclSystemError, "no host memory");
		count = 0;
	}
	for (uint64_t done = 0; done < count; done += step) {
		size_t n = count - done < step ? (size_t)(count - done) : step;
		bool any = false, known = true;
		for (int rank = 0; rank < comm->ranks; rank++) {
			const struct gm_nccl_posted *posted = &gm_nccl_slot(segment, rank)->call;
			struct peeking peeking = {tile, false, false};
			each_chunk(comm, rank, &posted->send, (from + done) * size, n * size,
			        peek_chunk, &peeking);
			/* Bytes that no rank ever wrote are zero for all, and stay unwritten. */
			if (!peeking.any && !any && rank < comm->ranks - 1) {
				bool rest = false;
				for (int next = rank + 1; next < comm->ranks && !rest; next++) {
					struct peeking look = {tile, false, false};
					each_chunk(comm, next,
					        &gm_nccl_slot(segment, next)->call.send,
					        (from + done) * size, n * size, peek_chunk, &look);
					rest = look.any;
				}
				if (!rest)
					break;
				memset(tile, 0, n * size);
			}
			any = true;
			known &= !peeking.doubtful;
			gm_nccl_widen(call->type, &call->op, posted->scalar, rank ? other : wide,
			        tile, n);
			if (rank)
				gm_nccl_combine(call->type, call->op.kind, wide, other, n);
		}
		unsigned char *target = (unsigned char *)to + done * size;
		if (any) {
			gm_nccl_narrow(
			        call->type, call->op.kind, (unsigned)comm->ranks, tile, wide, n);
			gm_sim_data_in(device, target, tile, n * size);
			if (!known)
				gm_sim_data_computed(device, target, n * size, false);
		} else {
			gm_sim_data_zero(device, target, n * size);
		}
	}
	free(tile);
	free(wide);
	free(other);
}

/* All ranks must have made the same call. */
static bool alike(struct ncclComm *comm, const struct gm_nccl_posted *mine)
{
	for (int rank = 0; rank < comm->ranks; rank++) {
		const struct gm_nccl_posted *other = &gm_nccl_slot(&comm->segment, rank)->call;
		if (other->what == mine->what && other->count == mine->count &&
		        other->type == mine->type && other->op == mine->op &&
		        other->root == mine->root)
			continue;
		gm_nccl_fail(comm, ncclInvalidUsage,
		        "collective %llu does not match: rank %d called %s of %llu elements (type "
		        "%u, "
		        "op %u, root %u), rank %d %s of %llu (type %u, op %u, root %u): a GPU "
		        "would hang "
		        "here or give wrong values",
		        (unsigned long long)comm->number, comm->rank, name_of(mine->what),
		        (unsigned long long)mine->count, mine->type, mine->op, mine->root, rank,
		        name_of(other->what), (unsigned long long)other->count, other->type,
		        other->op, other->root);
		return false;
	}
	return true;
}

static void reduce_part(struct ncclComm *comm, const struct gm_nccl_call *call, int rank,
        uint64_t *ret_from, uint64_t *ret_count)
{
	uint64_t part = (call->count + (uint64_t)comm->ranks - 1) / (uint64_t)comm->ranks;
	/* Whole granules, so that the marks of two ranks are never in the same one. */
	part = (part + GM_SIM_GRANULE - 1) & ~(uint64_t)(GM_SIM_GRANULE - 1);
	*ret_from = part * (uint64_t)rank < call->count ? part * (uint64_t)rank : call->count;
	*ret_count = call->count - *ret_from < part ? call->count - *ret_from : part;
}

static bool collective(struct ncclComm *comm, const struct gm_nccl_call *call)
{
	struct gm_nccl_segment *segment = &comm->segment;
	struct gm_nccl_slot *slot = gm_nccl_slot(segment, comm->rank);
	struct gm_sim_device *device = gm_sim_device(comm->device);
	struct gm_nccl_posted mine = {.what = call->what,
	        .type = call->type,
	        .op = call->op.kind,
	        .root = (uint32_t)call->peer,
	        .count = call->count,
	        .scalar = call->op.scalar};
	uint64_t number = ++comm->number, size = gm_nccl_type_size(call->type),
	         bytes = call->count * size;
	if (call->op.on_device && call->op.kind == ncclNumOps)
		gm_sim_data_peek(device, &mine.scalar, call->op.device_scalar, size);
	comm->chunks = 0;
	if (!post_view(comm, call->send, call->send_bytes, &mine.send) ||
	        !post_view(comm, call->receive, call->receive_bytes, &mine.receive))
		return false;
	slot->call = mine;
	atomic_store(&slot->posted, number);
	gm_nccl_ring(segment);
	if (!gm_nccl_wait_all(comm, GM_NCCL_POSTED, number) || !alike(comm, &mine))
		return false;
	unsigned char *to = call->receive;
#define SEND_OF(other) (&gm_nccl_slot(segment, other)->call.send)
	switch (call->what) {
	case GM_COLLECTIVE_ALL_REDUCE: {
		uint64_t from, count;
		reduce_part(comm, call, comm->rank, &from, &count);
		reduce(comm, call, from, count, to + from * size);
		atomic_store(&slot->half, number);
		gm_nccl_ring(segment);
		if (!gm_nccl_wait_all(comm, GM_NCCL_HALF, number))
			return false;
		for (int rank = 0; rank < comm->ranks; rank++) {
			reduce_part(comm, call, rank, &from, &count);
			if (rank != comm->rank)
				fetch(comm, rank, &gm_nccl_slot(segment, rank)->call.receive,
				        from * size, to + from * size, count * size);
		}
		break;
	}
	case GM_COLLECTIVE_REDUCE:
		if (call->peer == comm->rank)
			reduce(comm, call, 0, call->count, to);
		break;
	case GM_COLLECTIVE_REDUCE_SCATTER:
		reduce(comm, call, call->count * (uint64_t)comm->rank, call->count, to);
		break;
	case GM_COLLECTIVE_BROADCAST:
		if (call->receive && (call->peer != comm->rank || call->send != call->receive))
			fetch(comm, call->peer, SEND_OF(call->peer), 0, to, bytes);
		break;
	case GM_COLLECTIVE_ALL_GATHER:
	case GM_COLLECTIVE_GATHER:
		for (int rank = 0; rank < comm->ranks; rank++)
			if (call->what == GM_COLLECTIVE_ALL_GATHER || call->peer == comm->rank)
				fetch(comm, rank, SEND_OF(rank), 0, to + bytes * (uint64_t)rank,
				        bytes);
		break;
	case GM_COLLECTIVE_ALL_TO_ALL:
		for (int rank = 0; rank < comm->ranks; rank++)
			fetch(comm, rank, SEND_OF(rank), bytes * (uint64_t)comm->rank,
			        to + bytes * (uint64_t)rank, bytes);
		break;
	case GM_COLLECTIVE_SCATTER:
		fetch(comm, call->peer, SEND_OF(call->peer), bytes * (uint64_t)comm->rank, to,
		        bytes);
		break;
	default:
		break;
	}
	atomic_store(&slot->finished, number);
	gm_nccl_ring(segment);
	return gm_nccl_wait_all(comm, GM_NCCL_FINISHED, number);
}

/* --- sends and receives of a group: concurrent, except that those between two ranks are in order
 */

struct mailing {
	struct gm_nccl_batch *batch;
	struct gm_nccl_view *views; /* of the sends */
	unsigned char *state;       /* 0 waiting, 1 sent and not yet received, 2 done */
	uint64_t *number;
	size_t left;
	bool failed;
};

/* The nth is the first waiting one with its peer in its direction. */
static bool is_next(const struct mailing *mailing, size_t nth)
{
	const struct gm_nccl_call *call = &mailing->batch->calls[nth];
	for (size_t i = 0; i < nth; i++)
		if (mailing->batch->calls[i].what == call->what &&
		        mailing->batch->calls[i].peer == call->peer && mailing->state[i] != 2)
			return false;
	return true;
}

static bool step(struct ncclComm *comm, struct mailing *mailing, size_t nth)
{
	const struct gm_nccl_call *call = &mailing->batch->calls[nth];
	struct gm_nccl_segment *segment = &comm->segment;
	if (call->what == GM_COLLECTIVE_SEND) {
		struct gm_nccl_mail *mail = gm_nccl_mail(segment, comm->rank, call->peer);
		if (mailing->state[nth] == 0) {
			if (atomic_load(&mail->sent) != atomic_load(&mail->taken))
				return false;
			mail->view = mailing->views[nth];
			mailing->number[nth] = atomic_load(&mail->sent) + 1;
			atomic_store(&mail->sent, mailing->number[nth]);
			mailing->state[nth] = 1;
			return true;
		}
		if (atomic_load(&mail->taken) < mailing->number[nth])
			return false;
	} else {
		struct gm_nccl_mail *mail = gm_nccl_mail(segment, call->peer, comm->rank);
		uint64_t sent = atomic_load(&mail->sent);
		if (sent == atomic_load(&mail->taken))
			return false;
		struct gm_nccl_view view = mail->view;
		if (view.bytes != call->receive_bytes) {
			gm_nccl_fail(comm, ncclInvalidUsage,
			        "rank %d sends %llu bytes to rank %d, which receives %llu: a GPU "
			        "would "
			        "hang here or lose some",
			        call->peer, (unsigned long long)view.bytes, comm->rank,
			        (unsigned long long)call->receive_bytes);
			mailing->failed = true;
			return true;
		}
		fetch(comm, call->peer, &view, 0, call->receive, view.bytes);
		atomic_store(&mail->taken, sent);
	}
	mailing->state[nth] = 2;
	mailing->left--;
	return true;
}

/* Continues all that can continue; finished when nothing is left. */
static bool mailed(struct ncclComm *comm, void *data)
{
	struct mailing *mailing = data;
	bool changed = true, rang = false;
	while (changed && mailing->left && !mailing->failed) {
		changed = false;
		for (size_t i = 0; i < mailing->batch->count && !mailing->failed; i++)
			if (mailing->batch->calls[i].what >= GM_COLLECTIVE_SEND &&
			        mailing->state[i] != 2 && is_next(mailing, i) &&
			        step(comm, mailing, i))
				changed = rang = true;
	}
	if (rang)
		gm_nccl_ring(&comm->segment);
	return !mailing->left || mailing->failed;
}

static bool mail_needs(struct ncclComm *comm, int rank, void *data)
{
	const struct mailing *mailing = data;
	for (size_t i = 0; i < mailing->batch->count; i++)
		if (mailing->batch->calls[i].what >= GM_COLLECTIVE_SEND && mailing->state[i] != 2 &&
		        mailing->batch->calls[i].peer == rank)
			return true;
	return false;
}

static bool mail_all(struct ncclComm *comm, struct gm_nccl_batch *batch)
{
	struct mailing mailing = {.batch = batch};
	mailing.views = calloc(batch->count, sizeof(*mailing.views));
	mailing.state = calloc(batch->count, 1);
	mailing.number = calloc(batch->count, sizeof(*mailing.number));
	bool good = mailing.views && mailing.state && mailing.number;
	comm->chunks = 0;
	for (size_t i = 0; i < batch->count && good; i++) {
		const struct gm_nccl_call *call = &batch->calls[i];
		if (call->what < GM_COLLECTIVE_SEND)
			continue;
		mailing.left++;
		if (call->what == GM_COLLECTIVE_SEND)
			good = post_view(comm, call->send, call->send_bytes, &mailing.views[i]);
	}
	if (good && mailing.left)
		good = gm_nccl_wait(comm, mailed, mail_needs, &mailing) && !mailing.failed;
	free(mailing.views);
	free(mailing.state);
	free(mailing.number);
	return good;
}

bool gm_nccl_run(struct ncclComm *comm, struct gm_nccl_batch *batch)
{
	bool mail = false;
	for (size_t i = 0; i < batch->count; i++)
		if (batch->calls[i].what >= GM_COLLECTIVE_SEND)
			mail = true;
		else if (!collective(comm, &batch->calls[i]))
			return false;
	return !mail || mail_all(comm, batch);
}

/* --- splitting: all ranks post their color and key, and the first of each color creates the new
 * file  */

static bool exchange(struct ncclComm *comm, const uint64_t *words, size_t count)
{
	struct gm_nccl_slot *slot = gm_nccl_slot(&comm->segment, comm->rank);
	uint64_t number = ++comm->number;
	memcpy(slot->words, words, count * sizeof(*words));
	slot->call = (struct gm_nccl_posted){.what = UINT32_MAX};
	atomic_store(&slot->posted, number);
	gm_nccl_ring(&comm->segment);
	return gm_nccl_wait_all(comm, GM_NCCL_POSTED, number);
}

static bool exchanged(struct ncclComm *comm)
{
	struct gm_nccl_slot *slot = gm_nccl_slot(&comm->segment, comm->rank);
	atomic_store(&slot->finished, comm->number);
	gm_nccl_ring(&comm->segment);
	return gm_nccl_wait_all(comm, GM_NCCL_FINISHED, comm->number);
}

ncclResult_t gm_nccl_split_run(struct ncclComm *parent, struct ncclComm *child)
{
	int color = child->color, key = child->key, ranks = 0, rank = 0, first = -1, first_key = 0;
	uint64_t words[2] = {(uint32_t)color, (uint32_t)key};
	if (!exchange(parent, words, 2))
		return ncclRemoteError;
	for (int other = 0; other < parent->ranks && color >= 0; other++) {
		const uint64_t *theirs = gm_nccl_slot(&parent->segment, other)->words;
		int their_key = (int)(uint32_t)theirs[1];
		if ((int)(uint32_t)theirs[0] != color)
			continue;
		ranks++;
		/* By key, then by rank in the parent. */
		if (their_key < key || (their_key == key && other < parent->rank))
			rank++;
		if (first < 0 || their_key < first_key) {
			first = other;
			first_key = their_key;
		}
	}
	if (!exchanged(parent))
		return ncclRemoteError;
	struct gm_nccl_id id = {0};
	ncclResult_t code = ncclSuccess;
	if (first == parent->rank && ranks > 1)
		code = gm_nccl_id_make(&id);
	uint64_t packed[sizeof(id) / sizeof(uint64_t)];
	memcpy(packed, &id, sizeof(id));
	if (!exchange(parent, packed, sizeof(packed) / sizeof(packed[0])))
		return ncclRemoteError;
	if (color >= 0)
		memcpy(&id, gm_nccl_slot(&parent->segment, first)->words, sizeof(id));
	if (!exchanged(parent))
		return ncclRemoteError;
	if (code == ncclSuccess && color >= 0) {
		child->ranks = ranks;
		child->rank = rank;
		child->id = id;
	}
	return code;
}
