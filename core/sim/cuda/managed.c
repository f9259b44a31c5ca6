/*
 * Managed (unified) memory: host memory that the program reads and writes itself, and that moves to
 * a device on request (cudaMemPrefetchAsync).
 *
 * Prefetched memory counts against the device as long as nobody else needs the space: a cudaMalloc
 * that does not fit moves it back, as the driver does. It is not known which memory a kernel would
 * have touched, so kernels move nothing. Locations and advice are stored for pages of 2 MiB, in
 * which the driver moves memory too.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

enum { NOWHERE = -2, HOST = -1 };

struct page {
	int8_t at;         /* a device, or HOST */
	int8_t prefetched; /* the last location that was requested, or NOWHERE */
	int8_t preferred;
	bool read_mostly;
	uint32_t accessed_by; /* one bit for each device; the highest is the host */
};

#define HOST_BIT (1u << 31)

/* The value of a range is the address of its pages. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gm_sim_ranges ranges;
static uint64_t resident[GM_SIM_DEVICES_MAX];

void gm_sim_managed_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

/* Call with the lock held. */
static const struct gm_sim_range *find(const void *address, uint64_t size)
{
	const struct gm_sim_range *found = gm_sim_ranges_find(&ranges, (uintptr_t)address);
	return found && size <= found->start + found->size - (uintptr_t)address ? found : NULL;
}

bool gm_sim_managed_holds(const void *address, uint64_t size)
{
	pthread_mutex_lock(&lock);
	bool holds = find(address, size) != NULL;
	pthread_mutex_unlock(&lock);
	return holds;
}

/* Moves a page if the device has space for it; call with the lock held. */
static void move(struct page *page, int to)
{
	if (page->at == to)
		return;
	if (to >= 0 && !gm_sim_memory_outside(gm_sim_device(to), GM_SIM_PAGE))
		return; /* it stays where it is, and would be read over the bus */
	if (to >= 0)
		resident[to] += GM_SIM_PAGE;
	if (page->at >= 0) {
		gm_sim_memory_outside(gm_sim_device(page->at), -(int64_t)GM_SIM_PAGE);
		resident[page->at] -= GM_SIM_PAGE;
	}
	page->at = (int8_t)to;
}

static size_t pages_of(const struct gm_sim_range *range)
{
	return (range->size + GM_SIM_PAGE - 1) / GM_SIM_PAGE;
}

bool gm_sim_managed_evict(const struct gm_sim_device *device)
{
	pthread_mutex_lock(&lock);
	bool any = resident[device->index] > 0;
	for (size_t i = 0; i < ranges.count && resident[device->index]; i++) {
		struct page *pages = (struct page *)(uintptr_t)ranges.items[i].value;
		for (size_t k = 0; k < pages_of(&ranges.items[i]); k++)
			if (pages[k].at == (int)device->index)
				move(&pages[k], HOST);
	}
	pthread_mutex_unlock(&lock);
	return any;
}

GM_SIM_EXPORT cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned flags)
{
	if (!pointer || !size || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
		return gm_sim_error(cudaErrorInvalidValue);
	if (gm_sim_forked() || !gm_sim_current())
		return gm_sim_error(gm_sim_no_device());
	if (size > UINT64_C(1) << 46)
		return gm_sim_error(cudaErrorMemoryAllocation);
	size_t whole = (size + GM_SIM_PAGE - 1) & ~(size_t)(GM_SIM_PAGE - 1);
	/* More than the device has is allowed; it costs nothing until it is touched. */
	unsigned char *mapped = mmap(NULL, whole + GM_SIM_PAGE, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mapped == MAP_FAILED)
		return gm_sim_error(cudaErrorMemoryAllocation);
	unsigned char *start = (unsigned char *)(((uintptr_t)mapped + GM_SIM_PAGE - 1) &
	                                         ~(uintptr_t)(GM_SIM_PAGE - 1));
	if (start > mapped)
		munmap(mapped, (size_t)(start - mapped));
	if (mapped + GM_SIM_PAGE > start)
		munmap(start + whole, (size_t)(mapped + GM_SIM_PAGE - start));
	struct page *pages = calloc(whole / GM_SIM_PAGE, sizeof(*pages));
	for (size_t i = 0; pages && i < whole / GM_SIM_PAGE; i++)
		pages[i] = (struct page){HOST, NOWHERE, NOWHERE, false, 0};
	pthread_mutex_lock(&lock);
	bool added = pages && gm_sim_ranges_add(&ranges, (uintptr_t)start, size, (uintptr_t)pages);
	pthread_mutex_unlock(&lock);
	if (!added) {
		free(pages);
		munmap(start, whole);
		return gm_sim_error(cudaErrorMemoryAllocation);
	}
	*pointer = start;
	return cudaSuccess;
}

int gm_sim_managed_free(void *address)
{
	struct gm_sim_range range;
	pthread_mutex_lock(&lock);
	const struct gm_sim_range *found = find(address, 0);
	bool there = found && found->start == (uintptr_t)address;
	if (there) {
		struct page *pages = (struct page *)(uintptr_t)found->value;
		for (size_t i = 0; i < pages_of(found); i++)
			move(&pages[i], HOST);
		free(pages);
		gm_sim_ranges_remove(&ranges, (uintptr_t)address, &range);
		munmap(address, pages_of(&range) * GM_SIM_PAGE);
	}
	pthread_mutex_unlock(&lock);
	return there ? cudaSuccess : cudaErrorInvalidValue;
}

/* The number of a location here: a device, HOST (any node), or -3 if it is not one. */
static int place(struct cudaMemLocation location)
{
	switch (location.type) {
	case cudaMemLocationTypeDevice:
		return gm_sim_device(location.id) ? location.id : -3;
	case cudaMemLocationTypeHost:
	case cudaMemLocationTypeHostNuma:
	case cudaMemLocationTypeHostNumaCurrent:
		return HOST;
	default:
		return -3;
	}
}

/* The pages that [address, address + size) touches; call with the lock held. NULL if it is not
 * managed memory. */
static struct page *touched(const void *address, size_t size, size_t *ret)
{
	const struct gm_sim_range *range = size ? find(address, size) : NULL;
	if (!range)
		return NULL;
	uint64_t first = ((uintptr_t)address - range->start) / GM_SIM_PAGE;
	*ret = ((uintptr_t)address - range->start + size - 1) / GM_SIM_PAGE + 1 - first;
	return (struct page *)(uintptr_t)range->value + first;
}

static int prefetch(const void *address, size_t size, struct cudaMemLocation location)
{
	int to = place(location);
	if (to < HOST)
		return cudaErrorInvalidDevice;
	size_t count = 0;
	pthread_mutex_lock(&lock);
	struct page *pages = touched(address, size, &count);
	for (size_t i = 0; i < count; i++) {
		move(&pages[i], to);
		pages[i].prefetched = (int8_t)to;
	}
	pthread_mutex_unlock(&lock);
	return pages ? cudaSuccess : cudaErrorInvalidValue;
}

static bool advised(struct page *page, enum cudaMemoryAdvise advice, int where)
{
	uint32_t bit = where == HOST ? HOST_BIT : 1u << (where & 31);
	switch (advice) {
	case cudaMemAdviseSetReadMostly:
	case cudaMemAdviseUnsetReadMostly:
		page->read_mostly = advice == cudaMemAdviseSetReadMostly;
		return true;
	case cudaMemAdviseSetPreferredLocation:
		page->preferred = (int8_t)where;
		return true;
	case cudaMemAdviseUnsetPreferredLocation:
		page->preferred = NOWHERE;
		return true;
	case cudaMemAdviseSetAccessedBy:
		page->accessed_by |= bit;
		return true;
	case cudaMemAdviseUnsetAccessedBy:
		page->accessed_by &= ~bit;
		return true;
	default:
		return false;
	}
}

static int advise(const void *address, size_t size, enum cudaMemoryAdvise advice,
        struct cudaMemLocation location)
{
	/* These do not concern a location, and their location argument is ignored. */
	bool placeless = advice == cudaMemAdviseSetReadMostly ||
	                 advice == cudaMemAdviseUnsetReadMostly ||
	                 advice == cudaMemAdviseUnsetPreferredLocation;
	int where = placeless ? HOST : place(location);
	if (where < HOST)
		return cudaErrorInvalidDevice;
	size_t count = 0;
	pthread_mutex_lock(&lock);
	struct page *pages = touched(address, size, &count);
	bool good = pages != NULL;
	for (size_t i = 0; i < count && good; i++)
		good = advised(&pages[i], advice, where);
	pthread_mutex_unlock(&lock);
	return good ? cudaSuccess : cudaErrorInvalidValue;
}

GM_SIM_EXPORT cudaError_t cudaMemPrefetchAsync(const void *address, size_t size,
        struct cudaMemLocation location, unsigned flags, cudaStream_t stream)
{
	return gm_sim_error(flags ? cudaErrorInvalidValue : prefetch(address, size, location));
}

GM_SIM_EXPORT cudaError_t cudaMemAdvise(const void *address, size_t size,
        enum cudaMemoryAdvise advice, struct cudaMemLocation location)
{
	return gm_sim_error(advise(address, size, advice, location));
}

/* The location if all pages agree, NOWHERE (cudaInvalidDeviceId) if they do not. */
static int common(const struct page *pages, size_t count, bool preferred)
{
	int where = preferred ? pages[0].preferred : pages[0].prefetched;
	for (size_t i = 1; i < count; i++)
		if ((preferred ? pages[i].preferred : pages[i].prefetched) != where)
			return NOWHERE;
	return where;
}

static int type_of(int where)
{
	return where >= 0      ? cudaMemLocationTypeDevice
	       : where == HOST ? cudaMemLocationTypeHost
	                       : cudaMemLocationTypeInvalid;
}

static int range_attribute(int *data, size_t size, enum cudaMemRangeAttribute which,
        const struct page *pages, size_t count)
{
	if (size < sizeof(*data) || size % sizeof(*data))
		return cudaErrorInvalidValue;
	bool preferred = which == cudaMemRangeAttributePreferredLocation ||
	                 which == cudaMemRangeAttributePreferredLocationType ||
	                 which == cudaMemRangeAttributePreferredLocationId;
	int where = common(pages, count, preferred);
	uint32_t all = UINT32_MAX;
	size_t places = size / sizeof(*data), used = 0;
	switch (which) {
	case cudaMemRangeAttributeReadMostly:
		*data = 1;
		for (size_t i = 0; i < count; i++)
			*data &= pages[i].read_mostly;
		return cudaSuccess;
	case cudaMemRangeAttributePreferredLocation:
	case cudaMemRangeAttributeLastPrefetchLocation:
		*data = where;
		return cudaSuccess;
	case cudaMemRangeAttributePreferredLocationType:
	case cudaMemRangeAttributeLastPrefetchLocationType:
		*data = type_of(where);
		return cudaSuccess;
	case cudaMemRangeAttributePreferredLocationId:
	case cudaMemRangeAttributeLastPrefetchLocationId:
		*data = where >= 0 ? where : 0;
		return cudaSuccess;
	case cudaMemRangeAttributeAccessedBy:
		for (size_t i = 0; i < count; i++)
			all &= pages[i].accessed_by;
		for (int device = 0; device < GM_SIM_DEVICES_MAX && used < places; device++)
			if (all >> device & 1)
				data[used++] = device;
		if (all & HOST_BIT && used < places)
			data[used++] = HOST;
		while (used < places)
			data[used++] = NOWHERE;
		return cudaSuccess;
	default:
		return cudaErrorInvalidValue;
	}
}

GM_SIM_EXPORT cudaError_t cudaMemRangeGetAttribute(void *data, size_t data_size,
        enum cudaMemRangeAttribute which, const void *address, size_t size)
{
	size_t count = 0;
	pthread_mutex_lock(&lock);
	const struct page *pages = touched(address, size, &count);
	int code = pages && data ? range_attribute(data, data_size, which, pages, count)
	                         : cudaErrorInvalidValue;
	pthread_mutex_unlock(&lock);
	return gm_sim_error(code);
}

GM_SIM_EXPORT cudaError_t cudaMemRangeGetAttributes(void **data, size_t *data_sizes,
        enum cudaMemRangeAttribute *which, size_t attributes, const void *address, size_t size)
{
	if (!data || !data_sizes || !which || !attributes)
		return gm_sim_error(cudaErrorInvalidValue);
	for (size_t i = 0; i < attributes; i++) {
		cudaError_t code =
		        cudaMemRangeGetAttribute(data[i], data_sizes[i], which[i], address, size);
		if (code != cudaSuccess)
			return code;
	}
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaStreamAttachMemAsync(
        cudaStream_t stream, void *address, size_t size, unsigned flags)
{
	/* Rules of concurrent access: nothing here moves when it is touched. */
	return gm_sim_managed_holds(address, size) ? cudaSuccess
	                                           : gm_sim_error(cudaErrorInvalidValue);
}
