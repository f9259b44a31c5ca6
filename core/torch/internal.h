/* What core/torch's files share. Nothing here is for other rooms. */
#ifndef GM_TORCH_INTERNAL_H
#define GM_TORCH_INTERNAL_H

#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "torch/allocator.h"
#include "torch/classes.h"
#include "torch/layout.h"

struct gm_torch {
	struct gm_image *image;
	struct gm_symbols *symbols;
	struct gm_python *python;             /* may be NULL */
	const struct gm_torch_layout *layout; /* shipped, or: */
	struct gm_torch_layout learned;
	bool old_strings;
	char version[64];
	struct gm_classes classes;
	uint64_t allocator_variable; /* c10::cuda::CUDACachingAllocator::allocator; 0: not looked up
	                                yet */
	char allocator_kind[128];
	struct gm_map
	        statics; /* of a list of names (statics.c) -> the variable's address, once found */
	struct gm_map block_records; /* allocation address -> Block record, from reports */
	/* where the Block was found, by the report's return address: the same place next time */
	struct {
		uint64_t return_address;
		int place;
	} report_places[8];
	unsigned report_next;
};

static inline uint64_t gm_word(const void *object, size_t offset)
{
	uint64_t value;
	memcpy(&value, (const char *)object + offset, sizeof(value));
	return value;
}

static inline uint32_t gm_half(const void *object, size_t offset)
{
	uint32_t value;
	memcpy(&value, (const char *)object + offset, sizeof(value));
	return value;
}

/* blocks.c: the DeviceCachingAllocator of each device, at most GM_TORCH_DEVICES_MAX + 1. GM_TARGET:
 * the process has none. */
struct gm_error *gm_torch_device_allocators(
        struct gm_torch *torch, uint64_t *ret_devices, size_t *ret_count);

/* Could a C++ object of the target live here? */
static inline bool gm_is_object_address(uint64_t address)
{
	return address >= 0x10000 && (address & 7) == 0 && address < UINT64_C(1) << 47;
}

#endif
