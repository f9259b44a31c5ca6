/* What PyTorch's allocator would do with a request, given the current blocks and segments. */
#include "ask/target/request.h"
#include "torch/allocator.h"

/* The driver's granularity of mapping. */

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
	uint64_t rest = bytes % step;
	return rest == 0 || bytes > UINT64_MAX - step ? bytes : bytes + step - rest;
}

uint64_t gm_segment_size(uint64_t bytes)
{
	if (bytes <= GM_TORCH_SMALL_REQUEST)
		return GM_TORCH_SMALL_SEGMENT;
	return bytes < GM_TORCH_MIDDLE_REQUEST ? GM_TORCH_LARGE_SEGMENT
	                                       : round_up(bytes, GM_TORCH_SEGMENT_STEP);
}

static uint64_t page_of(const struct gm_memory_segment *segment)
{
	bool small = segment->pool == GM_POOL_UNKNOWN ? segment->size <= GM_TORCH_SMALL_SEGMENT
	                                              : segment->pool == GM_POOL_SMALL;
	return small ? GM_TORCH_SMALL_SEGMENT : GM_TORCH_LARGE_SEGMENT;
}

/* Do all adjacent segments, which would merge with it, consist of whole pages? */
static bool is_aligned(const struct gm_memory *memory, const struct gm_memory_segment *segment)
{
	uint64_t page = page_of(segment);
	for (size_t i = 0; i < memory->segment_count; i++) {
		const struct gm_memory_segment *other = &memory->segments[i];
		if (other != segment && !other->is_private && other->stream == segment->stream &&
		        page_of(other) == page && other->size % page)
			return false;
	}
	return true;
}

/*
 * An expandable segment of large blocks gets and releases memory in pages of 20 MiB, one of small
 * blocks in pages of 2 MiB. All blocks of a stream are in one of them. Where a page begins in one
 * of our segments is known only if the others consist of whole pages. Otherwise a hole of n pages
 * and a fraction is certain to contain n - 1 whole ones.
 */
uint64_t gm_memory_movable(const struct gm_memory *memory)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < memory->segment_count; i++) {
		const struct gm_memory_segment *segment = &memory->segments[i];
		if (segment->is_private || !segment->free)
			continue;
		uint64_t page = page_of(segment);
		bool aligned = is_aligned(memory, segment);
		for (size_t j = 0; j < segment->count; j++) {
			const struct gm_segment_part *part = &memory->parts[segment->first + j];
			uint64_t offset = part->address - segment->address;
			uint64_t start = round_up(offset, page);
			uint64_t end = (offset + part->size) / page * page;
			if (part->state != GM_SEGMENT_PART_FREE)
				continue;
			if (aligned && end > start)
				bytes += end - start;
			else if (!aligned && part->size >= 2 * page)
				bytes += (part->size / page - 1) * page;
		}
	}
	return bytes;
}

static void count_hole(struct gm_holes *holes, uint64_t bytes)
{
	holes->count++;
	holes->bytes += bytes;
	if (bytes > holes->largest)
		holes->largest = bytes;
}

/* With max_split_size a large block is not split for a small request, and not used for one that
 * would waste 20 MiB. */
static bool is_unsplittable(const struct gm_memory *memory, uint64_t rounded, uint64_t hole)
{
	uint64_t most = memory->allocator ? memory->allocator->max_split : 0;
	if (most == 0)
		return false;
	return rounded < most ? hole >= most : hole >= rounded + GM_TORCH_LARGE_SEGMENT;
}

void gm_memory_request(const struct gm_memory *memory, uint64_t bytes, uint64_t stream,
        struct gm_request *ret_request)
{
	struct gm_request request = {.bytes = bytes, .stream = stream};
	request.rounded = bytes ? round_up(bytes, GM_TORCH_BLOCK_STEP) : GM_TORCH_BLOCK_STEP;
	request.small = request.rounded <= GM_TORCH_SMALL_REQUEST;
	request.segment = gm_segment_size(request.rounded);
	uint64_t best = UINT64_MAX;
	for (size_t i = 0; i < memory->segment_count; i++) {
		const struct gm_memory_segment *segment = &memory->segments[i];
		for (size_t j = segment->first; j < segment->first + segment->count; j++) {
			const struct gm_segment_part *part = &memory->parts[j];
			if (part->state != GM_SEGMENT_PART_FREE)
				continue;
			if (segment->is_private)
				count_hole(&request.private_pool, part->size);
			else if (segment->pool != (request.small ? GM_POOL_SMALL : GM_POOL_LARGE))
				count_hole(&request.other_pool, part->size);
			else if (segment->stream != stream)
				count_hole(&request.other_stream, part->size);
			else if (part->size < request.rounded)
				count_hole(&request.too_small, part->size);
			else if (is_unsplittable(memory, request.rounded, part->size))
				count_hole(&request.unsplittable, part->size);
			else if (part->size < best) {
				best = part->size;
				request.fits = true;
				request.at = part->address;
			}
		}
	}
	*ret_request = request;
}
