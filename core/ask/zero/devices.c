#include "ask/zero/devices.h"

#include <stdlib.h>

#include "base/cleanup.h"

enum { DEVICES_MAX = 128 };

/* The bytes by the beginning of each storage's memory */
static bool by_data(struct gm_torch *torch, const struct gm_map *storages, struct gm_map *ret_sizes)
{
	for (size_t i = 0; i < storages->capacity; i++) {
		struct gm_storage storage;
		if (!storages->slots[i].key ||
		        !gm_torch_storage(torch, storages->slots[i].key, &storage) ||
		        storage.device_type != GM_DEVICE_CUDA || !storage.data)
			continue;
		uint64_t *size = gm_map_put(ret_sizes, storage.data, NULL);
		if (!size)
			return false;
		*size = storage.size;
	}
	return true;
}

bool gm_zero_devices(struct gm_torch *torch, const struct gm_map *storages,
        struct gm_zero_device **ret_devices, size_t *ret_count)
{
	struct gm_map sizes = {0};
	_cleanup_free_ struct gm_block_record *blocks = NULL;
	struct gm_zero_device *devices = calloc(DEVICES_MAX, sizeof(*devices));
	size_t count = 0, device_count = 0;
	if (!devices || !by_data(torch, storages, &sizes)) {
		gm_map_deinit(&sizes);
		free(devices);
		return false;
	}
	/* there is nothing to add for a process without the caching allocator */
	gm_error_destroy(gm_torch_blocks(torch, &blocks, &count));
	for (size_t i = 0; i < count; i++) {
		const struct gm_block_record *block = &blocks[i];
		size_t at = 0;
		if (!block->allocated)
			continue;
		while (at < device_count && devices[at].device != block->device)
			at++;
		if (at == DEVICES_MAX)
			continue;
		if (at == device_count)
			devices[device_count++].device = block->device;
		const uint64_t *size = gm_map_find(&sizes, block->address);
		devices[at].allocated += block->size;
		if (!size || *size > block->size) {
			devices[at].other += block->size;
			continue;
		}
		devices[at].named += *size;
		devices[at].rounding += block->size - *size;
	}
	gm_map_deinit(&sizes);
	*ret_devices = devices;
	*ret_count = device_count;
	return true;
}
