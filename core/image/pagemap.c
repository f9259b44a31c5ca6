#include "image/pagemap.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "image/internal.h"
#include "image/page_cache.h"

bool gm_pagemap_read(int pagemap, uint64_t start, size_t count, uint64_t *ret_entries)
{
	ssize_t size = (ssize_t)(count * sizeof(*ret_entries));
	return pagemap >= 0 &&
	       pread(pagemap, ret_entries, (size_t)size,
	               (off_t)(start / GM_PAGE_SIZE * sizeof(*ret_entries))) == size;
}

/* --- the kernel's own search, since Linux 6.7: struct pm_scan_arg and page_region of its
 * linux/fs.h, which older systems lack  */

struct region {
	uint64_t start, end, categories;
};

struct search {
	uint64_t size, flags, start, end;
	uint64_t walk_end;         /* set by the kernel */
	uint64_t regions, count;   /* the buffer for the result, and its capacity */
	uint64_t max_pages;        /* it ends after so many pages; 0: no limit */
	uint64_t inverted, all_of; /* categories */
	uint64_t any_of, shown;
};

enum { IS_PRESENT = 1 << 3, IS_SWAPPED = 1 << 4, IS_GUARD = 1 << 8 };
#define SEARCH _IOWR('f', 16, struct search)

static struct search search_for(uint64_t start, uint64_t end, struct region *regions, size_t count)
{
	return (struct search){.size = sizeof(struct search),
	        .start = start,
	        .end = end,
	        .regions = (uint64_t)(uintptr_t)regions,
	        .count = count,
	        .any_of = IS_PRESENT | IS_SWAPPED,
	        .shown = IS_PRESENT | IS_SWAPPED};
}

/* The kernel's search; < 0: it does not support it. Older ones do not know guard pages. */
static int scan(int pagemap, struct search *search)
{
	static atomic_bool knows_no_guards;
	if (!atomic_load_explicit(&knows_no_guards, memory_order_relaxed)) {
		search->inverted = search->all_of = IS_GUARD;
		int found = ioctl(pagemap, SEARCH, search);
		if (found >= 0 || errno != EINVAL)
			return found;
		atomic_store_explicit(&knows_no_guards, true, memory_order_relaxed);
		search->inverted = search->all_of = 0;
	}
	return ioctl(pagemap, SEARCH, search);
}

/* False: this kernel does not support it. */
static bool search(int pagemap, uint64_t start, uint64_t end, uint64_t *ret_address)
{
	struct region region = {0};
	struct search search = search_for(start, end, &region, 1);
	search.max_pages = 1;
	int found = scan(pagemap, &search);
	if (found < 0 || (found == 0 && search.walk_end != end))
		return false;
	*ret_address = found == 0 ? end : region.start;
	return true;
}

/* False: this kernel does not support it. Present and swapped pages are separate regions. */
static bool search_all(int pagemap, uint64_t start, uint64_t end, struct gm_range *ret_ranges,
        size_t max, size_t *ret_count)
{
	enum { AT_ONCE = 128 };
	struct region regions[AT_ONCE];
	size_t count = 0;
	while (start < end) {
		struct search search = search_for(start, end, regions, AT_ONCE);
		int found = scan(pagemap, &search);
		if (found < 0 || found > AT_ONCE || search.walk_end <= start ||
		        search.walk_end > end)
			return false;
		for (int i = 0; i < found; i++)
			gm_ranges_add(ret_ranges, &count, max,
			        (struct gm_range){regions[i].start, regions[i].end});
		start = search.walk_end;
	}
	*ret_count = count;
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
			if (gm_pagemap_is_touched(entries[i]))
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

bool gm_pagemap_touched_by_entries(int pagemap, uint64_t start, uint64_t end,
        struct gm_range *ret_ranges, size_t max, size_t *ret_count)
{
	enum { AT_ONCE = 512 };
	uint64_t entries[AT_ONCE];
	size_t count = 0;
	for (uint64_t at = start; at < end;) {
		size_t pages = (size_t)((end - at) / GM_PAGE_SIZE);
		pages = pages < AT_ONCE ? pages : AT_ONCE;
		if (pages == 0 || !gm_pagemap_read(pagemap, at, pages, entries))
			return false;
		for (size_t i = 0; i < pages; i++, at += GM_PAGE_SIZE)
			if (gm_pagemap_is_touched(entries[i]))
				gm_ranges_add_page(ret_ranges, &count, max, at);
	}
	*ret_count = count;
	return true;
}

bool gm_pagemap_touched(int pagemap, uint64_t start, uint64_t end, struct gm_range *ret_ranges,
        size_t max, size_t *ret_count)
{
	return pagemap >= 0 && (search_all(pagemap, start, end, ret_ranges, max, ret_count) ||
	                               gm_pagemap_touched_by_entries(
	                                       pagemap, start, end, ret_ranges, max, ret_count));
}
