/*
 * Devices of other processes: their memory is mapped here, so that NCCL and IPC handles copy real
 * bytes.
 *
 * A device's memory is a memfd, so a process of the same user opens it through /proc/PID/fd and
 * maps it. Its inode shows whether it is still the same file. Nothing has a name in the file
 * system, so nothing is left behind when processes die. The marks of written bytes are mapped too,
 * so a gigabyte that only kernels "computed" costs nothing here either.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/cuda/sim.h"

struct foreign {
	struct gm_sim_device device; /* first: the two are distinguished by `foreign` */
	struct gm_sim_origin origin;
	unsigned uses;
	struct foreign *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct foreign *all;
static _Atomic unsigned count; /* so that a program without any takes no lock */

void gm_sim_foreign_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

void gm_sim_origin_of(const struct gm_sim_device *device, struct gm_sim_origin *ret)
{
	if (device->foreign) {
		*ret = ((const struct foreign *)(const void *)device)->origin;
		return;
	}
	*ret = (struct gm_sim_origin){.process = (uint32_t)getpid(),
	        .memory = device->memory,
	        .marks = device->marks,
	        .device = device->index,
	        .inode = device->inode,
	        .span = device->span};
}

static int open_there(uint32_t process, int file)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/fd/%d", process, file);
	return open(path, O_RDWR | O_CLOEXEC);
}

static bool map_foreign(struct foreign *foreign)
{
	struct gm_sim_device *device = &foreign->device;
	const struct gm_sim_origin *origin = &foreign->origin;
	struct stat status;
	device->memory = open_there(origin->process, origin->memory);
	device->marks = open_there(origin->process, origin->marks);
	if (device->memory < 0 || device->marks < 0 || fstat(device->memory, &status) != 0 ||
	        status.st_ino != origin->inode || (uint64_t)status.st_size != origin->span ||
	        fstat(device->marks, &status) != 0 ||
	        (uint64_t)status.st_size != gm_sim_marks_size(origin->span))
		return false;
	void *base = mmap(NULL, origin->span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
	        device->memory, 0);
	if (base == MAP_FAILED)
		return false;
	device->base = base;
	device->span = origin->span;
	madvise(base, device->span, MADV_DONTDUMP);
	madvise(base, device->span, MADV_DONTFORK);
	return gm_sim_map_marks(device, origin->span);
}

static void unmap(struct foreign *foreign)
{
	struct gm_sim_device *device = &foreign->device;
	if (device->written)
		munmap((void *)device->written, gm_sim_marks_size(device->span));
	if (device->base)
		munmap(device->base, device->span);
	if (device->memory >= 0)
		close(device->memory);
	if (device->marks >= 0)
		close(device->marks);
	pthread_mutex_destroy(&device->lock);
	free(foreign);
}

struct gm_sim_device *gm_sim_foreign_take(const struct gm_sim_origin *origin)
{
	if (origin->process == (uint32_t)getpid()) {
		struct gm_sim_device *own = gm_sim_device((int)origin->device);
		return own && own->inode == origin->inode ? own : NULL;
	}
	pthread_mutex_lock(&lock);
	struct foreign *foreign = all;
	while (foreign && (foreign->origin.process != origin->process ||
	                          foreign->origin.inode != origin->inode))
		foreign = foreign->next;
	if (!foreign) {
		foreign = calloc(1, sizeof(*foreign));
		if (foreign) {
			foreign->origin = *origin;
			foreign->device.foreign = true;
			foreign->device.index = origin->device;
			foreign->device.memory = foreign->device.marks = -1;
			foreign->device.account = &gpumem_sim_account.device[0];
			pthread_mutex_init(&foreign->device.lock, NULL);
			if (map_foreign(foreign)) {
				foreign->next = all;
				all = foreign;
				atomic_fetch_add(&count, 1);
			} else {
				unmap(foreign);
				foreign = NULL;
			}
		}
	}
	if (foreign)
		foreign->uses++;
	pthread_mutex_unlock(&lock);
	return foreign ? &foreign->device : NULL;
}

void gm_sim_foreign_give(struct gm_sim_device *device)
{
	if (!device || !device->foreign)
		return;
	struct foreign *foreign = (struct foreign *)(void *)device;
	pthread_mutex_lock(&lock);
	bool last = --foreign->uses == 0;
	if (last) {
		struct foreign **at = &all;
		while (*at != foreign)
			at = &(*at)->next;
		*at = foreign->next;
		atomic_fetch_sub(&count, 1);
	}
	pthread_mutex_unlock(&lock);
	if (last)
		unmap(foreign);
}

struct gm_sim_device *gm_sim_foreign_of(const void *address)
{
	if (!atomic_load_explicit(&count, memory_order_acquire))
		return NULL;
	pthread_mutex_lock(&lock);
	struct foreign *foreign = all;
	while (foreign &&
	        (uintptr_t)address - (uintptr_t)foreign->device.base >= foreign->device.span)
		foreign = foreign->next;
	pthread_mutex_unlock(&lock);
	return foreign ? &foreign->device : NULL;
}
