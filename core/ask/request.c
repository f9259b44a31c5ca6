/* What PyTorch's allocator would do with a request, given the memory as it is cut up. */
#include "ask/memory.h"
#include "torch/allocator.h"

/* The driver's granularity of mapping. */
enum { PAGE = 2 << 20 };

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

uint64_t gm_memory_movable(const struct gm_memory *memory)
{
	uint64_t pages = 0;
	for (size_t i = 0; i < memory->piece_count; i++) {
		const struct gm_piece *piece = &memory->pieces[i];
		uint64_t start = round_up(piece->address, PAGE);
		uint64_t end = (piece->address + piece->size) / PAGE * PAGE;
		if (piece->state == GM_PIECE_FREE && end > start)
			pages += end - start;
	}
	return pages;
}

static void count_hole(struct gm_holes *holes, uint64_t bytes)
{
	holes->count++;
	holes->bytes += bytes;
	if (bytes > holes->largest)
		holes->largest = bytes;
}

/* With max_split_size a large block is neither cut for a small request nor given to one that wastes 20 MiB. */
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
			const struct gm_piece *piece = &memory->pieces[j];
			if (piece->state != GM_PIECE_FREE)
				continue;
			if (segment->is_private)
				count_hole(&request.private_pool, piece->size);
			else if (segment->pool != (request.small ? GM_POOL_SMALL : GM_POOL_LARGE))
				count_hole(&request.other_pool, piece->size);
			else if (segment->stream != stream)
				count_hole(&request.other_stream, piece->size);
			else if (piece->size < request.rounded)
				count_hole(&request.too_small, piece->size);
			else if (is_unsplittable(memory, request.rounded, piece->size))
				count_hole(&request.unsplittable, piece->size);
			else if (piece->size < best) {
				best = piece->size;
				request.fits = true;
				request.at = piece->address;
			}
		}
	}
	*ret_request = request;
}
