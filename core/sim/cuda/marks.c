/* The marks of a device's written bytes: mapped from a separate file. */
#include <sys/mman.h>

#include "sim/cuda/sim.h"

static uint64_t written_size(uint64_t span)
{
	return (span / GM_SIM_GRANULE / 8 + 64 + 4095) & ~UINT64_C(4095);
}

uint64_t gm_sim_marks_size(uint64_t span)
{
	return 2 * written_size(span) + ((span / GM_SIM_PAGE / 8 + 64 + 4095) & ~UINT64_C(4095));
}

bool gm_sim_map_marks(struct gm_sim_device *device, uint64_t span)
{
	uint64_t size = gm_sim_marks_size(span);
	unsigned char *at = mmap(
	        NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, device->marks, 0);
	if (at == MAP_FAILED)
		return false;
	madvise(at, size, MADV_DONTDUMP);
	madvise(at, size, MADV_DONTFORK);
	device->written = (void *)at;
	device->doubtful = (void *)(at + written_size(span));
	device->chunks = (void *)(at + 2 * written_size(span));
	return true;
}
