/*
 * /proc/PID/pagemap: which pages of a process have memory (Documentation/admin-guide/mm/pagemap.rst
 * of Linux). Inside of the image room.
 */
#ifndef GM_IMAGE_PAGEMAP_H
#define GM_IMAGE_PAGEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/image.h"

/* Bits of an entry. */
#define GM_PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define GM_PAGEMAP_SWAPPED (UINT64_C(1) << 62)
#define GM_PAGEMAP_FILE_OR_SHARED (UINT64_C(1) << 61)
#define GM_PAGEMAP_GUARD (UINT64_C(1) << 58) /* since Linux 6.15 */

/* A guard page (MADV_GUARD_INSTALL) counts as swapped, but has no memory and cannot be read. */
static inline bool gm_pagemap_is_touched(uint64_t entry)
{
	return entry & (GM_PAGEMAP_PRESENT | GM_PAGEMAP_SWAPPED) && !(entry & GM_PAGEMAP_GUARD);
}

/* The entries of `count` pages from the address `start` on. False: they cannot be read. */
bool gm_pagemap_read(int pagemap, uint64_t start, size_t count, uint64_t *ret_entries);

/*
 * The first page of [start, end) that was touched, `end` if none was, and `start` if that cannot be
 * told. Address space that a program reserved and never used (20 TiB where it has AddressSanitizer)
 * costs nothing from Linux 6.7 on, and 2 ms a GiB before.
 */
uint64_t gm_pagemap_next_touched(int pagemap, uint64_t start, uint64_t end);
/* The same, as it is done before Linux 6.7. */
uint64_t gm_pagemap_next_touched_by_entries(int pagemap, uint64_t start, uint64_t end);

/* What was touched of [start, end), whole pages, up to `max` ranges of it. False: that cannot be
 * told. From Linux 6.7 on the kernel tells ranges, which takes half as long as to tell each page.
 */
bool gm_pagemap_touched(int pagemap, uint64_t start, uint64_t end, struct gm_range *ret_ranges,
        size_t max, size_t *ret_count);
/* The same, as it is done before Linux 6.7. */
bool gm_pagemap_touched_by_entries(int pagemap, uint64_t start, uint64_t end,
        struct gm_range *ret_ranges, size_t max, size_t *ret_count);

#endif
