#include "sim/ranges.h"
#include "base/search.h"

#include <stdlib.h>
#include <string.h>

void gm_sim_ranges_init(struct gm_sim_ranges *ranges)
{
	*ranges = (struct gm_sim_ranges){0};
}

void gm_sim_ranges_deinit(struct gm_sim_ranges *ranges)
{
	free(ranges->items);
	*ranges = (struct gm_sim_ranges){0};
}

/* The index of the first range that ends after `address`. */
static size_t position(const struct gm_sim_ranges *ranges, uint64_t address)
{
	return gm_partition_point(ranges->count, middle,
	        ranges->items[middle].start + ranges->items[middle].size <= address);
}

static bool insert(struct gm_sim_ranges *ranges, size_t at, struct gm_sim_range range)
{
	if (ranges->count == ranges->capacity) {
		size_t capacity = ranges->capacity ? ranges->capacity * 2 : 64;
		struct gm_sim_range *items = reallocarray(ranges->items, capacity, sizeof(*items));
		if (!items)
			return false;
		ranges->items = items;
		ranges->capacity = capacity;
	}
	memmove(&ranges->items[at + 1], &ranges->items[at], (ranges->count - at) * sizeof(range));
	ranges->items[at] = range;
	ranges->count++;
	ranges->used += range.size;
	return true;
}

bool gm_sim_ranges_take(struct gm_sim_ranges *ranges, uint64_t start, uint64_t end, uint64_t size,
        uint64_t align, uint64_t value, uint64_t *ret)
{
	if (size == 0 || end < start)
		return false;
	uint64_t from = start;
	for (size_t i = position(ranges, start);; i++) {
		uint64_t place = (from + align - 1) & ~(align - 1);
		uint64_t limit = i < ranges->count ? ranges->items[i].start : end;
		if (limit > end)
			limit = end;
		if (place >= from && place <= limit && limit - place >= size) {
			if (!insert(ranges, i, (struct gm_sim_range){place, size, value}))
				return false;
			*ret = place;
			return true;
		}
		if (i >= ranges->count || limit == end)
			return false;
		from = ranges->items[i].start + ranges->items[i].size;
	}
}

bool gm_sim_ranges_add(struct gm_sim_ranges *ranges, uint64_t start, uint64_t size, uint64_t value)
{
	if (size == 0 || start + size < start)
		return false;
	size_t at = position(ranges, start);
	if (at < ranges->count && ranges->items[at].start < start + size)
		return false;
	return insert(ranges, at, (struct gm_sim_range){start, size, value});
}

const struct gm_sim_range *gm_sim_ranges_find(const struct gm_sim_ranges *ranges, uint64_t address)
{
	size_t at = position(ranges, address);
	if (at < ranges->count && ranges->items[at].start <= address)
		return &ranges->items[at];
	return NULL;
}

bool gm_sim_ranges_remove(struct gm_sim_ranges *ranges, uint64_t start, struct gm_sim_range *ret)
{
	size_t at = position(ranges, start);
	if (at >= ranges->count || ranges->items[at].start != start)
		return false;
	*ret = ranges->items[at];
	ranges->used -= ret->size;
	memmove(&ranges->items[at], &ranges->items[at + 1], (--ranges->count - at) * sizeof(*ret));
	return true;
}
