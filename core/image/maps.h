/*
 * The list of mappings: parsed from the text of /proc/PID/maps, or built by hand (a core's
 * segments). Sorted by address, without overlaps.
 */
#ifndef GM_IMAGE_MAPS_H
#define GM_IMAGE_MAPS_H

#include <stddef.h>

#include "base/error.h"
#include "image/mapping.h"

struct gm_maps {
	struct gm_mapping *items;
	size_t count;
	char *text; /* owns the paths */
};

/*
 * Takes over `text` (`length` bytes and a NUL after them), cuts it into paths in place. A line that
 * makes no sense, and one that does not lie after the line before it (the list was read while the
 * process changed it), is left out. GM_INTERNAL: no memory; `text` is freed then too.
 */
struct gm_error *gm_maps_parse(char *text, size_t length, struct gm_maps *ret_maps);
void gm_maps_deinit(struct gm_maps *maps);

/* The mapping that contains `address`, or NULL. */
const struct gm_mapping *gm_maps_find(const struct gm_maps *maps, uint64_t address);

#endif
