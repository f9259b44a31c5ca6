/*
 * Fat binaries: for which architecture a device would run the code of a module that was compiled
 * for several.
 *
 * A program asks for it (cudaFuncGetAttributes), and CUB chooses the tuning, and with it the size
 * of its temporary memory, by the answer; newer versions (CCCL 3) reject an architecture for which
 * they were not compiled. So the answer is not the device's own architecture: an L4 (8.9) runs code
 * that was compiled for 8.6. Only the headers of the entries are read, never code.
 *
 * Layout: __fatBinC_Wrapper_t (fatbinary_section.h, CUDA 13.0). The container that it points to is
 * not documented; the fields read here are as in libtorch_cuda's .nv_fatbin of torch 2.4 and 2.11:
 * 16 bytes (magic, version, size of the header, size of the entries), then entries.
 */
#include <stdlib.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

#define WRAPPER UINT32_C(0x466243b1)
#define CONTAINER UINT32_C(0xba55ed50)
#define MOST_ENTRIES 256

struct wrapper {
	uint32_t magic, version;
	const char *container;
};
struct container {
	uint32_t magic;
	uint16_t version, header;
	uint64_t entries;
};
struct entry {
	uint16_t kind, version; /* kind 1: PTX, 2: machine code */
	uint32_t header;
	uint64_t size;
	uint32_t compressed, options;
	uint16_t minor, major; /* of the PTX language */
	uint32_t architecture; /* 86 is 8.6 */
};

static const struct container *container_of(const struct wrapper *wrapper)
{
	if (!wrapper || wrapper->magic != WRAPPER || !wrapper->container)
		return NULL;
	const struct container *container = (const struct container *)wrapper->container;
	return container->magic == CONTAINER && container->header >= sizeof(*container) ? container
	                                                                                : NULL;
}

/* Machine code runs on its own generation from its architecture on, PTX on every later one; machine
 * code is preferred. */
int gm_sim_fatbin_architecture(const void *fatbin, int device)
{
	const struct container *container = container_of(fatbin);
	if (!container)
		return 0;
	int code = 0, ptx = 0;
	uint64_t at = 0;
	for (int i = 0; i < MOST_ENTRIES && container->entries - at >= sizeof(struct entry); i++) {
		const struct entry *entry =
		        (const struct entry *)((const char *)container + container->header + at);
		if (entry->header < sizeof(*entry) || entry->header > container->entries - at ||
		        entry->size > container->entries - at - entry->header)
			break;
		int architecture = entry->architecture > 999 ? 0 : (int)entry->architecture;
		if (architecture <= device) {
			if (entry->kind == 2 && architecture / 10 == device / 10 &&
			        architecture > code)
				code = architecture;
			if (entry->kind == 1 && architecture > ptx)
				ptx = architecture;
		}
		at += entry->header + entry->size;
	}
	return code ? code : ptx;
}
