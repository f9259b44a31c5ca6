#include "image/pagemap.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "image/page_cache.h"

bool gm_pagemap_read(int pagemap, uint64_t start, size_t count, uint64_t *ret_entries)
{
	ssize_t size = (ssize_t)(count * sizeof(*ret_entries));
	return pagemap >= 0 &&
	       pread(pagemap, ret_entries, (size_t)size,
	               (off_t)(start / GM_PAGE_SIZE * sizeof(*ret_entries))) == size;
}

/* --- the kernel's own search, from Linux 6.7 on: struct pm_scan_arg and page_region of its
 * linux/fs.h, which older systems lack --- */

struct region {
	uint64_t start, end, categories;
};

struct search {
	uint64_t size, flags, start, end;
	uint64_t walk_end;         /* set by the kernel */
	uint64_t regions, count;   /* where it puts what it found, and for how many there is room */
	uint64_t max_pages;        /* it ends when so many were found; 0: never */
	uint64_t inverted, all_of; /* categories */
	uint64_t any_of, shown;
};

enum { IS_PRESENT = 1 << 3, IS_SWAPPED = 1 << 4 };
#define SEARCH _IOWR('f', 16, struct search)

/* False: this kernel cannot. */
static bool search(int pagemap, uint64_t start, uint64_t end, uint64_t *ret_address)
{
	struct region region = {0};
	struct search search = {.size = sizeof(search),
	        .start = start,
	        .end = end,
	        .regions = (uint64_t)(uintptr_t)&region,
	        .count = 1,
	        .max_pages = 1,
	        .any_of = IS_PRESENT | IS_SWAPPED,
	        .shown = IS_PRESENT | IS_SWAPPED};
	int found = ioctl(pagemap, SEARCH, &search);
	if (found < 0 || (found == 0 && search.walk_end != end))
		return false;
	*ret_address = found == 0 ? end : region.start;
	return true;
}

/* --- by entries ------------------------------------------------------------------------------- */

uint64_t gm_pagemap_next_touched_by_entries(int pagemap, uint64_t start, uint64_t end)
{
	enum { AT_ONCE = 4096 };
	uint64_t entries[AT_ONCE];
	for (uint64_t at = start; at < end;) {
		uint64_t left = (end - at) / GM_PAGE_SIZE;
		size_t count = left < AT_ONCE ? (size_t)left : AT_ONCE;
		if (count == 0 || !gm_pagemap_read(pagemap, at, count, entries))
			return at;
		for (size_t i = 0; i < count; i++, at += GM_PAGE_SIZE)
			if (entries[i] & (GM_PAGEMAP_PRESENT | GM_PAGEMAP_SWAPPED))
				return at;
	}
	return end;
}

uint64_t gm_pagemap_next_touched(int pagemap, uint64_t start, uint64_t end)
{
	uint64_t address;
	if (start >= end || pagemap < 0)
		return start;
	return search(pagemap, start, end, &address)
	               ? address
	               : gm_pagemap_next_touched_by_entries(pagemap, start, end);
}
