/*
 * Segments that exist after an event.
 *
 * Each mapped range of an expandable segment is one segment, as in PyTorch
 * (CUDACachingAllocator.cpp, snapshot()): it grows at either end, and an unmapped part is cut out
 * of it. The segments of a device do not overlap: a recording with gaps may lack the event that
 * removed one, and then the later one counts. So a tree finds one by any address within it.
 */
#include <search.h>
#include <stdlib.h>

#include "model/internal.h"
#include "model/state.h"
#include "torch/allocator.h"

struct node {
	struct gm_segment segment; /* first: the tree compares segments */
	struct node *next, *previous;
};

struct segments {
	void *tree;
	struct node *first;
	size_t count;
};

static uint64_t end_of(const struct gm_segment *segment)
{
	uint64_t end = segment->address + segment->size;
	return end < segment->address ? UINT64_MAX : end;
}

/* Segments that overlap are equal. */
static int compare(const void *a, const void *b)
{
	const struct gm_segment *left = a, *right = b;
	if (left->device != right->device)
		return left->device < right->device ? -1 : 1;
	if (end_of(left) <= right->address)
		return -1;
	return end_of(right) <= left->address;
}

/* Any segment that has memory of a range; NULL: there is none. */
static struct node *find(
        const struct segments *segments, size_t device, uint64_t address, uint64_t size)
{
	const struct gm_segment key = {
	        .address = address, .size = size, .device = (uint16_t)device};
	void *found = size ? tfind(&key, &segments->tree, compare) : NULL;
	return found ? *(struct node **)found : NULL;
}

static bool insert(struct segments *segments, const struct gm_segment *segment)
{
	struct node *node = malloc(sizeof(*node));
	if (!node)
		return false;
	*node = (struct node){.segment = *segment, .next = segments->first};
	if (!tsearch(&node->segment, &segments->tree, compare)) {
		free(node);
		return false;
	}
	if (segments->first)
		segments->first->previous = node;
	segments->first = node;
	segments->count++;
	return true;
}

static void drop(struct segments *segments, struct node *node)
{
	tdelete(&node->segment, &segments->tree, compare);
	if (node->next)
		node->next->previous = node->previous;
	if (node->previous)
		node->previous->next = node->next;
	else
		segments->first = node->next;
	segments->count--;
	free(node);
}

/* Does it continue `one`, which is a mapped range too? */
static bool continues(const struct node *other, const struct gm_segment *one)
{
	return other && other->segment.mapped && other->segment.stream == one->stream;
}

static bool add(struct segments *segments, const struct gm_segment *given)
{
	struct gm_segment one = *given;
	struct node *other;
	if (!one.size)
		return true;
	while ((other = find(segments, one.device, one.address, one.size)))
		drop(segments, other);
	if (!one.mapped)
		return insert(segments, &one);
	other = one.address ? find(segments, one.device, one.address - 1, 1) : NULL;
	if (continues(other, &one)) {
		one.address = other->segment.address;
		one.size += other->segment.size;
		one.alloc = other->segment.alloc;
		one.small |= other->segment.small;
		drop(segments, other);
	}
	other = find(segments, one.device, end_of(&one), 1);
	if (continues(other, &one)) {
		one.size += other->segment.size;
		one.small |= other->segment.small;
		drop(segments, other);
	}
	return insert(segments, &one);
}

static bool cut(struct segments *segments, size_t device, uint64_t address, uint64_t size)
{
	const struct gm_segment range = {.address = address, .size = size};
	uint64_t end = end_of(&range);
	for (struct node *node; (node = find(segments, device, address, size));) {
		const struct gm_segment one = node->segment;
		struct gm_segment rest = one;
		drop(segments, node);
		rest.mapped = true;
		rest.size = one.address < address ? address - one.address : 0;
		if (rest.size && !insert(segments, &rest))
			return false;
		rest.address = end;
		rest.size = end_of(&one) > end ? end_of(&one) - end : 0;
		if (rest.size && !insert(segments, &rest))
			return false;
	}
	return true;
}

/* The allocator maps one page of 2 MiB at a time for small blocks, and whole pages of 20 MiB for
 * others. Memory that was there before the recording was mapped in an unknown number of parts. */
static bool has_small_pages(const struct gm_event *event)
{
	if (event->action == GM_SEGMENT_MAP && event->flags & GM_EVENT_PREEXISTING)
		return event->size % GM_TORCH_LARGE_SEGMENT != 0;
	return event->size <= GM_TORCH_SMALL_SEGMENT;
}

static bool apply(
        struct segments *segments, const struct gm_event *event, size_t device, uint32_t number)
{
	struct node *node;
	switch ((enum gm_action)event->action) {
	case GM_SEGMENT_ALLOC:
	case GM_SEGMENT_MAP:
		return add(segments, &(struct gm_segment){.address = event->address,
		                             .size = event->size,
		                             .stream = event->stream,
		                             .device = (uint16_t)device,
		                             .alloc = number,
		                             .mapped = event->action == GM_SEGMENT_MAP,
		                             .small = has_small_pages(event)});
	case GM_SEGMENT_UNMAP:
		return cut(segments, device, event->address, event->size);
	case GM_SEGMENT_FREE:
		node = find(segments, device, event->address, 1);
		if (node && node->segment.address == event->address)
			drop(segments, node);
		return true;
	default:
		return true;
	}
}

static bool apply_all(struct segments *segments, const struct gm_model *model, uint64_t event)
{
	for (size_t i = 0; i < model->segment_events.count; i++) {
		uint32_t number = model->segment_events.items[i];
		if (number > event)
			break;
		struct gm_event one;
		gm_log_event(model->log, number, &one);
		size_t device = gm_model_find_device(model, one.device_type, one.device);
		if (!apply(segments, &one, device, number))
			return false;
	}
	return true;
}

struct gm_error *gm_model_segments_after(const struct gm_model *model, uint64_t event,
        struct gm_segment **ret_segments, size_t *ret_count)
{
	struct segments segments = {0};
	bool good = apply_all(&segments, model, event);
	struct gm_segment *all = good ? calloc(segments.count + 1, sizeof(*all)) : NULL;
	size_t count = 0;
	while (segments.first) {
		if (all)
			all[count++] = segments.first->segment;
		drop(&segments, segments.first);
	}
	if (!all)
		return &gm_error_no_memory;
	qsort(all, count, sizeof(*all), compare);
	*ret_segments = all;
	*ret_count = count;
	return NULL;
}

bool gm_segment_is_small(const struct gm_segment *segment, uint64_t block)
{
	return segment->mapped && block ? block <= GM_TORCH_SMALL_REQUEST : segment->small;
}
