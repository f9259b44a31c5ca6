#include "ask/oom/oom_release.h"

#include <stdlib.h>
#include <string.h>

#include "ask/recording/place.h"
#include "ask/target/request.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/search.h"
#include "torch/allocator.h"

/* The memory, the request, and what is given up: by part. */
struct search {
	const struct gm_memory *memory;
	uint64_t rounded, missing;
	enum gm_pool_kind pool;
	bool joins;    /* free parts next to each other may serve it */
	uint8_t *gone; /* owned */
};

static bool is_movable(const struct gm_memory_segment *segment)
{
	return !segment->is_private && !segment->pending;
}

static bool serves(const struct search *search, const struct gm_memory_segment *segment)
{
	return search->joins && !segment->is_private && segment->pool == search->pool;
}

static bool is_part(const struct search *search, size_t part)
{
	uint8_t state = search->memory->parts[part].state;
	return state == GM_SEGMENT_PART_FREE ||
	       (state == GM_SEGMENT_PART_USED && search->gone[part]);
}

/* Bytes of a segment that the device would get back. */
static uint64_t given_back(const struct search *search, const struct gm_memory_segment *segment)
{
	uint64_t page =
	        segment->pool == GM_POOL_SMALL ? GM_TORCH_SMALL_SEGMENT : GM_TORCH_LARGE_SEGMENT;
	uint64_t pages = 0, run = 0, end = segment->address;
	bool whole = true;
	if (segment->is_private)
		return 0;
	for (size_t i = segment->first; i <= segment->first + segment->count; i++) {
		bool free_too = i < segment->first + segment->count && is_part(search, i);
		whole &= free_too || i == segment->first + segment->count ||
		         search->memory->parts[i].state == GM_SEGMENT_PART_UNMAPPED;
		if (free_too) {
			const struct gm_segment_part *part = &search->memory->parts[i];
			run = run ? run + part->size : part->size;
			end = part->address + part->size;
		} else if (run) {
			uint64_t start = (end - run - segment->address + page - 1) / page * page;
			uint64_t last = (end - segment->address) / page * page;
			pages += last > start ? last - start : 0;
			run = 0;
		}
	}
	return segment->expandable ? pages : whole ? segment->size : 0;
}

/* Would the request be served without what is gone? */
static bool is_enough(const struct search *search)
{
	const struct gm_memory *memory = search->memory;
	uint64_t back = 0;
	for (size_t i = 0; i < memory->segment_count; i++) {
		const struct gm_memory_segment *segment = &memory->segments[i];
		uint64_t run = 0;
		back += given_back(search, segment);
		for (size_t j = segment->first; j < segment->first + segment->count; j++) {
			run = is_part(search, j) ? run + memory->parts[j].size : 0;
			if (run >= search->rounded && serves(search, segment))
				return true;
		}
	}
	return back >= search->missing;
}

/* --- blocks next to each other ---------------------------------------------------------------- */

struct found {
	uint64_t bytes; /* UINT64_MAX: nothing */
	size_t first, end;
};

static uint64_t used(const struct gm_segment_part *part)
{
	return part->state == GM_SEGMENT_PART_USED ? part->size : 0;
}

/* The parts of one segment that have the least in use, of those that are large enough together. */
static void look_within(
        const struct search *search, const struct gm_memory_segment *segment, struct found *best)
{
	const struct gm_segment_part *parts = search->memory->parts;
	size_t first = segment->first;
	uint64_t span = 0, cost = 0;
	for (size_t i = segment->first; i < segment->first + segment->count; i++) {
		if (parts[i].state != GM_SEGMENT_PART_FREE &&
		        parts[i].state != GM_SEGMENT_PART_USED) {
			first = i + 1;
			span = cost = 0;
			continue;
		}
		span += parts[i].size;
		cost += used(&parts[i]);
		while (span - parts[first].size >= search->rounded) {
			span -= parts[first].size;
			cost -= used(&parts[first++]);
		}
		if (span >= search->rounded && cost < best->bytes)
			*best = (struct found){cost, first, i + 1};
	}
}

/* --- whole segments --------------------------------------------------------------------------- */

struct candidate {
	size_t segment;
	uint64_t used, size;
};

/* The least in use for each byte of the segment. */
static int by_cost(const void *a, const void *b)
{
	const struct candidate *left = a, *right = b;
	double costs[] = {
	        (double)left->used / (double)left->size, (double)right->used / (double)right->size};
	if (costs[0] != costs[1])
		return costs[0] < costs[1] ? -1 : 1;
	if (left->size != right->size)
		return left->size > right->size ? -1 : 1;
	return left->segment < right->segment ? -1 : 1;
}

/* Takes segments until they are enough, and puts back what is not needed for it. The chosen ones
 * come first; returns their number, 0: all of them are too little. */
static size_t choose(struct candidate *all, size_t count, uint64_t missing, uint64_t *ret_bytes)
{
	size_t chosen = 0, kept = 0;
	uint64_t size = 0;
	*ret_bytes = 0;
	if (count)
		qsort(all, count, sizeof(*all), by_cost);
	/* one that is enough may cost less than several that are cheap for their size */
	size_t single = count;
	for (size_t i = 0; i < count; i++)
		if (all[i].size >= missing && (single == count || all[i].used < all[single].used))
			single = i;
	for (; chosen < count && size < missing; chosen++)
		size += all[chosen].size;
	if (size < missing)
		return 0;
	for (size_t i = 0; i < chosen; i++) {
		if (size - all[i].size >= missing) {
			size -= all[i].size;
			continue;
		}
		*ret_bytes += all[i].used;
		all[kept++] = all[i];
	}
	if (single < count && single >= chosen && all[single].used < *ret_bytes) {
		*ret_bytes = all[single].used;
		all[0] = all[single];
		kept = 1;
	}
	return kept;
}

static bool mark_segments(struct search *search, uint64_t most, size_t *ret_segments)
{
	const struct gm_memory *memory = search->memory;
	GM_ARRAY(struct candidate) all = {0};
	uint64_t bytes;
	bool fits = true;
	*ret_segments = 0;
	for (size_t i = 0; fits && i < memory->segment_count; i++) {
		const struct gm_memory_segment *segment = &memory->segments[i];
		if (is_movable(segment) && !segment->expandable && segment->size)
			fits = gm_array_push(
			        &all, ((struct candidate){i, segment->used, segment->size}));
	}
	size_t count = fits ? choose(all.items, all.count, search->missing, &bytes) : 0;
	if (count && bytes < most) {
		memset(search->gone, 0, memory->part_count);
		for (size_t i = 0; i < count; i++) {
			const struct gm_memory_segment *segment =
			        &memory->segments[all.items[i].segment];
			memset(search->gone + segment->first, 1, segment->count);
		}
		*ret_segments = count;
	}
	gm_array_deinit(&all);
	return fits;
}

/* --- the answer ------------------------------------------------------------------------------- */

/* What a recording says of where the blocks were allocated: the line with most of them. */
static struct gm_error *name_lines(const struct gm_memory *memory, struct gm_oom_release *release)
{
	const struct gm_log *log = memory->model ? gm_model_log(memory->model) : NULL;
	struct line {
		struct gm_frame_place place;
		size_t blocks;
	};
	GM_ARRAY(struct line) lines = {0};
	bool fits = true;
	for (size_t i = 0; log && fits && i < release->blocks; i++) {
		uint32_t index = release->indices[i], stack, native;
		struct gm_frame_place place;
		const struct gm_block *block =
		        index == GM_NO_BLOCK ? NULL : gm_model_block(memory->model, index);
		if (!block || block->alloc == GM_NO_EVENT)
			continue;
		gm_model_stacks(memory->model, block->alloc, &stack, &native);
		if (!gm_place_site(log, stack, &place))
			continue;
		size_t j = 0;
		while (j < lines.count && (lines.items[j].place.line != place.line ||
		                                  strcmp(lines.items[j].place.file, place.file)))
			j++;
		if (j < lines.count)
			lines.items[j].blocks++;
		else
			fits = gm_array_push(&lines, ((struct line){place, 1}));
	}
	size_t most = 0;
	for (size_t i = 1; i < lines.count; i++)
		most = lines.items[i].blocks > lines.items[most].blocks ? i : most;
	if (fits && lines.count) {
		release->at.file = strdup(lines.items[most].place.file);
		release->at.function = strdup(lines.items[most].place.function);
		release->at.line = lines.items[most].place.line;
		release->at_blocks = lines.items[most].blocks;
		fits = release->at.file && release->at.function;
	}
	gm_array_deinit(&lines);
	return fits ? NULL : &gm_error_no_memory;
}

static struct gm_error *take(const struct search *search, struct gm_oom_release *release)
{
	const struct gm_memory *memory = search->memory;
	release->addresses = calloc(memory->part_count + 1, sizeof(*release->addresses));
	release->indices = calloc(memory->part_count + 1, sizeof(*release->indices));
	if (!release->addresses || !release->indices)
		return &gm_error_no_memory;
	for (size_t i = 0; i < memory->part_count; i++) {
		const struct gm_segment_part *part = &memory->parts[i];
		if (part->state != GM_SEGMENT_PART_USED || !search->gone[i])
			continue;
		release->addresses[release->blocks] = part->address;
		release->indices[release->blocks++] = part->block;
		release->bytes += part->size;
	}
	return name_lines(memory, release);
}

void gm_oom_release_deinit(struct gm_oom_release *release)
{
	free(release->addresses);
	free(release->indices);
	free(release->at.file);
	free(release->at.function);
	*release = (struct gm_oom_release){0};
}

/* The cheapest of all ways, in search->gone and *release. */
static struct gm_error *look(struct search *search, struct gm_oom_release *release)
{
	const struct gm_memory *memory = search->memory;
	struct found best = {.bytes = UINT64_MAX};
	size_t segments;
	/* all that can be given up; what waits for a stream and private pools remain */
	memset(search->gone, 1, memory->part_count);
	release->known = true;
	if (!is_enough(search))
		return NULL;
	release->possible = true;
	for (size_t i = 0; i < memory->segment_count; i++)
		if (serves(search, &memory->segments[i]))
			look_within(search, &memory->segments[i], &best);
	if (best.bytes != UINT64_MAX) {
		memset(search->gone, 0, memory->part_count);
		memset(search->gone + best.first, 1, best.end - best.first);
	} else {
		for (size_t i = 0; i < memory->segment_count; i++)
			if (memory->segments[i].is_private)
				memset(search->gone + memory->segments[i].first, 0,
				        memory->segments[i].count);
	}
	if (!mark_segments(search, best.bytes, &segments))
		return &gm_error_no_memory;
	release->segments = segments;
	release->within = best.bytes != UINT64_MAX && !segments;
	return take(search, release);
}

/* Is what grew enough by itself? */
static bool growth_is_enough(struct search *search, const struct gm_oom_growth *growth)
{
	const struct gm_memory *memory = search->memory;
	memset(search->gone, 0, memory->part_count);
	for (size_t i = 0; i < memory->part_count; i++) {
		uint32_t block = memory->parts[i].block;
		size_t at =
		        gm_partition_point(growth->blocks, middle, growth->indices[middle] < block);
		search->gone[i] = at < growth->blocks && growth->indices[at] == block;
	}
	return is_enough(search);
}

/* Are all free parts of one stream, and split for any request? Then one that is large enough will
 * be used. */
static bool may_join(const struct gm_memory *memory)
{
	for (size_t i = 1; i < memory->segment_count; i++)
		if (memory->segments[i].stream != memory->segments[0].stream)
			return false;
	return !memory->allocator || memory->allocator->max_split == 0;
}

struct gm_error *gm_oom_find_release(struct gm_oom *oom, uint64_t missing)
{
	const struct gm_memory *memory = &oom->memory;
	uint64_t bytes = oom->facts.requested;
	/* Which segments belong to a private pool is only partly known of a recording. */
	bool pools = memory->event != GM_NO_EVENT && memory->private_free;
	/* PyTorch's text rounds, and has the size of the segment of a small request. */
	bool text = oom->message != NULL;
	if (!oom->memory_is_then || pools || bytes == GM_NOT_KNOWN || !missing ||
	        missing == GM_NOT_KNOWN || !gm_memory_agrees(memory))
		return NULL;
	if (text && bytes > GM_TORCH_SMALL_SEGMENT)
		bytes += bytes / 128;
	struct search search = {.memory = memory,
	        .rounded = (bytes + GM_TORCH_BLOCK_STEP - 1) / GM_TORCH_BLOCK_STEP *
	                   GM_TORCH_BLOCK_STEP,
	        .missing = missing,
	        .pool = bytes <= GM_TORCH_SMALL_REQUEST ? GM_POOL_SMALL : GM_POOL_LARGE,
	        .joins = may_join(memory) && !(text && bytes <= GM_TORCH_SMALL_SEGMENT),
	        .gone = calloc(memory->part_count + 1, 1)};
	if (!search.gone)
		return &gm_error_no_memory;
	struct gm_error *error = look(&search, &oom->release);
	if (!error && oom->growth.lines)
		oom->growth.enough = growth_is_enough(&search, &oom->growth);
	free(search.gone);
	return error;
}
