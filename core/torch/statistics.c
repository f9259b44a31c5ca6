/*
 * The allocator's counters and settings for each device: its DeviceStats, its limit, the pools of
 * its blocks.
 *
 * DeviceStats (c10/core/CachingDeviceAllocator.h) is public and has kept its order: the four sums
 * that a layout names are followed by the two counters of failed requests.
 */
#include "torch/internal.h"
#include "torch/torch.h"

/* c10/core/Allocator.h: struct Stat {current, peak, allocated, freed}; a StatArray has three of
 * them */
/* driver_types.h of CUDA 12 and 13: cudaDeviceProp {name[256], uuid, luid[8], luidDeviceNodeMask,
 * totalGlobalMem, ...} */
enum { UUID_BEFORE_TOTAL = 32 };
enum { PEAK = 8, STAT_ARRAY = 96, IMPOSSIBLE_SHIFT = 50 };

static bool read_word(struct gm_torch *torch, uint64_t address, uint64_t *ret_value)
{
	return gm_image_try_u64(torch->image, address, ret_value) &&
	       *ret_value < UINT64_C(1) << IMPOSSIBLE_SHIFT;
}

static bool read_sums(
        struct gm_torch *torch, uint64_t device, uint64_t more, struct gm_allocator_bytes *ret)
{
	const struct gm_torch_layout *layout = torch->layout;
	return read_word(
	               torch, device + layout->allocator.stats_allocated + more, &ret->allocated) &&
	       read_word(torch, device + layout->allocator.stats_reserved + more, &ret->reserved) &&
	       read_word(torch, device + layout->allocator.stats_active + more, &ret->active) &&
	       read_word(torch, device + layout->allocator.stats_requested + more, &ret->requested);
}

static uint64_t read_limit(struct gm_torch *torch, uint64_t device)
{
	uint32_t offset = torch->layout->allocator.limit;
	struct {
		uint64_t value;
		unsigned char has; /* std::optional's engaged flag */
	} limit;
	if (!offset || !gm_image_try_read(torch->image, device + offset, &limit, 9))
		return GM_NOT_KNOWN;
	if (torch->layout->allocator.limit_is_plain)
		return limit.value;
	if (limit.has > 1)
		return GM_NOT_KNOWN;
	return limit.has ? limit.value : 0;
}

struct gm_error *gm_torch_allocator_devices(struct gm_torch *torch, size_t *ret_count)
{
	uint64_t devices[GM_TORCH_DEVICES_MAX + 1];
	return gm_torch_device_allocators(torch, devices, ret_count);
}

struct gm_error *gm_torch_allocator_device(
        struct gm_torch *torch, int device, struct gm_allocator_device *ret_device)
{
	uint64_t devices[GM_TORCH_DEVICES_MAX + 1];
	size_t count;
	gm_try(gm_torch_device_allocators(torch, devices, &count));
	const struct gm_torch_layout *layout = torch->layout;
	struct gm_allocator_device found = {.total = GM_NOT_KNOWN};
	uint64_t split = 0;
	if (device < 0 || (size_t)device >= count)
		return gm_error_create(GM_TARGET,
		        "device %d: PyTorch's allocator has no such device (it has %zu): check the "
		        "number",
		        device, count);
	uint64_t base = devices[device],
	         counters = base + layout->allocator.stats_requested + STAT_ARRAY;
	if (!gm_is_object_address(base) || !read_sums(torch, base, 0, &found.now) ||
	        !read_sums(torch, base, PEAK, &found.peak) ||
	        !read_word(torch, counters, &found.retries) ||
	        !read_word(torch, counters + 8, &found.ooms))
		return gm_error_create(GM_TARGET,
		        "device %d: the allocator's figures at 0x%jx do not fit the layout of "
		        "PyTorch %s: this may be a build of your own: learn its layout with "
		        "`gpumem learn`",
		        device, (uintmax_t)base, torch->version);
	if (layout->allocator.stats_max_split &&
	        gm_image_try_u64(torch->image, base + layout->allocator.stats_max_split, &split) &&
	        split < UINT64_C(1) << IMPOSSIBLE_SHIFT)
		found.max_split = split;
	found.limit = read_limit(torch, base);
	if (layout->allocator.properties_total &&
	        !read_word(torch, base + layout->allocator.properties_total, &found.total))
		found.total = GM_NOT_KNOWN;
	if (found.total != GM_NOT_KNOWN)
		found.has_uuid = gm_image_try_read(torch->image,
		        base + layout->allocator.properties_total - UUID_BEFORE_TOTAL, found.uuid,
		        sizeof(found.uuid));
	*ret_device = found;
	return NULL;
}

bool gm_torch_pool(struct gm_torch *torch, uint64_t pool, struct gm_pool_record *ret_pool)
{
	/* BlockPool: two std::set, bool is_small, PrivatePool *owner_PrivatePool */
	struct {
		uint64_t small, owner;
	} tail;
	if (!gm_is_object_address(pool) ||
	        !gm_image_try_read(torch->image,
	                pool + torch->layout->allocator.pool_unmapped +
	                        torch->layout->allocator.set_count + 8u,
	                &tail, sizeof(tail)) ||
	        (tail.small & 0xff) > 1 || (tail.owner && !gm_is_object_address(tail.owner)))
		return false;
	*ret_pool = (struct gm_pool_record){tail.small & 0xff, tail.owner != 0};
	return true;
}
