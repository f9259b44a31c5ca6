#include "image/mapping.h"

#include <string.h>

bool gm_mapping_is_memory(const struct gm_mapping *mapping)
{
	const uint32_t needed = GM_MAPPING_READ | GM_MAPPING_WRITE;
	if ((mapping->flags & needed) != needed || (mapping->flags & GM_MAPPING_DEVICE))
		return false;
	/* memory of GPU drivers and other devices may not be readable from outside, and reading it
	 * may have effects */
	return strncmp(mapping->path, "/dev/", 5) != 0 ||
	       strncmp(mapping->path, "/dev/shm/", 9) == 0 ||
	       strcmp(mapping->path, "/dev/zero (deleted)") == 0;
}
