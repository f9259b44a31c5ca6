/*
 * The driver's virtual-memory calls, on which PyTorch's expandable segments stand.
 *
 * A physical allocation (cuMemCreate) is a piece of its device's memory file and counts against the
 * device's capacity; a reservation is address space of this process; mapping a piece maps that part
 * of the file there, so a debugger that reads the address sees the same bytes. Everything that
 * moves bytes goes through the device's own mapping (data.c) and asks here which piece an address
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
#include "sim/cuda/sim.h"

/* A physical allocation: lives while its handle or a mapping of it does. */
struct piece {
	struct gm_sim_device *device;
	void *at; /* in the device's own mapping */
	uint64_t size;
	CUmemAllocationProp properties;
	unsigned handles, mappings;
	bool imported; /* another process's: it counts there */
	struct piece *next;
};

/* One cuMemMap: the value of its range in `mapped`. */
struct mapping {
	struct piece *piece;
	uint64_t offset; /* in the piece */
	bool accessible;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gm_sim_ranges reserved, mapped;
static struct piece *pieces;
static _Atomic size_t mappings; /* so that a program without any asks no lock */

/* Where reservations are put: below the devices, the same from run to run where it is free. */
#define FIRST UINT64_C(0x600000000000)
#define LAST UINT64_C(0x6d0000000000)

void gm_sim_vmm_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

static struct mapping *mapping_of(const struct gm_sim_range *range)
{
	return (struct mapping *)(uintptr_t)range->value;
}

bool gm_sim_vmm_find(const void *address, struct gm_sim_view *ret)
{
	if (!atomic_load_explicit(&mappings, memory_order_acquire))
		return false;
	pthread_mutex_lock(&lock);
	const struct gm_sim_range *range = gm_sim_ranges_find(&mapped, (uintptr_t)address);
	bool there = range && mapping_of(range)->accessible;
	if (there) {
		const struct mapping *mapping = mapping_of(range);
		uint64_t in = (uintptr_t)address - range->start;
		ret->device = mapping->piece->device;
		ret->at = (unsigned char *)mapping->piece->at + mapping->offset + in;
		ret->size = range->size - in;
	}
	pthread_mutex_unlock(&lock);
	return there;
}

static CUresult not_usable(void)
{
	return gm_sim_forked() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_NO_DEVICE;
}

static bool whole_pages(uint64_t value)
{
	return value && value % GM_SIM_PAGE == 0;
}

/* A handle that is alive; the caller holds the lock. */
static struct piece *piece_of(CUmemGenericAllocationHandle handle)
{
	for (struct piece *piece = pieces; piece; piece = piece->next)
		if (piece == (struct piece *)(uintptr_t)handle)
			return piece->handles ? piece : NULL;
	return NULL;
}

/* Gives a piece back that neither a handle nor a mapping keeps. */
static void drop(struct piece *piece)
{
	if (piece->handles || piece->mappings)
		return;
	if (piece->imported)
		gm_sim_foreign_give(piece->device);
	else
		gm_sim_memory_give(piece->device, piece->at);
	struct piece **at = &pieces;
	while (*at != piece)
		at = &(*at)->next;
	*at = piece->next;
	free(piece);
}

/* What PyTorch may ask of an allocation: plain device memory, perhaps exportable as a file
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
	struct piece *piece = calloc(1, sizeof(*piece));
	if (!piece)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (gm_sim_memory_take_physical(device, size, &piece->at) != cudaSuccess) {
		free(piece);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	piece->device = device;
	piece->size = size;
	piece->properties = *p;
	piece->handles = 1;
	pthread_mutex_lock(&lock);
	piece->next = pieces;
	pieces = piece;
	pthread_mutex_unlock(&lock);
	*ret = (CUmemGenericAllocationHandle)(uintptr_t)piece;
	return CUDA_SUCCESS;
}

GM_SIM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	if (gm_sim_forked())
		return not_usable();
	pthread_mutex_lock(&lock);
	struct piece *piece = piece_of(handle);
	if (piece) {
		piece->handles--;
		drop(piece);
	}
	pthread_mutex_unlock(&lock);
	return piece ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

GM_SIM_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(
        CUmemAllocationProp *ret, CUmemGenericAllocationHandle handle)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	struct piece *piece = piece_of(handle);
	if (piece)
		*ret = piece->properties;
	pthread_mutex_unlock(&lock);
	return piece ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

GM_SIM_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret, void *address)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	const struct gm_sim_range *range = gm_sim_ranges_find(&mapped, (uintptr_t)address);
	if (range) {
		struct piece *piece = mapping_of(range)->piece;
		piece->handles++;
		*ret = (CUmemGenericAllocationHandle)(uintptr_t)piece;
	}
	pthread_mutex_unlock(&lock);
	return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Address space with nothing in it, left out of cores and forked children, in place of what is
 * there. */
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
	pthread_mutex_lock(&lock);
	/* Where something else of the process stands, the next gap is tried behind it; a few
	 * times. */
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
	pthread_mutex_unlock(&lock);
	if (!done)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUdeviceptr)address;
	return CUDA_SUCCESS;
}

/* The reservation that holds all of the range; the caller holds the lock. */
static bool within_reservation(uint64_t at, uint64_t size)
{
	const struct gm_sim_range *range = gm_sim_ranges_find(&reserved, at);
	return range && size <= range->start + range->size - at;
}

GM_SIM_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
	if (gm_sim_forked())
		return not_usable();
	pthread_mutex_lock(&lock);
	const struct gm_sim_range *found = gm_sim_ranges_find(&reserved, address);
	bool right = found && found->start == address && found->size == size;
	/* What is still mapped there would lose its address. */
	for (size_t i = 0; i < mapped.count && right; i++)
		right = mapped.items[i].start + mapped.items[i].size <= address ||
		        mapped.items[i].start >= address + size;
	struct gm_sim_range range;
	if (right && gm_sim_ranges_remove(&reserved, address, &range))
		munmap((void *)(uintptr_t)address, size);
	pthread_mutex_unlock(&lock);
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
	struct mapping *mapping = calloc(1, sizeof(*mapping));
	if (!mapping)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	struct piece *piece = piece_of(handle);
	if (!piece || offset > piece->size || size > piece->size - offset ||
	        !within_reservation(address, size) ||
	        !gm_sim_ranges_add(&mapped, address, size, (uintptr_t)mapping))
		goto out;
	void *at = (void *)(uintptr_t)address;
	off_t in_file =
	        (off_t)((uint64_t)((unsigned char *)piece->at - piece->device->base) + offset);
	if (mmap(at, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, piece->device->memory,
	            in_file) == MAP_FAILED) {
		struct gm_sim_range range;
		gm_sim_ranges_remove(&mapped, address, &range);
		code = CUDA_ERROR_OUT_OF_MEMORY;
		goto out;
	}
	madvise(at, size, MADV_DONTDUMP);
	madvise(at, size, MADV_DONTFORK);
	mapping->piece = piece;
	mapping->offset = offset;
	piece->mappings++;
	atomic_fetch_add(&mappings, 1);
	mapping = NULL;
	gm_sim_graph_memory(at, size, true);
	code = CUDA_SUCCESS;
out:
	pthread_mutex_unlock(&lock);
	free(mapping);
	return code;
}

/*
 * Whether [address, address + size) is whole mappings one behind the other; *ret_first is the index
 * of the first, *ret_count their number. The caller holds the lock.
 */
static bool whole_mappings(uint64_t address, uint64_t size, size_t *ret_first, size_t *ret_count)
{
	const struct gm_sim_range *range = gm_sim_ranges_find(&mapped, address);
	if (!range || range->start != address || !size)
		return false;
	uint64_t at = address, end = address + size;
	*ret_first = (size_t)(range - mapped.items);
	size_t i = *ret_first;
	for (; i < mapped.count && at < end && mapped.items[i].start == at; i++)
		at += mapped.items[i].size;
	*ret_count = i - *ret_first;
	return at == end;
}

GM_SIM_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
	if (gm_sim_forked())
		return not_usable();
	size_t first, count;
	pthread_mutex_lock(&lock);
	bool right = whole_mappings(address, size, &first, &count) &&
	             blank((void *)(uintptr_t)address, size, MAP_FIXED);
	while (right && count--) {
		struct gm_sim_range range;
		struct mapping *mapping = mapping_of(&mapped.items[first]);
		gm_sim_ranges_remove(&mapped, mapped.items[first].start, &range);
		mapping->piece->mappings--;
		drop(mapping->piece);
		gm_sim_graph_memory((const void *)(uintptr_t)range.start, range.size, false);
		free(mapping);
		atomic_fetch_sub(&mappings, 1);
	}
	pthread_mutex_unlock(&lock);
	return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

GM_SIM_EXPORT CUresult cuMemSetAccess(
        CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
{
	if (gm_sim_forked())
		return not_usable();
	if (!access || !count)
		return CUDA_ERROR_INVALID_VALUE;
	/* A peer's access is the device's own here: one access for all. */
	bool readable = false;
	for (size_t i = 0; i < count; i++) {
		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		        !gm_sim_device_facts(access[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
		readable |= access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
	}
	size_t first, n;
	pthread_mutex_lock(&lock);
	bool right = whole_mappings(address, size, &first, &n) &&
	             mprotect((void *)(uintptr_t)address, size,
	                     readable ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
	for (size_t i = 0; right && i < n; i++)
		mapping_of(&mapped.items[first + i])->accessible = readable;
	pthread_mutex_unlock(&lock);
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
 * Between processes: a descriptor of a small file that says which device's memory the piece is
 * (foreign.c). Passed on like any descriptor, it is what a program hands to another; the piece must
 * live meanwhile.
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
	pthread_mutex_lock(&lock);
	struct piece *piece = piece_of(handle);
	bool asked = piece && piece->properties.requestedHandleTypes & type;
	if (asked) {
		memcpy(exported.mark, exported_mark, sizeof(exported.mark));
		gm_sim_origin_of(piece->device, &exported.origin);
		exported.offset = (uint64_t)((unsigned char *)piece->at - piece->device->base);
		exported.size = piece->size;
		exported.properties = piece->properties;
	}
	pthread_mutex_unlock(&lock);
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
	struct piece *piece = calloc(1, sizeof(*piece));
	struct gm_sim_device *device = piece ? gm_sim_foreign_take(&exported.origin) : NULL;
	if (!device) {
		free(piece);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*piece = (struct piece){.device = device,
	        .at = device->base + exported.offset,
	        .size = exported.size,
	        .properties = exported.properties,
	        .handles = 1,
	        .imported = true};
	if (device->foreign)
		device->index = (unsigned)gm_sim_current_index();
	pthread_mutex_lock(&lock);
	piece->next = pieces;
	pieces = piece;
	pthread_mutex_unlock(&lock);
	*ret = (CUmemGenericAllocationHandle)(uintptr_t)piece;
	return CUDA_SUCCESS;
}

/* Two that PyTorch looks up together with them. */
GM_SIM_EXPORT CUresult cuStreamWriteValue32(
        CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
	return (CUresult)cudaMemcpy(
	        (void *)(uintptr_t)address, &value, sizeof(value), cudaMemcpyDefault);
}

GM_SIM_EXPORT CUresult cuMemsetD32Async(
        CUdeviceptr address, unsigned value, size_t count, CUstream stream)
{
	void *to = (void *)(uintptr_t)address;
	if (address % sizeof(value) || count > SIZE_MAX / sizeof(value))
		return CUDA_ERROR_INVALID_VALUE;
	/* Four equal bytes are an ordinary memset, zero above all. */
	if (value == (value & 0xff) * UINT32_C(0x01010101))
		return (CUresult)cudaMemset(to, (int)(value & 0xff), count * sizeof(value));
	unsigned row[1024];
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		row[i] = value;
	for (size_t done = 0; done < count;) {
		size_t n = count - done < 1024 ? count - done : 1024;
		cudaError_t code = cudaMemcpy(
		        (unsigned *)to + done, row, n * sizeof(value), cudaMemcpyDefault);
		if (code != cudaSuccess)
			return (CUresult)code;
		done += n;
	}
	return CUDA_SUCCESS;
}
