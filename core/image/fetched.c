#include "image/fetched.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/search.h"
#include "image/nameless.h"
#include "image/page_cache.h"

enum {
	UNIT = 16 << 10, /* about the size of one packet of gdb's remote protocol */
	AT_ONCE = 1 << 20,
};

enum unit_state {
	UNKNOWN = 0,
	THERE,
	PARTLY, /* one of its pages cannot be read: its pages are fetched one by one, and not cached
	         */
};

struct gm_error *gm_fetched_init(
        struct gm_fetched *fetched, const struct gm_maps *maps, gm_fetch fetch, void *context)
{
	*fetched = (struct gm_fetched){.fetch = fetch, .context = context};
	pthread_mutex_init(&fetched->lock, NULL);
	fetched->fd = gm_nameless_file();
	fetched->buffer = malloc(AT_ONCE);
	fetched->areas = calloc(maps->count + 1, sizeof(*fetched->areas));
	if (!fetched->buffer || !fetched->areas)
		return &gm_error_no_memory;
	uint64_t offset = 0;
	for (size_t i = 0; i < maps->count; i++) {
		const struct gm_mapping *mapping = &maps->items[i];
		uint64_t size = mapping->end - mapping->start;
		if (!(mapping->flags & GM_MAPPING_READ) || (mapping->flags & GM_MAPPING_DEVICE) ||
		        size > INT64_MAX - offset)
			continue;
		struct gm_fetched_area area = {mapping->start, mapping->end, offset, NULL};
		area.there = calloc(1, (size_t)(size / UNIT + 1));
		if (!area.there)
			return &gm_error_no_memory;
		fetched->areas[fetched->count++] = area;
		offset += size;
	}
	return NULL;
}

void gm_fetched_deinit(struct gm_fetched *fetched)
{
	for (size_t i = 0; i < fetched->count; i++)
		free(fetched->areas[i].there);
	free(fetched->areas);
	free(fetched->buffer);
	if (fetched->fd >= 0)
		close(fetched->fd);
	pthread_mutex_destroy(&fetched->lock);
	*fetched = (struct gm_fetched){.fd = -1};
}

static bool write_all(int fd, const uint8_t *bytes, size_t size, uint64_t offset)
{
	for (size_t done = 0; done < size;) {
		ssize_t wrote = pwrite(fd, bytes + done, size - done, (off_t)(offset + done));
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return false;
		done += (size_t)wrote;
	}
	return true;
}

/* Zeros stay a hole. */
static bool keep(int fd, const uint8_t *bytes, size_t size, uint64_t offset)
{
	if (fd >= 0 && bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0)
		return true;
	return write_all(fd, bytes, size, offset);
}

/* Reads the units [first, last) of an area at once; complete ones are cached. */
static void fetch_units(
        struct gm_fetched *fetched, struct gm_fetched_area *area, uint64_t first, uint64_t last)
{
	uint64_t from = first * UNIT, to = last * UNIT;
	if (to > area->end - area->start)
		to = area->end - area->start;
	size_t size = (size_t)(to - from);
	size_t got = fetched->fetch(fetched->context, area->start + from, fetched->buffer, size);
	if (got > size)
		got = size;
	fetched->bytes += got;
	bool kept = got > 0 && keep(fetched->fd, fetched->buffer, got, area->offset + from);
	for (uint64_t i = first; i < last; i++) {
		uint64_t end = (i + 1) * UNIT < to ? (i + 1) * UNIT : to;
		if (kept && end - from <= got)
			area->there[i] = THERE;
		else if (last - first == 1)
			area->there[i] = PARTLY;
	}
}

/* The unknown parts of [from, to): first in runs, then the incomplete ones unit by unit. */
static void fetch_missing(
        struct gm_fetched *fetched, struct gm_fetched_area *area, uint64_t from, uint64_t to)
{
	uint64_t last = (to + UNIT - 1) / UNIT;
	for (uint64_t i = from / UNIT; i < last;) {
		uint64_t end = i;
		while (end < last && area->there[end] == UNKNOWN && end - i < AT_ONCE / UNIT)
			end++;
		if (end > i)
			fetch_units(fetched, area, i, end);
		for (uint64_t j = i; j < end; j++) {
			if (area->there[j] == UNKNOWN)
				fetch_units(fetched, area, j, j + 1);
		}
		i = end > i ? end : i + 1;
	}
}

/* Within one unit. */
static size_t read_unit(struct gm_fetched *fetched, const struct gm_fetched_area *area,
        uint64_t skip, void *buffer, size_t size)
{
	if (area->there[skip / UNIT] == THERE) {
		/* After the file's end there are zeros too. */
		ssize_t got = pread(fetched->fd, buffer, size, (off_t)(area->offset + skip));
		if (got < 0)
			return 0;
		memset((char *)buffer + got, 0, size - (size_t)got);
		return size;
	}
	size_t in_page = GM_PAGE_SIZE - (size_t)(skip % GM_PAGE_SIZE);
	if (size > in_page)
		size = in_page;
	size_t got = fetched->fetch(fetched->context, area->start + skip, buffer, size);
	return got < size ? got : size;
}

size_t gm_fetched_read(struct gm_fetched *fetched, uint64_t address, void *buffer, size_t size)
{
	size_t done = 0;
	pthread_mutex_lock(&fetched->lock);
	while (done < size) {
		const struct gm_fetched_area *found = gm_search_address(
		        fetched->areas, fetched->count, sizeof(*fetched->areas), address + done);
		if (!found || address + done >= found->end)
			break;
		struct gm_fetched_area *area = &fetched->areas[found - fetched->areas];
		uint64_t skip = address + done - area->start;
		size_t unit = size - done;
		if (unit > area->end - area->start - skip)
			unit = (size_t)(area->end - area->start - skip);
		fetch_missing(fetched, area, skip, skip + unit);
		size_t in_unit = UNIT - (size_t)(skip % UNIT);
		size_t got = read_unit(fetched, area, skip, (char *)buffer + done,
		        unit < in_unit ? unit : in_unit);
		if (got == 0)
			break;
		done += got;
	}
	pthread_mutex_unlock(&fetched->lock);
	return done;
}
