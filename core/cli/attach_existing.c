#include "cli/attach_existing.h"

#include "agent/existing.h"
#include "ask/target/memory.h"
#include "ask/context.h"
#include "ask/target/memory_now.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "image/stop.h"
#include "inject/inject.h"

struct entries {
	GM_ARRAY(struct gm_agent_existing_entry) list;
	uint64_t capacity;
};

/* Its memory: an expandable segment may have parts without any between those that have some. */
static void add_ranges(struct entries *entries, const struct gm_memory *memory,
        const struct gm_memory_segment *segment)
{
	struct gm_agent_existing_entry range = {.stream = segment->stream,
	        .kind = GM_AGENT_EXISTING_SEGMENT,
	        .device = memory->device,
	        .mapped = segment->expandable};
	for (size_t i = 0; i <= segment->count; i++) {
		const struct gm_segment_part *part = &memory->parts[segment->first + i];
		if (i < segment->count && part->state != GM_SEGMENT_PART_UNMAPPED) {
			range.address = range.size ? range.address : part->address;
			range.requested = range.size += part->size;
		} else if (range.size) {
			gm_array_push(&entries->list, range);
			range.size = 0;
		}
	}
}

static void add_segment(struct entries *entries, const struct gm_memory *memory,
        const struct gm_memory_segment *segment)
{
	add_ranges(entries, memory, segment);
	for (size_t i = segment->first; i < segment->first + segment->count; i++) {
		const struct gm_segment_part *part = &memory->parts[i];
		const struct gm_agent_existing_entry block = {.address = part->address,
		        .size = part->size,
		        .requested = part->requested,
		        .stream = segment->stream,
		        .kind = part->state == GM_SEGMENT_PART_USED ? GM_AGENT_EXISTING_BLOCK
		                                                    : GM_AGENT_EXISTING_PENDING,
		        .device = memory->device};
		if (part->state == GM_SEGMENT_PART_USED || part->state == GM_SEGMENT_PART_PENDING)
			gm_array_push(&entries->list, block);
	}
}

/* For all devices. Nothing if there is no allocator, or none that can be read. */
static void read_all(struct gm_context *context, struct entries *entries)
{
	struct gm_torch *torch;
	size_t devices;
	struct gm_error *error = gm_context_torch(context, &torch);
	if (!error)
		error = gm_torch_allocator_devices(torch, &devices);
	for (size_t i = 0; !error && i < devices; i++) {
		struct gm_memory memory;
		_cleanup_error_ struct gm_error *none = gm_memory_now(context, (int)i, &memory);
		if (none) /* a device without memory */
			continue;
		for (size_t j = 0; j < memory.segment_count; j++)
			add_segment(entries, &memory, &memory.segments[j]);
		gm_memory_deinit(&memory);
	}
	gm_error_destroy(error);
}

bool gm_attach_existing_prepare(struct gm_attach_existing *existing, struct gm_context *context,
        const struct gm_inject_identity *identity)
{
	*existing = (struct gm_attach_existing){.context = context, .identity = identity};
	struct gm_symbols *symbols;
	struct gm_error *error = gm_context_symbols(context, &symbols);
	bool there = !error && gm_symbols_find_module(symbols, "libc10_cuda.so");
	gm_error_destroy(error);
	if (!there)
		return false;
	/* While the program still runs: the results are discarded, but the caches of names and
	 * layouts are filled. */
	struct entries entries = {.capacity = UINT64_MAX};
	read_all(context, &entries);
	gm_array_deinit(&entries.list);
	gm_context_invalidate(context);
	return true;
}

void gm_attach_existing_limit(struct gm_attach_existing *existing, double seconds)
{
	existing->until = gm_seconds() + seconds;
}

static uint64_t find_variable(struct gm_context *context)
{
	struct gm_image *image;
	struct gm_symbols *symbols;
	_cleanup_error_ struct gm_error *error = gm_context_image(context, &image);
	if (!error)
		error = gm_context_symbols(context, &symbols);
	if (error)
		return 0;
	uint64_t address = gm_inject_variable(symbols, "gpumem_agent_existing");
	if (address)
		return address;
	error = gm_image_refresh(image);
	if (!error)
		error = gm_symbols_refresh(symbols);
	return error ? 0 : gm_inject_variable(symbols, "gpumem_agent_existing");
}

static bool put_state(const struct gm_attach_existing *existing, uint32_t state)
{
	return gm_inject_write(existing->identity,
	        existing->variable + offsetof(struct gm_agent_existing, state), &state,
	        sizeof(state));
}

static void give(struct gm_attach_existing *existing, struct gm_image *image,
        const struct gm_agent_existing *asked)
{
	struct entries entries = {.capacity = asked->capacity};
	struct gm_stop stop;
	double start = gm_seconds();
	if (!put_state(existing, GM_AGENT_EXISTING_COMING))
		return;
	_cleanup_error_ struct gm_error *error =
	        gm_stop_begin_within(image, existing->until - start, &stop);
	if (error)
		return;
	gm_context_invalidate(existing->context);
	read_all(existing->context, &entries);
	gm_stop_end(&stop);
	existing->stopped = gm_seconds() - start;
	uint32_t count = (uint32_t)(entries.list.count < asked->capacity ? entries.list.count
	                                                                 : asked->capacity);
	const struct gm_inject_identity *identity = existing->identity;
	if (gm_inject_write(identity, asked->table, entries.list.items,
	            count * sizeof(*entries.list.items)) &&
	        gm_inject_write(identity,
	                existing->variable + offsetof(struct gm_agent_existing, count), &count,
	                sizeof(count)))
		put_state(existing, GM_AGENT_EXISTING_GIVEN);
	gm_array_deinit(&entries.list);
}

void gm_attach_existing_answer(void *context)
{
	struct gm_attach_existing *existing = context;
	struct gm_image *image;
	struct gm_agent_existing asked;
	if (existing->done)
		return;
	if (!existing->variable)
		existing->variable = find_variable(existing->context);
	_cleanup_error_ struct gm_error *error = gm_context_image(existing->context, &image);
	if (!existing->variable || error)
		return;
	gm_image_invalidate(image);
	if (!gm_image_try_read(image, existing->variable, &asked, sizeof(asked)) ||
	        asked.state != GM_AGENT_EXISTING_ASKED)
		return;
	existing->done = true;
	give(existing, image, &asked);
}

uint64_t gm_attach_existing_give(struct gm_context *context, uint64_t table, uint64_t size)
{
	struct entries entries = {.capacity = UINT64_MAX};
	struct gm_inject_identity identity;
	_cleanup_error_ struct gm_error *error = gm_inject_identity_init(&identity, context->pid);
	if (error)
		return 0;
	gm_context_invalidate(context);
	read_all(context, &entries);
	uint64_t bytes = entries.list.count * sizeof(*entries.list.items);
	struct gm_agent_existing given = {.state = GM_AGENT_EXISTING_GIVEN,
	        .count = (uint32_t)entries.list.count,
	        .table = table,
	        .capacity = entries.list.count};
	uint64_t variable = bytes && bytes <= size ? find_variable(context) : 0;
	/* its table first: the state says that it exists */
	if (variable && gm_inject_write(&identity, table, entries.list.items, bytes))
		gm_inject_write(&identity, variable, &given, sizeof(given));
	gm_inject_identity_deinit(&identity);
	gm_array_deinit(&entries.list);
	return bytes;
}
