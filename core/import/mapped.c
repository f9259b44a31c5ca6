/*
 * Which memory of expandable segments was mapped before a trace began.
 *
 * The first range that covers an address tells: where the trace unmaps it first, it was mapped
 * before; where it maps it first, it was not; and what only the segments have, which show the end,
 * was mapped all the time.
 *
 * The ends of all ranges divide the addresses into cells. Each range, in order, takes the cells
 * that no range before it has taken. `next` leads from a cell to the next one that is not taken, by
 * halved paths, so all of this costs little more than sorting the ends.
 *
 * A segment, as PyTorch counts them, is all that is mapped without a gap, whichever ranges told of
 * its parts.
 */
#include "import/mapped.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/search.h"
#include "base/sort.h"

struct gm_error *gm_mapped_see(struct gm_trace_device *device, const struct gm_mapped *range)
{
	if (range->start >= range->end)
		return NULL; /* it has no bytes, or wraps around: no allocator wrote that */
	return gm_array_push(&device->mapped, *range) ? NULL : &gm_error_no_memory;
}

struct cells {
	uint64_t *edges; /* sorted, each once; cell i is [edges[i], edges[i + 1]) */
	uint32_t *next;  /* of a cell that is taken; itself if it is not */
	bool *before;    /* was the cell mapped before the trace began? */
	size_t count;    /* of edges */
};

static uint32_t free_cell(struct cells *cells, uint32_t cell)
{
	while (cells->next[cell] != cell) {
		cells->next[cell] = cells->next[cells->next[cell]];
		cell = cells->next[cell];
	}
	return cell;
}

static bool make_cells(const struct gm_trace_device *device, struct cells *cells)
{
	size_t count = 0, ends = device->mapped.count * 2;
	_cleanup_free_ uint64_t *scratch = calloc(ends, sizeof(*scratch));
	cells->edges = calloc(ends, sizeof(*cells->edges));
	cells->next = calloc(ends, sizeof(*cells->next));
	cells->before = calloc(ends, sizeof(*cells->before));
	if (!scratch || !cells->edges || !cells->next || !cells->before)
		return false;
	for (size_t i = 0; i < device->mapped.count; i++) {
		cells->edges[2 * i] = device->mapped.items[i].start;
		cells->edges[2 * i + 1] = device->mapped.items[i].end;
	}
	gm_sort_by_address(cells->edges, scratch, ends, sizeof(*cells->edges));
	for (size_t i = 0; i < ends; i++)
		if (!i || cells->edges[i] != cells->edges[count - 1])
			cells->edges[count++] = cells->edges[i];
	for (size_t i = 0; i < count; i++)
		cells->next[i] = (uint32_t)i;
	cells->count = count;
	return true;
}

static bool add_before(
        struct gm_trace_device *device, const struct gm_mapped *range, uint64_t start, uint64_t end)
{
	const struct gm_before before = {
	        .address = start,
	        .size = end - start,
	        .requested = end - start,
	        .stream = range->stream,
	        .frames = range->frames,
	        .action = GM_SEGMENT_MAP,
	};
	return start == end || gm_array_push(&device->before, before);
}

/* The cells that are left to a range; adjacent ones are one segment. */
static bool take(struct gm_trace_device *device, const struct gm_mapped *range, struct cells *cells)
{
	const uint64_t *edges = cells->edges;
	size_t first = gm_partition_point(cells->count, middle, edges[middle] < range->start);
	uint64_t start = range->start, end = range->start;
	for (uint32_t cell = free_cell(cells, (uint32_t)first); edges[cell] < range->end;
	        cell = free_cell(cells, cell)) {
		if (edges[cell] != end) {
			if (range->before && !add_before(device, range, start, end))
				return false;
			start = edges[cell];
		}
		end = edges[cell + 1];
		cells->before[cell] = range->before;
		cells->next[cell] = cell + 1;
	}
	return !range->before || add_before(device, range, start, end);
}

static uint64_t count_segments(const struct cells *cells)
{
	uint64_t count = 0;
	for (size_t i = 0; i < cells->count; i++)
		count += cells->before[i] && !(i && cells->before[i - 1]);
	return count;
}

struct gm_error *gm_mapped_find(struct gm_trace_device *device)
{
	struct cells cells = {0};
	if (!device->mapped.count)
		return NULL;
	bool good = make_cells(device, &cells);
	for (size_t i = 0; i < device->mapped.count && good; i++)
		good = take(device, &device->mapped.items[i], &cells);
	if (good)
		device->mapped_before = count_segments(&cells);
	free(cells.edges);
	free(cells.next);
	free(cells.before);
	gm_array_deinit(&device->mapped);
	return good ? NULL : &gm_error_no_memory;
}
