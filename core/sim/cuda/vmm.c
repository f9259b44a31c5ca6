/*
 * The driver's virtual-memory calls, which PyTorch's expandable segments use.
 *
 * A physical allocation (cuMemCreate) is a part of its device's memory file and counts against the
 * device's capacity. A reservation is address space of this process. Mapping an allocation maps
 * that part of the file there, so a debugger that reads the address sees the same bytes. Code that
 * copies bytes uses the device's own mapping (data.c) and asks mapped.c which part of it an address
 * stands for.
 *
 * A mapping becomes accessible by cuMemSetAccess, as on a GPU: before, copies to it are refused.
 */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/mapped.h"
#include "sim/cuda/sim.h"

/* Guarded by the lock of gm_sim_mapped, as that is. */
static struct gm_sim_ranges reserved;
static struct gm_sim_physical *allocations;

/* The addresses of reservations: below the devices, the same in each run if they are free. */
#define FIRST UINT64_C(0x600000000000)
#define LAST UINT64_C(0x6d0000000000)

static CUresult not_usable(void)
{
	return gm_sim_forked() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_NO_DEVICE;
}

static bool whole_pages(uint64_t value)
{
	return value && value % GM_SIM_PAGE == 0;
}

/* A live handle; the caller holds the lock. */
static struct gm_sim_physical *physical_of(CUmemGenericAllocationHandle handle)
{
	for (struct gm_sim_physical *physical = allocations; physical; physical = physical->next)
		if (physical == (struct gm_sim_physical *)(uintptr_t)handle)
			return physical->handles ? physical : NULL;
	return NULL;
}

/* Frees an allocation without a handle and without a mapping. */
static void drop(struct gm_sim_physical *physical)
{
	if (physical->handles || physical->mappings)
		return;
	if (physical->imported)
		gm_sim_foreign_give(physical->device);
	else
		gm_sim_memory_give(physical->device, physical->at);
	struct gm_sim_physical **at = &allocations;
	while (*at != physical)
		at = &(*at)->next;
	*at = physical->next;
	free(physical);
}

/* What PyTorch may request of an allocation: plain device memory, perhaps exportable as a file
 * descriptor. */
static CUresult check_properties(const CUmemAllocationProp *p)
{
	if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!gm_sim_device_facts(p->location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	if (p->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuMemGetAllocationGranularity(
        size_t *ret, const CUmemAllocationProp *p, CUmemAllocationGranularity_flags option)
{
	CUresult code = check_properties(p);
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*ret = GM_SIM_PAGE;
	return code;
}

GM_SIM_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *ret, size_t size,
        const CUmemAllocationProp *p, unsigned long long flags)
{
	CUresult code = check_properties(p);
	if (code != CUDA_SUCCESS)
		return code;
	if (!ret || !whole_pages(size) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	struct gm_sim_device *device = gm_sim_device(p->location.id);
	if (!device)
		return not_usable();
	struct gm_sim_physical *physical = calloc(1, sizeof(*physical));
	if (!physical)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (gm_sim_memory_take_physical(device, size, &physical->at) != cudaSuccess) {
		free(physical);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	physical->device = device;
	physical->size = size;
	physical->properties = *p;
	physical->handles = 1;
	pthread_mutex_lock(&gm_sim_mapped.lock);
	physical->next = allocations;
	allocations = physical;
	pthread_mutex_unlock(&gm_sim_mapped.lock);
	*ret = (CUmemGenericAllocationHandle)(uintptr_t)physical;
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	if (gm_sim_forked())
		return not_usable();
	pthread_mutex_lock(&gm_sim_mapped.lock);
	struct gm_sim_physical *physical = physical_of(handle);
	if (physical) {
		physical->handles--;
		drop(physical);
	}
	pthread_mutex_unlock(&gm_sim_mapped.lock);
	return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

GM_SIM_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(
        CUmemAllocationProp *ret, CUmemGenericAllocationHandle handle)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&gm_sim_mapped.lock);
	struct gm_sim_physical *physical = physical_of(handle);
	if (physical)
		*ret = physical->properties;
	pthread_mutex_unlock(&gm_sim_mapped.lock);
	return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

GM_SIM_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret, void *address)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&gm_sim_mapped.lock);
	const struct gm_sim_range *range =
	        gm_sim_ranges_find(&gm_sim_mapped.ranges, (uintptr_t)address);
	if (range) {
		struct gm_sim_physical *physical = gm_sim_mapping_of(range)->physical;
		physical->handles++;
		*ret = (CUmemGenericAllocationHandle)(uintptr_t)physical;
	}
	pthread_mutex_unlock(&gm_sim_mapped.lock);
	return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Maps empty address space, excluded from cores and forked children, over the range. */
static bool blank(void *at, uint64_t size, int flags)
{
	void *got = mmap(
	        at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
	if (got == MAP_FAILED)
		return false;
	if (got != at) {
		munmap(got, size);
		return false;
	}
	madvise(at, size, MADV_DONTDUMP);
	madvise(at, size, MADV_DONTFORK);
	return true;
}

GM_SIM_EXPORT CUresult cuMemAddressReserve(
        CUdeviceptr *ret, size_t size, size_t alignment, CUdeviceptr wish, unsigned long long flags)
{
	if (!gm_sim_device_count())
		return not_usable();
	if (!ret || !whole_pages(size) || size > LAST - FIRST || flags ||
	        (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (alignment < GM_SIM_PAGE)
		alignment = GM_SIM_PAGE;
	uint64_t from = FIRST, address;
	bool done = false;
	pthread_mutex_lock(&gm_sim_mapped.lock);
	/* If something else is mapped there, the next gap after it is tried; a few times. */
	for (int try = 0; try < 64 && !done; try++) {
		if (!gm_sim_ranges_take(&reserved, from, LAST, size, alignment, 0, &address))
			break;
		done = blank((void *)(uintptr_t)address, size, MAP_FIXED_NOREPLACE);
		if (!done) {
			struct gm_sim_range range;
			gm_sim_ranges_remove(&reserved, address, &range);
			from = address + (UINT64_C(1) << 36);
		}
	}
	pthread_mutex_unlock(&gm_sim_mapped.lock);
	if (!done)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUdeviceptr)address;
	return CUDA_SUCCESS;
}

/* The reservation that contains the whole range; the caller holds the lock. */
static bool within_reservation(uint64_t at, uint64_t size)
{
	const struct gm_sim_range *range = gm_sim_ranges_find(&reserved, at);
	return range && size <= range->start + range->size - at;
}

GM_SIM_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
	if (gm_sim_forked())
		return not_usable();
	pthread_mutex_lock(&gm_sim_mapped.lock);
	const struct gm_sim_range *found = gm_sim_ranges_find(&reserved, address);
	bool right = found && found->start == address && found->size == size;
	/* Allocations that are still mapped there would lose their address. */
	for (size_t i = 0; i < gm_sim_mapped.ranges.count && right; i++)
		right = gm_sim_mapped.ranges.items[i].start + gm_sim_mapped.ranges.items[i].size <=
		                address ||
		        gm_sim_mapped.ranges.items[i].start >= address + size;
	struct gm_sim_range range;
	if (right && gm_sim_ranges_remove(&reserved, address, &range))
		munmap((void *)(uintptr_t)address, size);
	pthread_mutex_unlock(&gm_sim_mapped.lock);
	return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

GM_SIM_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
        CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	if (gm_sim_forked())
		return not_usable();
	if (!whole_pages(size) || address % GM_SIM_PAGE || offset % GM_SIM_PAGE || flags)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult code = CUDA_ERROR_INVALID_VALUE;
	struct gm_sim_mapping *mapping = calloc(1, sizeof(*mapping));
	if (!mapping)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&gm_sim_mapped.lock);
	struct gm_sim_physical *physical = physical_of(handle);
	if (!physical || offset > physical->size || size > physical->size - offset ||
	        !within_reservation(address, size) ||
	        !gm_sim_ranges_add(&gm_sim_mapped.ranges, address, size, (uintptr_t)mapping))
		goto out;
	void *at = (void *)(uintptr_t)address;
	off_t in_file = (off_t)((uint64_t)((unsigned char *)physical->at - physical->device->base) +
	                        offset);
	if (mmap(at, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
	            physical->device->memory, in_file) == MAP_FAILED) {
		struct gm_sim_range range;
		gm_sim_ranges_remove(&gm_sim_mapped.ranges, address, &range);
		code = CUDA_ERROR_OUT_OF_MEMORY;
		goto out;
	}
	madvise(at, size, MADV_DONTDUMP);
	madvise(at, size, MADV_DONTFORK);
	mapping->physical = physical;
	mapping->offset = offset;
	physical->mappings++;
	atomic_fetch_add(&gm_sim_mapped.count, 1);
	mapping = NULL;
	gm_sim_graph_memory(at, size, true);
	code = CUDA_SUCCESS;
out:
	pthread_mutex_unlock(&gm_sim_mapped.lock);
	free(mapping);
	return code;
}

/*
 * Whether [address, address + size) consists of whole mappings without gaps; *ret_first is the
 * index of the first, *ret_count their number. The caller holds the lock.
 */
static bool whole_mappings(uint64_t address, uint64_t size, size_t *ret_first, size_t *ret_count)
{
	const struct gm_sim_range *range = gm_sim_ranges_find(&gm_sim_mapped.ranges, address);
	if (!range || range->start != address || !size)
		return false;
	uint64_t at = address, end = address + size;
	*ret_first = (size_t)(range - gm_sim_mapped.ranges.items);
	size_t i = *ret_first;
	for (; i < gm_sim_mapped.ranges.count && at < end &&
	        gm_sim_mapped.ranges.items[i].start == at;
	        i++)
		at += gm_sim_mapped.ranges.items[i].size;
	*ret_count = i - *ret_first;
	return at == end;
}

GM_SIM_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
	if (gm_sim_forked())
		return not_usable();
	size_t first, count;
	pthread_mutex_lock(&gm_sim_mapped.lock);
	bool right = whole_mappings(address, size, &first, &count) &&
	             blank((void *)(uintptr_t)address, size, MAP_FIXED);
	while (right && count--) {
		struct gm_sim_range range;
		struct gm_sim_mapping *mapping =
		        gm_sim_mapping_of(&gm_sim_mapped.ranges.items[first]);
		gm_sim_ranges_remove(
		        &gm_sim_mapped.ranges, gm_sim_mapped.ranges.items[first].start, &range);
		mapping->physical->mappings--;
		drop(mapping->physical);
		gm_sim_graph_memory((const void *)(uintptr_t)range.start, range.size, false);
		free(mapping);
		atomic_fetch_sub(&gm_sim_mapped.count, 1);
	}
	pthread_mutex_unlock(&gm_sim_mapped.lock);
	return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

GM_SIM_EXPORT CUresult cuMemSetAccess(
        CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
{
	if (gm_sim_forked())
		return not_usable();
	if (!access || !count)
		return CUDA_ERROR_INVALID_VALUE;
	/* Access of other devices is not separate: one access mode for all. */
	bool readable = false;
	for (size_t i = 0; i < count; i++) {
		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		        !gm_sim_device_facts(access[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
		readable |= access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
	}
	size_t first, n;
	pthread_mutex_lock(&gm_sim_mapped.lock);
	bool right = whole_mappings(address, size, &first, &n) &&
	             mprotect((void *)(uintptr_t)address, size,
	                     readable ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
	for (size_t i = 0; right && i < n; i++)
		gm_sim_mapping_of(&gm_sim_mapped.ranges.items[first + i])->accessible = readable;
	pthread_mutex_unlock(&gm_sim_mapped.lock);
	return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

GM_SIM_EXPORT CUresult cuMemGetAccess(
        unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
	if (!flags || !location || !gm_sim_device_facts(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	struct gm_sim_view view;
	*flags = gm_sim_vmm_find((const void *)(uintptr_t)address, &view)
	                 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	                 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

/*
 * Sharing between processes: a descriptor of a small file that names the device and offset of the
 * allocation (foreign.c). A program passes it to another process like any descriptor; the
 * allocation must exist as long.
 */
struct exported {
	char mark[16];
	struct gm_sim_origin origin;
	uint64_t offset, size;
	CUmemAllocationProp properties;
};

static const char exported_mark[16] = "gpumem-sim-piece";

GM_SIM_EXPORT CUresult cuMemExportToShareableHandle(void *ret, CUmemGenericAllocationHandle handle,
        CUmemAllocationHandleType type, unsigned long long flags)
{
	if (gm_sim_forked())
		return not_usable();
	if (!ret || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	struct exported exported = {0};
	pthread_mutex_lock(&gm_sim_mapped.lock);
	struct gm_sim_physical *physical = physical_of(handle);
	bool asked = physical && physical->properties.requestedHandleTypes & type;
	if (asked) {
		memcpy(exported.mark, exported_mark, sizeof(exported.mark));
		gm_sim_origin_of(physical->device, &exported.origin);
		exported.offset =
		        (uint64_t)((unsigned char *)physical->at - physical->device->base);
		exported.size = physical->size;
		exported.properties = physical->properties;
	}
	pthread_mutex_unlock(&gm_sim_mapped.lock);
	if (!asked)
		return CUDA_ERROR_INVALID_VALUE;
	int file = memfd_create("gpumem-sim-handle", MFD_CLOEXEC);
	if (file < 0 || write(file, &exported, sizeof(exported)) != (ssize_t)sizeof(exported)) {
		if (file >= 0)
			close(file);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	*(int *)ret = file;
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuMemImportFromShareableHandle(
        CUmemGenericAllocationHandle *ret, void *handle, CUmemAllocationHandleType type)
{
	if (gm_sim_forked() || !gm_sim_current())
		return not_usable();
	struct exported exported;
	int file = (int)(intptr_t)handle;
	if (!ret || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	        pread(file, &exported, sizeof(exported), 0) != (ssize_t)sizeof(exported) ||
	        memcmp(exported.mark, exported_mark, sizeof(exported_mark)) != 0 ||
	        !whole_pages(exported.size) || exported.offset % GM_SIM_PAGE ||
	        exported.offset > exported.origin.span ||
	        exported.size > exported.origin.span - exported.offset)
		return CUDA_ERROR_INVALID_VALUE;
	struct gm_sim_physical *physical = calloc(1, sizeof(*physical));
	struct gm_sim_device *device = physical ? gm_sim_foreign_take(&exported.origin) : NULL;
	if (!device) {
		free(physical);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*physical = (struct gm_sim_physical){.device = device,
	        .at = device->base + exported.offset,
	        .size = exported.size,
	        .properties = exported.properties,
	        .handles = 1,
	        .imported = true};
	if (device->foreign)
		device->index = (unsigned)gm_sim_current_index();
	pthread_mutex_lock(&gm_sim_mapped.lock);
	physical->next = allocations;
	allocations = physical;
	pthread_mutex_unlock(&gm_sim_mapped.lock);
	*ret = (CUmemGenericAllocationHandle)(uintptr_t)physical;
	return CUDA_SUCCESS;
}
