/*
 * Follows a trace to find what it does not contain: the blocks and segments from before it began,
 * and the size that the allocator gave each block. The latter follows the rules of
 * CUDACachingAllocator.cpp of torch 2.11 (round_size, should_split): steps of 512 bytes, and a
 * large block keeps a remainder of up to 1 MiB. Free neighbours are merged at once, so the
 * remainder extends to the next used block.
 */
#include "import/replay.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/search.h"
#include "import/mapped.h"
#include "import/values.h"
#include "torch/allocator.h"

/* Further segments, or further blocks of one, are not followed: their blocks count as rounded. */
enum { EXTENTS_MAX = 1 << 16, USED_MAX = 1 << 17 };

static uint64_t round_up(uint64_t size)
{
	return size ? (size + GM_TORCH_BLOCK_STEP - 1) / GM_TORCH_BLOCK_STEP * GM_TORCH_BLOCK_STEP
	            : GM_TORCH_BLOCK_STEP;
}

/* ---- addresses ------------------------------------------------------------------------------ */

static size_t slot_of(const struct gm_lived *slots, size_t count, uint64_t address)
{
	size_t at = gm_hash_mix(address) & (count - 1);
	while (slots[at].state != GM_LIVED_NONE && slots[at].address != address)
		at = (at + 1) & (count - 1);
	return at;
}

static bool grow(struct gm_trace_device *device)
{
	size_t grown = device->lived_slots ? device->lived_slots * 2 : 256;
	struct gm_lived *slots = calloc(grown, sizeof(*slots));
	if (!slots)
		return false;
	for (size_t i = 0; i < device->lived_slots; i++)
		if (device->lived[i].state != GM_LIVED_NONE)
			slots[slot_of(slots, grown, device->lived[i].address)] = device->lived[i];
	free(device->lived);
	device->lived = slots;
	device->lived_slots = grown;
	return true;
}

/* The state of an address, GM_LIVED_NONE when it appears for the first time: then the caller sets
 * it. NULL: out of memory. */
static struct gm_lived *lived_at(struct gm_trace_device *device, uint64_t address)
{
	if (device->lived_count * 2 >= device->lived_slots && !grow(device))
		return NULL;
	struct gm_lived *slot =
	        &device->lived[slot_of(device->lived, device->lived_slots, address)];
	if (slot->state == GM_LIVED_NONE) {
		device->lived_count++;
		*slot = (struct gm_lived){.address = address};
	}
	return slot;
}

struct gm_lived *gm_lived_find(const struct gm_trace_device *device, uint64_t address)
{
	if (!device->lived_slots)
		return NULL;
	struct gm_lived *found =
	        &device->lived[slot_of(device->lived, device->lived_slots, address)];
	return found->state == GM_LIVED_NONE ? NULL : found;
}

/* ---- segments from cudaMalloc --------------------------------------------------------------- */

/* The number of extents that begin at or before an address. */
static size_t extents_upto(const struct gm_trace_device *device, uint64_t address)
{
	return gm_partition_point(
	        device->extents.count, middle, device->extents.items[middle].start <= address);
}

static struct gm_extent *extent_at(const struct gm_trace_device *device, uint64_t address)
{
	size_t count = extents_upto(device, address);
	struct gm_extent *extent = count ? &device->extents.items[count - 1] : NULL;
	return extent && address < extent->end ? extent : NULL;
}

static struct gm_error *add_extent(struct gm_trace_device *device, uint64_t address, uint64_t size)
{
	if (!size || device->extents.count == EXTENTS_MAX || address + size < address ||
	        extent_at(device, address))
		return NULL;
	size_t at = extents_upto(device, address);
	if (!gm_array_reserve(&device->extents, 1))
		return &gm_error_no_memory;
	struct gm_extent *items = device->extents.items;
	memmove(items + at + 1, items + at, (device->extents.count++ - at) * sizeof(*items));
	items[at] = (struct gm_extent){.start = address, .end = address + size};
	return NULL;
}

static void remove_extent(struct gm_trace_device *device, uint64_t address)
{
	struct gm_extent *extent = extent_at(device, address);
	if (!extent || extent->start != address)
		return;
	gm_array_deinit(&extent->used);
	size_t at = (size_t)(extent - device->extents.items);
	memmove(extent, extent + 1, (--device->extents.count - at) * sizeof(*extent));
}

/* The index in `used` of the first block at or after an address; `near` is its last index. */
static size_t used_from(const struct gm_extent *extent, uint64_t address, size_t near)
{
	enum { STEPS = 32 };
	const uint64_t *items = extent->used.items;
	size_t low = 0, high = extent->used.count / 2;
	size_t at = near / 2 < high ? near / 2 : high;
	for (int i = 0; i < STEPS; i++) {
		if (at > 0 && items[at * 2 - 2] >= address)
			at--;
		else if (at < high && items[at * 2] < address)
			at++;
		else
			return at * 2;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (items[middle * 2] < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low * 2;
}

/* The segment of an address; `lived` may know it from the last time. */
static struct gm_extent *extent_of(
        const struct gm_trace_device *device, uint64_t address, struct gm_lived *lived)
{
	if (lived->extent < device->extents.count) {
		struct gm_extent *extent = &device->extents.items[lived->extent];
		if (address >= extent->start && address < extent->end)
			return extent;
	}
	struct gm_extent *extent = extent_at(device, address);
	if (extent)
		lived->extent = (uint32_t)(extent - device->extents.items);
	return extent;
}

/* Takes a block; *ret_size: the size that the allocator gave it. */
static struct gm_error *use(struct gm_trace_device *device, uint64_t address, uint64_t size,
        bool exact, struct gm_lived *lived, uint64_t *ret_size)
{
	*ret_size = exact ? size : round_up(size);
	struct gm_extent *extent = extent_of(device, address, lived);
	if (!extent)
		return NULL;
	size_t at = used_from(extent, address, lived->place);
	lived->place = (uint32_t)at;
	uint64_t end = at < extent->used.count ? extent->used.items[at] : extent->end;
	bool small = extent->end - extent->start <= GM_TORCH_SMALL_SEGMENT;
	if (!exact && end > address && end - address >= *ret_size) {
		uint64_t rest = end - address - *ret_size;
		if (small ? rest < GM_TORCH_BLOCK_STEP : rest <= GM_TORCH_SMALL_REQUEST)
			*ret_size = end - address;
	}
	if (extent->used.count >= USED_MAX ||
	        (at < extent->used.count && extent->used.items[at] == address))
		return NULL; /* allocated twice: the trace is not reliable here */
	if (!gm_array_reserve(&extent->used, 2))
		return &gm_error_no_memory;
	uint64_t *items = extent->used.items;
	memmove(items + at + 2, items + at, (extent->used.count - at) * sizeof(*items));
	items[at] = address;
	items[at + 1] = address + *ret_size;
	extent->used.count += 2;
	return NULL;
}

static void release(struct gm_trace_device *device, uint64_t address, struct gm_lived *lived)
{
	struct gm_extent *extent = extent_of(device, address, lived);
	if (!extent)
		return;
	size_t at = used_from(extent, address, lived->place);
	if (at >= extent->used.count || extent->used.items[at] != address)
		return;
	extent->used.count -= 2;
	memmove(extent->used.items + at, extent->used.items + at + 2,
	        (extent->used.count - at) * sizeof(uint64_t));
}

/* --- blocks from before the trace ------------------------------------------------------------- */

static struct gm_error *freed_unseen(const struct gm_snapshot *snapshot,
        struct gm_trace_device *device, const struct gm_entry *entry, bool completed)
{
	const struct gm_before before = {
	        .address = entry->address,
	        .size = device->exact ? entry->size : round_up(entry->size),
	        .requested = entry->size,
	        .stream = gm_pickle_stream(&snapshot->pickle, entry->stream),
	        .action = GM_ALLOC,
	        .free_pending = completed,
	};
	return gm_array_push(&device->before, before) ? NULL : &gm_error_no_memory;
}

/* PyTorch makes a separate list for each traceback that it took, so the same list means the same
 * traceback. */
static void count_stack(const struct gm_snapshot *snapshot, struct gm_trace_device *device,
        const struct gm_lived *lived, const struct gm_entry *entry)
{
	const struct gm_object *frames = gm_pickle_object(&snapshot->pickle, entry->frames);
	bool some = gm_value_tag(entry->frames) == GM_TAG_STACK ||
	            (frames && frames->kind == GM_LIST && frames->first);
	if (lived->state != GM_LIVED_NOW || !some)
		return;
	if (snapshot->pickle.entries.items[lived->entry].frames == entry->frames)
		device->frees_as_made++;
	else
		device->frees_on_their_own++;
}

/* An event of a block: an allocation, or one that may show a block from before. */
static struct gm_error *see_event(
        struct gm_snapshot *snapshot, struct gm_trace_device *device, uint32_t index)
{
	const struct gm_entry *entry = &snapshot->pickle.entries.items[index];
	struct gm_lived *lived = lived_at(device, entry->address);
	if (!lived)
		return &gm_error_no_memory;
	if (entry->action == GM_ALLOC) {
		device->allocations++;
		lived->state = GM_LIVED_NOW;
		lived->entry = index;
		return NULL;
	}
	bool unseen = lived->state == GM_LIVED_NONE, completed = entry->action == GM_FREE_COMPLETED;
	device->requests += !completed;
	device->completions += completed;
	device->freed_again +=
	        lived->state == GM_LIVED_FREED || (lived->state == GM_LIVED_PENDING && !completed);
	if (!completed)
		count_stack(snapshot, device, lived, entry);
	if (unseen)
		lived->entry = index;
	lived->state = completed ? GM_LIVED_FREED : GM_LIVED_PENDING;
	return unseen ? freed_unseen(snapshot, device, entry, completed) : NULL;
}

static struct gm_error *see_mapped(const struct gm_snapshot *snapshot,
        struct gm_trace_device *device, const struct gm_entry *entry)
{
	const struct gm_mapped range = {
	        .start = entry->address,
	        .end = entry->address + entry->size,
	        .stream = gm_pickle_stream(&snapshot->pickle, entry->stream),
	        .before = entry->action == GM_SEGMENT_UNMAP,
	};
	return gm_mapped_see(device, &range);
}

/* First reading: the lives of addresses, and what they show of the time before. */
static struct gm_error *find_lives(struct gm_snapshot *snapshot, struct gm_trace_device *device)
{
	for (uint32_t i = 0; i < device->count; i++) {
		const struct gm_entry *entry = &snapshot->pickle.entries.items[device->first + i];
		switch (entry->action) {
		case GM_ALLOC:
		case GM_FREE_REQUESTED:
		case GM_FREE_COMPLETED:
			gm_try(see_event(snapshot, device, device->first + i));
			break;
		case GM_SEGMENT_ALLOC:
			gm_try(add_extent(device, entry->address, entry->size));
			break;
		case GM_SEGMENT_FREE:
			if (extent_at(device, entry->address)) {
				remove_extent(device, entry->address);
				break;
			}
			const struct gm_before before = {
			        .address = entry->address,
			        .size = entry->size,
			        .requested = entry->size,
			        .stream = gm_pickle_stream(&snapshot->pickle, entry->stream),
			        .action = GM_SEGMENT_ALLOC,
			};
			if (!gm_array_push(&device->before, before))
				return &gm_error_no_memory;
			break;
		case GM_SEGMENT_MAP:
		case GM_SEGMENT_UNMAP:
			gm_try(see_mapped(snapshot, device, entry));
			break;
		default:
			break;
		}
	}
	return NULL;
}

/* A block of the segments, at the end of the trace. */
static struct gm_error *see_block(struct gm_snapshot *snapshot, struct gm_trace_device *device,
        gm_value block, uint64_t address, uint64_t size, uint64_t stream)
{
	struct gm_pickle *pickle = &snapshot->pickle;
	gm_value state = gm_pickle_get(pickle, block, GM_KEY_STATE);
	bool pending = gm_pickle_text_is(pickle, state, "active_pending_free");
	if (!pending && !gm_pickle_text_is(pickle, state, "active_allocated"))
		return NULL;
	if (!pending)
		device->allocated += size;
	device->pending_in_segments |= pending;
	const struct gm_lived *lived = gm_lived_find(device, address);
	if (lived && lived->state == (pending ? GM_LIVED_PENDING : GM_LIVED_NOW)) {
		struct gm_entry *entry = &pickle->entries.items[lived->entry];
		if (size >= entry->size)
			entry->block_size = size;
		return NULL;
	}
	if (lived && !gm_lacks_allocations(device)) {
		device->contradictions++;
		return NULL;
	}
	struct gm_before before = {
	        .address = address,
	        .size = size,
	        .stream = stream,
	        .frames = gm_pickle_get(pickle, block, GM_KEY_FRAMES),
	        .action = GM_ALLOC,
	        .free_pending = pending,
	};
	gm_value history = gm_pickle_get(pickle, block, GM_KEY_HISTORY), first;
	struct gm_pickle_place place = gm_pickle_first(pickle, history);
	gm_value requested = gm_pickle_get(pickle, block, GM_KEY_REQUESTED_SIZE);
	if (gm_pickle_next(pickle, &place, &first)) {
		before.frames = gm_pickle_get(pickle, first, GM_KEY_FRAMES);
		if (!requested)
			requested = gm_pickle_get(pickle, first, GM_KEY_REAL_SIZE);
	}
	if (!gm_pickle_number(pickle, requested, &before.requested) || before.requested > size)
		before.requested = 0;
	return gm_array_push(&device->before, before) ? NULL : &gm_error_no_memory;
}

static struct gm_error *see_segment(
        struct gm_snapshot *snapshot, struct gm_trace_device *device, gm_value segment)
{
	const struct gm_pickle *pickle = &snapshot->pickle;
	struct gm_before before = {.action = GM_SEGMENT_ALLOC};
	gm_pickle_number(pickle, gm_pickle_get(pickle, segment, GM_KEY_ADDRESS), &before.address);
	gm_pickle_number(pickle, gm_pickle_get(pickle, segment, GM_KEY_TOTAL_SIZE), &before.size);
	gm_pickle_number(pickle, gm_pickle_get(pickle, segment, GM_KEY_STREAM), &before.stream);
	before.requested = before.size;
	before.frames = gm_pickle_get(pickle, segment, GM_KEY_FRAMES);
	device->reserved += before.size;
	if (gm_pickle_get(pickle, segment, GM_KEY_IS_EXPANDABLE) == GM_VALUE_TRUE) {
		const struct gm_mapped range = {.start = before.address,
		        .end = before.address + before.size,
		        .stream = before.stream,
		        .frames = before.frames,
		        .before = true};
		gm_try(gm_mapped_see(device, &range));
		before.size = 0; /* gm_mapped_find() tells how much of it was there before */
	} else if (extent_at(device, before.address)) {
		before.size = 0;
	}
	if (before.size && !gm_array_push(&device->before, before))
		return &gm_error_no_memory;
	gm_value blocks = gm_pickle_get(pickle, segment, GM_KEY_BLOCKS), block;
	struct gm_pickle_place place = gm_pickle_first(pickle, blocks);
	for (uint64_t address = before.address; gm_pickle_next(pickle, &place, &block);) {
		uint64_t size, named;
		if (!gm_pickle_number(pickle, gm_pickle_get(pickle, block, GM_KEY_SIZE), &size) ||
		        address + size < address)
			return gm_error_create(GM_CORRUPT,
			        "%s: cannot be read as a snapshot: a block's size is not a number, "
			        "negative or out of range: dump it again",
			        pickle->path);
		if (gm_pickle_number(pickle, gm_pickle_get(pickle, block, GM_KEY_ADDRESS), &named))
			address = named; /* older traces name no segment: consecutive blocks form
			                    one */
		gm_try(see_block(snapshot, device, block, address, size, before.stream));
		address += size;
	}
	return NULL;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Second reading, beginning with the earlier blocks: the size of each block. */
static struct gm_error *find_sizes(struct gm_snapshot *snapshot, struct gm_trace_device *device)
{
	uint64_t size;
	while (device->extents.count)
		remove_extent(device, device->extents.items[device->extents.count - 1].start);
	for (size_t i = 0; i < device->before.count; i++)
		if (device->before.items[i].action == GM_SEGMENT_ALLOC)
			gm_try(add_extent(device, device->before.items[i].address,
			        device->before.items[i].size));
	for (size_t i = 0; i < device->before.count; i++) {
		const struct gm_before *before = &device->before.items[i];
		struct gm_lived place = {0};
		if (before->action != GM_ALLOC)
			continue;
		gm_try(use(device, before->address, before->size, true, &place, &size));
		struct gm_lived *lived = gm_lived_find(device, before->address);
		if (lived)
			lived->size = before->size;
	}
	for (uint32_t i = 0; i < device->count; i++) {
		struct gm_entry *entry = &snapshot->pickle.entries.items[device->first + i];
		struct gm_lived *lived;
		switch (entry->action) {
		case GM_ALLOC:
			lived = gm_lived_find(device, entry->address);
			size = entry->block_size;
			gm_try(use(device, entry->address, size ? size : entry->size,
			        size != 0 || device->exact, lived, &entry->block_size));
			if (lived)
				lived->size = entry->block_size;
			break;
		case GM_FREE_REQUESTED:
		case GM_FREE_COMPLETED:
			/* the trace has the requested size: the block is as large as when it was
			 * allocated */
			lived = gm_lived_find(device, entry->address);
			if (lived)
				entry->block_size = lived->size;
			if (entry->action == GM_FREE_COMPLETED)
				release(device, entry->address, lived);
			break;
		case GM_SEGMENT_ALLOC:
			gm_try(add_extent(device, entry->address, entry->size));
			break;
		case GM_SEGMENT_FREE:
			remove_extent(device, entry->address);
			break;
		default:
			break;
		}
	}
	return NULL;
}

/* Information in frees about the time before: see gm_lacks_allocations(). */
static void forget_frees(struct gm_trace_device *device)
{
	size_t kept = 0;
	for (size_t i = 0; i < device->before.count; i++)
		if (device->before.items[i].action != GM_ALLOC)
			device->before.items[kept++] = device->before.items[i];
	device->before.count = kept;
	for (size_t i = 0; i < device->lived_slots; i++)
		if (device->lived[i].state != GM_LIVED_NONE)
			device->lived[i].state = GM_LIVED_FREED;
}

struct gm_error *gm_replay(
        struct gm_snapshot *snapshot, struct gm_trace_device *device, gm_value segments)
{
	const struct gm_pickle *pickle = &snapshot->pickle;
	gm_try(find_lives(snapshot, device));
	if (gm_lacks_allocations(device))
		forget_frees(device);
	struct gm_pickle_place place = gm_pickle_first(pickle, segments);
	gm_value segment;
	while (gm_pickle_next(pickle, &place, &segment)) {
		uint64_t index = 0;
		if (device->type != GM_LOG_DEVICE_PINNED)
			gm_pickle_number(
			        pickle, gm_pickle_get(pickle, segment, GM_KEY_DEVICE), &index);
		if (index == (uint64_t)device->index)
			gm_try(see_segment(snapshot, device, segment));
	}
	gm_try(gm_mapped_find(device));
	return find_sizes(snapshot, device);
}
