/*
 * Memory that the ranks of a communicator share: a memory file, found through the unique id, and
 * waiting on it.
 *
 * The id names a process and its file descriptor; the others open that through /proc. So there is
 * no name in the file system, no server and nothing to clean up. The process that created the id
 * must exist until all have joined, as with NCCL's own bootstrap. A pidfd shows whether a rank has
 * died.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/nccl/nccl.h"

#define MAGIC UINT64_C(0x6c63636e6d697367) /* "gsimnccl" */

enum {
	HEADER = 4096,
	SLOT = 4096, /* of a rank, before its chunks */
	RANK = SLOT + GM_NCCL_CHUNKS * (int)sizeof(struct gm_nccl_chunk),
	MAIL = GM_NCCL_RANKS * GM_NCCL_RANKS * (int)sizeof(struct gm_nccl_mail),
	RANKS = HEADER + ((MAIL + 4095) & ~4095), /* the offset of the ranks' parts */
};

_Static_assert(sizeof(struct gm_nccl_slot) <= SLOT, "a slot has its room");

ncclResult_t gm_nccl_id_make(struct gm_nccl_id *id)
{
	memset(id, 0, sizeof(*id));
	int file = memfd_create("gpumem-sim-nccl", MFD_CLOEXEC);
	off_t size = RANKS + (off_t)RANK * GM_NCCL_RANKS;
	struct stat status;
	void *at = MAP_FAILED;
	if (file >= 0 && ftruncate(file, size) == 0 && fstat(file, &status) == 0)
		at = mmap(NULL, HEADER, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (at == MAP_FAILED || getrandom(&id->cookie, sizeof(id->cookie), 0) < 0) {
		if (file >= 0)
			close(file);
		return gm_nccl_fail(NULL, ncclSystemError, "no memory file for a unique id: %s",
		        strerror(errno));
	}
	struct gm_nccl_header *header = at;
	header->cookie = id->cookie;
	header->creator = (uint32_t)getpid();
	header->magic = MAGIC;
	munmap(at, HEADER);
	strcpy(id->mark, "gpumem-sim-nccl");
	id->inode = status.st_ino;
	id->process = (uint32_t)getpid();
	id->file = file; /* stays open: others open it through /proc */
	gethostname(id->host, sizeof(id->host) - 1);
	return ncclSuccess;
}

struct gm_nccl_slot *gm_nccl_slot(struct gm_nccl_segment *segment, int rank)
{
	return (void *)((char *)segment->header + RANKS + (size_t)rank * RANK);
}

struct gm_nccl_chunk *gm_nccl_chunks(struct gm_nccl_segment *segment, int rank)
{
	return (void *)((char *)gm_nccl_slot(segment, rank) + SLOT);
}

struct gm_nccl_mail *gm_nccl_mail(struct gm_nccl_segment *segment, int from, int to)
{
	return (struct gm_nccl_mail *)(void *)((char *)segment->header + HEADER) +
	       from * GM_NCCL_RANKS + to;
}

void gm_nccl_ring(struct gm_nccl_segment *segment)
{
	struct gm_nccl_header *header = segment->header;
	atomic_fetch_add(&header->bell, 1);
	if (atomic_load(&header->waiting))
		syscall(SYS_futex, &header->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool gone(struct gm_nccl_segment *segment, int rank)
{
	struct gm_nccl_slot *slot = gm_nccl_slot(segment, rank);
	uint32_t state = atomic_load(&slot->state);
	if (state == 3)
		return true;
	if (rank == segment->rank || state < 2)
		return false;
	if (segment->watch[rank] < 0)
		segment->watch[rank] = (int)syscall(SYS_pidfd_open, slot->process, 0);
	if (segment->watch[rank] < 0) /* no more descriptors, or an old kernel */
		return errno == ESRCH || (kill((pid_t)slot->process, 0) != 0 && errno == ESRCH);
	struct pollfd poll_it = {.fd = segment->watch[rank], .events = POLLIN};
	return poll(&poll_it, 1, 0) > 0;
}

bool gm_nccl_wait(struct ncclComm *comm, gm_nccl_condition *met, gm_nccl_needs *needs, void *data)
{
	struct gm_nccl_segment *segment = &comm->segment;
	struct gm_nccl_header *header = segment->header;
	for (unsigned tries = 0;; tries++) {
		uint32_t bell = atomic_load(&header->bell);
		if (met(comm, data))
			return true;
		if (atomic_load(&comm->aborted))
			return false;
		/* From the second round on, some 50 ms apart, the others are checked. */
		for (int rank = 0; tries && rank < segment->ranks; rank++) {
			if (!needs(comm, rank, data) || !gone(segment, rank))
				continue;
			/* It may have finished its part just before. */
			if (met(comm, data))
				return true;
			if (atomic_load(&comm->error) == ncclSuccess) {
				gm_nccl_fail(comm, ncclRemoteError, "rank %d of %d: %s", rank,
				        segment->ranks,
				        atomic_load(&gm_nccl_slot(segment, rank)->state) == 3
				                ? "it aborted the communicator"
				                : "its process is gone");
				atomic_store(&comm->error, ncclRemoteError);
			}
			/* As on a GPU, the collective stays in progress until the program aborts
			 * it. */
			if (atomic_load(&comm->ready)) {
				while (!atomic_load(&comm->aborted)) {
					struct timespec pause = {0, 20000000};
					nanosleep(&pause, NULL);
				}
			}
			return false;
		}
		struct timespec limit = {0, tries ? 200000000 : 50000000};
		atomic_fetch_add(&header->waiting, 1);
		syscall(SYS_futex, &header->bell, FUTEX_WAIT, bell, &limit, NULL, 0);
		atomic_fetch_sub(&header->waiting, 1);
	}
}

static uint64_t number_of(struct gm_nccl_slot *slot, enum gm_nccl_mark mark)
{
	return atomic_load(mark == GM_NCCL_POSTED ? &slot->posted
	                   : mark == GM_NCCL_HALF ? &slot->half
	                                          : &slot->finished);
}

struct goal {
	enum gm_nccl_mark mark;
	uint64_t number;
};

static bool lacks(struct ncclComm *comm, int rank, void *data)
{
	const struct goal *goal = data;
	return number_of(gm_nccl_slot(&comm->segment, rank), goal->mark) < goal->number;
}

static bool reached(struct ncclComm *comm, void *data)
{
	for (int rank = 0; rank < comm->ranks; rank++)
		if (lacks(comm, rank, data))
			return false;
	return true;
}

bool gm_nccl_wait_all(struct ncclComm *comm, enum gm_nccl_mark mark, uint64_t number)
{
	struct goal goal = {mark, number};
	return gm_nccl_wait(comm, reached, lacks, &goal);
}

static bool not_joined(struct ncclComm *comm, int rank, void *data)
{
	return atomic_load(&gm_nccl_slot(&comm->segment, rank)->state) < 2;
}

static bool all_joined(struct ncclComm *comm, void *data)
{
	for (int rank = 0; rank < comm->ranks; rank++)
		if (not_joined(comm, rank, data))
			return false;
	return true;
}

/* While ranks are missing, any present rank that dies is noticed too: its peers will not come
 * either. */
static bool anybody(struct ncclComm *comm, int rank, void *data)
{
	return true;
}

static bool is_ours(const struct gm_nccl_id *id)
{
	return memcmp(id->mark, "gpumem-sim-nccl", 16) == 0;
}

static ncclResult_t open_segment(struct ncclComm *comm, const struct gm_nccl_id *id)
{
	struct gm_nccl_segment *segment = &comm->segment;
	char path[64], host[64] = "";
	if (!is_ours(id))
		return gm_nccl_fail(comm, ncclInvalidArgument,
		        "the unique id was not made by ncclGetUniqueId on a simulated device");
	gethostname(host, sizeof(host) - 1);
	if (strncmp(host, id->host, sizeof(host)) != 0)
		return gm_nccl_fail(comm, ncclSystemError,
		        "the unique id is of host %.63s, this is %.63s: simulated ranks must be on "
		        "one machine",
		        id->host, host);
	snprintf(path, sizeof(path), "/proc/%u/fd/%d", id->process, id->file);
	segment->file = open(path, O_RDWR | O_CLOEXEC);
	segment->size = RANKS + (size_t)RANK * (size_t)comm->ranks;
	struct stat status;
	void *at = MAP_FAILED;
	if (segment->file >= 0 && fstat(segment->file, &status) == 0 &&
	        status.st_ino == id->inode && (uint64_t)status.st_size >= segment->size)
		at = mmap(NULL, segment->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		        segment->file, 0);
	if (at == MAP_FAILED)
		return gm_nccl_fail(comm, ncclRemoteError,
		        "process %u, which made the unique id, is gone", id->process);
	madvise(at, segment->size, MADV_DONTFORK);
	segment->header = at;
	if (segment->header->magic != MAGIC || segment->header->cookie != id->cookie)
		return gm_nccl_fail(comm, ncclInvalidArgument, "the unique id does not fit");
	return ncclSuccess;
}

void gm_nccl_id_close(const struct gm_nccl_id *id)
{
	struct stat status;
	if (is_ours(id) && id->process == (uint32_t)getpid() && fstat(id->file, &status) == 0 &&
	        status.st_ino == id->inode)
		close(id->file);
}

ncclResult_t gm_nccl_join(struct ncclComm *comm, const struct gm_nccl_id *id)
{
	struct gm_nccl_segment *segment = &comm->segment;
	segment->rank = comm->rank;
	segment->ranks = comm->ranks;
	segment->file = -1;
	for (int i = 0; i < GM_NCCL_RANKS; i++)
		segment->watch[i] = -1;
	struct gm_sim_device *device = gm_sim_device(comm->device);
	if (!device)
		return gm_nccl_fail(comm, ncclUnhandledCudaError, "no device %d", comm->device);
	ncclResult_t code = open_segment(comm, id);
	if (code != ncclSuccess)
		return code;
	uint32_t ranks = 0;
	if (!atomic_compare_exchange_strong(
	            &segment->header->ranks, &ranks, (uint32_t)comm->ranks) &&
	        ranks != (uint32_t)comm->ranks)
		return gm_nccl_fail(comm, ncclInvalidArgument,
		        "rank %d says that there are %d ranks, another said %u", comm->rank,
		        comm->ranks, ranks);
	struct gm_nccl_slot *slot = gm_nccl_slot(segment, comm->rank);
	uint32_t state = 0;
	if (!atomic_compare_exchange_strong(&slot->state, &state, 1))
		return gm_nccl_fail(comm, ncclInvalidArgument, "rank %d joined twice", comm->rank);
	slot->process = (uint32_t)getpid();
	gm_sim_origin_of(device, &slot->origin);
	slot->machine = gm_sim_machine();
	slot->physical = device->physical;
	atomic_store(&slot->state, 2);
	gm_nccl_ring(segment);
	if (!gm_nccl_wait(comm, all_joined, anybody, NULL))
		return atomic_load(&comm->error) ? (ncclResult_t)atomic_load(&comm->error)
		                                 : ncclInternalError;
	if (id->process == (uint32_t)getpid() && !atomic_exchange(&segment->header->closed, 1))
		gm_nccl_id_close(id);
	for (int rank = 0; rank < comm->ranks; rank++) {
		struct gm_nccl_slot *other = gm_nccl_slot(segment, rank);
		bool same = other->machine ? other->machine == slot->machine &&
		                                     other->physical == slot->physical
		                           : other->process == slot->process &&
		                                     other->origin.device == slot->origin.device;
		if (rank != comm->rank && same)
			return gm_nccl_fail(comm, ncclInvalidUsage,
			        "Duplicate GPU detected : rank %d and rank %d both on CUDA device "
			        "%u "
			        "(gpumem run --sim=PROFILExN gives N devices)",
			        comm->rank, rank, device->physical);
		segment->devices[rank] = gm_sim_foreign_take(&other->origin);
		if (!segment->devices[rank])
			return gm_nccl_fail(comm, ncclSystemError,
			        "rank %d: the memory of its device cannot be mapped: is it gone, "
			        "or "
			        "another user's?",
			        rank);
	}
	return ncclSuccess;
}

void gm_nccl_leave(struct ncclComm *comm)
{
	struct gm_nccl_segment *segment = &comm->segment;
	if (!segment->header)
		return;
	if (atomic_load(&comm->aborted)) {
		atomic_store(&gm_nccl_slot(segment, comm->rank)->state, 3);
		gm_nccl_ring(segment);
	}
	for (int rank = 0; rank < comm->ranks; rank++) {
		gm_sim_foreign_give(segment->devices[rank]);
		if (segment->watch[rank] >= 0)
			close(segment->watch[rank]);
	}
	munmap(segment->header, segment->size);
	if (segment->file >= 0)
		close(segment->file);
	segment->header = NULL;
}
