/*
 * Communicators: how they are created, their thread, and how they end.
 *
 * The thread executes the batches in the order in which they were queued, each after the earlier
 * work on its streams. When a collective fails (a peer died, calls that do not match), its work
 * stays in progress until the program aborts the communicator, like a hanging kernel of NCCL:
 * ncclCommGetAsyncError reports it, and PyTorch's watchdog calls that function.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/nccl/nccl.h"

#define COMM UINT64_C(0x006d6f636c636e47)

bool gm_nccl_comm_valid(const struct ncclComm *comm)
{
	return comm && comm->magic == COMM && !gm_sim_forked();
}

struct ncclComm *gm_nccl_comm_new(int ranks, int rank, const ncclConfig_t *config)
{
	struct ncclComm *comm = calloc(1, sizeof(*comm));
	if (!comm)
		return NULL;
	comm->magic = COMM;
	comm->ranks = ranks;
	comm->rank = rank;
	comm->device = gm_sim_current_index();
	comm->nonblocking = config && config->size >= sizeof(*config) && config->blocking == 0;
	pthread_mutex_init(&comm->lock, NULL);
	pthread_cond_init(&comm->changed, NULL);
	return comm;
}

/*
 * Device memory that NCCL itself uses, outside PyTorch: for each channel's connection the buffers
 * of its three protocols (NCCL_BUFFSIZE 4 MiB, LL 512 KiB, LL128 4.7 MiB; src/include/device.h of
 * 2.28), for 16 channels if the peers' link is NVLink, otherwise for 2. An estimate;
 * GPUMEM_SIM_NCCL=MIB sets it.
 */
static uint64_t own_share(const struct ncclComm *comm)
{
	const char *set = getenv("GPUMEM_SIM_NCCL");
	if (set && *set) {
		char *end;
		unsigned long long mib = strtoull(set, &end, 10);
		if (!*end && mib < 1 << 20)
			return (uint64_t)mib << 20;
		gm_sim_say(
		        "GPUMEM_SIM_NCCL='%.32s': not a number of MiB: the estimate is taken", set);
	}
	if (comm->ranks < 2)
		return 0;
	struct gm_sim_device *device = gm_sim_device_facts(comm->device);
	bool nvlink = device && device->choice.profile.peers == GM_SIM_NVLINK;
	return (uint64_t)(nvlink ? 16 : 2) * ((4 << 20) + (512 << 10) + 4915200);
}

static ncclResult_t come_to_be(struct ncclComm *comm)
{
	ncclResult_t code = ncclSuccess;
	if (!comm->alone)
		code = gm_nccl_join(comm, &comm->id);
	if (code != ncclSuccess)
		return code;
	comm->device_bytes = own_share(comm);
	struct gm_sim_device *device = gm_sim_device(comm->device);
	if (!device)
		return gm_nccl_fail(comm, ncclUnhandledCudaError, "no device %d", comm->device);
	if (!gm_sim_memory_outside(device, (int64_t)comm->device_bytes)) {
		comm->device_bytes = 0;
		return gm_nccl_fail(comm, ncclUnhandledCudaError,
		        "Cuda failure 2 'out of memory': no room on device %d for NCCL's own "
		        "buffers",
		        comm->device);
	}
	return ncclSuccess;
}

static void free_batch(struct gm_nccl_batch *batch)
{
	gm_sim_works_clear(&batch->before);
	free(batch->calls);
	free(batch);
}

static void *thread_of(void *data)
{
	struct ncclComm *comm = data;
	gm_sim_set_current_index(comm->device);
	ncclResult_t code = come_to_be(comm);
	pthread_mutex_lock(&comm->lock);
	int none = ncclSuccess;
	if (code != ncclSuccess)
		atomic_compare_exchange_strong(&comm->error, &none, code);
	atomic_store(&comm->ready, true);
	pthread_cond_broadcast(&comm->changed);
	for (;;) {
		while (!comm->first && !comm->ending)
			pthread_cond_wait(&comm->changed, &comm->lock);
		struct gm_nccl_batch *batch = comm->first;
		if (!batch)
			break;
		comm->first = batch->next;
		comm->busy = true;
		pthread_mutex_unlock(&comm->lock);
		gm_sim_works_wait(&batch->before);
		bool good = !atomic_load(&comm->aborted) && !atomic_load(&comm->error) &&
		            gm_nccl_run(comm, batch);
		if (!good && !atomic_load(&comm->aborted) && comm->segment.header) {
			/* The others cannot continue either. */
			atomic_store(&gm_nccl_slot(&comm->segment, comm->rank)->state, 3);
			gm_nccl_ring(&comm->segment);
		}
		while (!good && !atomic_load(&comm->aborted)) {
			struct timespec pause = {0, 20000000};
			nanosleep(&pause, NULL);
		}
		gm_sim_work_finish(batch->work);
		free_batch(batch);
		pthread_mutex_lock(&comm->lock);
		comm->busy = false;
		pthread_cond_broadcast(&comm->changed);
	}
	pthread_mutex_unlock(&comm->lock);
	return NULL;
}

ncclResult_t gm_nccl_comm_start(struct ncclComm *comm)
{
	if (comm->alone) {
		ncclResult_t code = come_to_be(comm);
		atomic_store(&comm->ready, true);
		return code;
	}
	/* Signals are left to the program's own threads. */
	sigset_t all, before;
	pthread_attr_t attributes;
	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 512 << 10);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int code = pthread_create(&comm->thread, &attributes, thread_of, comm);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (code)
		return gm_nccl_fail(comm, ncclSystemError, "no thread: %s", strerror(code));
	pthread_setname_np(comm->thread, "gpumem-sim-nccl");
	comm->threaded = true;
	return ncclSuccess;
}

ncclResult_t gm_nccl_comm_wait_ready(struct ncclComm *comm)
{
	pthread_mutex_lock(&comm->lock);
	while (!atomic_load(&comm->ready))
		pthread_cond_wait(&comm->changed, &comm->lock);
	pthread_mutex_unlock(&comm->lock);
	return (ncclResult_t)atomic_load(&comm->error);
}

void gm_nccl_comm_queue(struct ncclComm *comm, struct gm_nccl_batch *batch)
{
	if (comm->alone) {
		gm_sim_works_wait(&batch->before);
		gm_nccl_run_alone(comm, batch);
		gm_sim_work_finish(batch->work);
		free_batch(batch);
		return;
	}
	pthread_mutex_lock(&comm->lock);
	batch->next = NULL;
	if (comm->first)
		comm->last->next = batch;
	else
		comm->first = batch;
	comm->last = batch;
	pthread_cond_broadcast(&comm->changed);
	pthread_mutex_unlock(&comm->lock);
}

void gm_nccl_comm_drain(struct ncclComm *comm)
{
	pthread_mutex_lock(&comm->lock);
	while (comm->threaded && (comm->first || comm->busy) && !atomic_load(&comm->error) &&
	        !atomic_load(&comm->aborted)) {
		/* The thread reports an error without a message. */
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += 1;
		pthread_cond_timedwait(&comm->changed, &comm->lock, &until);
	}
	pthread_mutex_unlock(&comm->lock);
}

void gm_nccl_comm_end(struct ncclComm *comm, bool abort)
{
	if (!abort)
		gm_nccl_comm_drain(comm);
	if (abort || atomic_load(&comm->error))
		atomic_store(&comm->aborted, true);
	if (atomic_load(&comm->aborted) && comm->segment.header)
		gm_nccl_ring(&comm->segment);
	pthread_mutex_lock(&comm->lock);
	comm->ending = true;
	pthread_cond_broadcast(&comm->changed);
	pthread_mutex_unlock(&comm->lock);
	if (comm->threaded)
		pthread_join(comm->thread, NULL);
	gm_nccl_leave(comm);
	struct gm_sim_device *device = gm_sim_device_facts(comm->device);
	if (device && comm->device_bytes)
		gm_sim_memory_outside(device, -(int64_t)comm->device_bytes);
	comm->magic = 0;
	pthread_mutex_destroy(&comm->lock);
	pthread_cond_destroy(&comm->changed);
	free(comm);
}
