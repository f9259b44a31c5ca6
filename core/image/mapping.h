/* One mapping of a target's memory, and ranges of its addresses. */
#ifndef GM_IMAGE_MAPPING_H
#define GM_IMAGE_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

enum gm_mapping_flags {
	GM_MAPPING_READ = 1,
	GM_MAPPING_WRITE = 2,
	GM_MAPPING_EXEC = 4,
	GM_MAPPING_SHARED = 8,
	/* memory of the simulated device (memfd gpumem-sim-device): never scanned, never a
	 * holder */
	GM_MAPPING_DEVICE = 16,
};

struct gm_mapping {
	uint64_t start; /* first address */
	uint64_t end;   /* one past the last */
	uint64_t file_offset;
	uint64_t inode;
	uint32_t flags;   /* enum gm_mapping_flags */
	const char *path; /* as /proc/PID/maps has it ("[heap]", "" for anonymous); owned by the
	                     image, valid until the next refresh */
};

/* Is it memory that a program writes to and that may be read: not a device's, simulated or
 * mapped? */
bool gm_mapping_is_memory(const struct gm_mapping *mapping);

/* [start, end) */
struct gm_range {
	uint64_t start, end;
};

#endif
