/*
 * PyTorch's snapshot. Keys as torch/csrc/cuda/memory_snapshot.cpp of torch 2.15 writes them: each
 * segment with all its blocks, including free ones, for each device its trace, and the same for
 * pinned host memory. Pools are omitted, because a log does not have them. Each frame and stack is
 * one dictionary or list in the file, and later ones refer to it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "export/export.h"
#include "export/pickle.h"
#include "export/pytorch_marks.h"

enum key {
	KEY_ACTION,
	KEY_ADDR,
	KEY_ADDRESS,
	KEY_FRAMES,
	KEY_SIZE,
	KEY_STREAM,
	KEY_TIME,
	KEY_FILENAME,
	KEY_LINE,
	KEY_NAME,
	KEY_REQUESTED,
	KEY_STATE,
	KEY_DEVICE_FREE,
	KEY_METADATA,
	KEY_COMPILE,
	KEY_COUNT,
};

static const char *const key_names[KEY_COUNT] = {"action", "addr", "address", "frames", "size",
        "stream", "time_us", "filename", "line", "name", "requested_size", "state", "device_free",
        "user_metadata", "compile_context"};

struct writing {
	const struct gm_model *model;
	const struct gm_log *log;
	struct gm_pickler pickler;
	uint32_t keys[KEY_COUNT]; /* memo + 1 if it is in the file; 0: not yet */
	uint32_t actions[GM_ACTION_COUNT], empty, no_context;
	struct ids {
		uint32_t *items;
		size_t count, capacity;
	} strings, frames;
	/* stacks are pairs: python, native; found by a hash table over both. Those of frees are
	 * separate lists: if a free has the same list as its allocation, PyTorch recorded none for
	 * it. */
	struct stack_slot {
		uint32_t python, native, memo; /* memo + 1; 0: free */
		bool freed;
	} * stacks;
	size_t stack_count, stack_capacity;
	uint8_t type; /* of the devices that are written: those of one type at a time */
	bool no_memory;
};

/* The place of an id's memo. */
static uint32_t *id_at(struct writing *writing, struct ids *ids, uint32_t id)
{
	if (!gm_array_reach(ids, id)) {
		writing->no_memory = true;
		return NULL;
	}
	return &ids->items[id];
}

static void put_word(struct writing *writing, uint32_t *memo, const char *text)
{
	if (memo && *memo) {
		gm_pickler_again(&writing->pickler, *memo - 1);
		return;
	}
	gm_pickler_string(&writing->pickler, text);
	uint32_t number = gm_pickler_remember(&writing->pickler);
	if (memo)
		*memo = number + 1;
}

static void put_key(struct writing *writing, enum key key)
{
	put_word(writing, &writing->keys[key], key_names[key]);
}

static void put_string(struct writing *writing, uint32_t id)
{
	put_word(writing, id_at(writing, &writing->strings, id), gm_log_string(writing->log, id));
}

static void put_number(struct writing *writing, enum key key, uint64_t number)
{
	put_key(writing, key);
	gm_pickler_number(&writing->pickler, number);
}

static void put_frame(struct writing *writing, uint32_t file, uint32_t name, uint32_t line)
{
	gm_pickler_dict_begin(&writing->pickler);
	put_key(writing, KEY_FILENAME);
	if (file)
		put_string(writing, file);
	else
		gm_pickler_string(&writing->pickler, "??");
	put_number(writing, KEY_LINE, line);
	put_key(writing, KEY_NAME);
	if (name)
		put_string(writing, name);
	else
		gm_pickler_string(&writing->pickler, "??");
	gm_pickler_dict_end(&writing->pickler);
}

static void put_python_frame(struct writing *writing, uint32_t id)
{
	uint32_t *memo = id_at(writing, &writing->frames, id);
	if (memo && *memo) {
		gm_pickler_again(&writing->pickler, *memo - 1);
		return;
	}
	struct gm_log_frame frame = {0};
	struct gm_log_code code = {0};
	gm_log_frame(writing->log, id, &frame);
	gm_log_code(writing->log, frame.code, &code);
	put_frame(writing, code.file, code.name, frame.line);
	uint32_t number = gm_pickler_remember(&writing->pickler);
	if (memo)
		*memo = number + 1;
}

static struct stack_slot *stack_slot(
        struct writing *writing, uint32_t python, uint32_t native, bool freed)
{
	if (writing->stack_count * 2 >= writing->stack_capacity) {
		size_t capacity = writing->stack_capacity ? writing->stack_capacity * 2 : 1024;
		struct stack_slot *slots = calloc(capacity, sizeof(*slots));
		if (!slots) {
			writing->no_memory = true;
			return NULL;
		}
		struct stack_slot *old = writing->stacks;
		size_t old_capacity = writing->stack_capacity;
		writing->stacks = slots;
		writing->stack_capacity = capacity;
		for (size_t i = 0; i < old_capacity; i++)
			if (old[i].memo)
				*stack_slot(writing, old[i].python, old[i].native, old[i].freed) =
				        old[i];
		free(old);
	}
	uint64_t hash = ((uint64_t)python << 32 | native) * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = (size_t)(hash >> 20) & (writing->stack_capacity - 1);
	while (writing->stacks[at].memo &&
	        (writing->stacks[at].python != python || writing->stacks[at].native != native ||
	                writing->stacks[at].freed != freed))
		at = (at + 1) & (writing->stack_capacity - 1);
	return &writing->stacks[at];
}

/*
 * A native frame with its source, if that is known; otherwise as in PyTorch since 2.15, which does
 * not read debug information: the library and the offset in it. Nothing is written if neither is
 * known.
 */
static void put_native_frame(struct writing *writing, uint64_t address)
{
	uint32_t function = 0, file = 0, line = 0;
	struct gm_log_module module;
	bool named = gm_log_symbol(writing->log, address, &function, &file, &line);
	if (!file &&
	        gm_log_module(writing->log, gm_log_module_at(writing->log, address), &module)) {
		file = module.path;
		line = (uint32_t)(address - module.bias);
	}
	if (named || file)
		put_frame(writing, file, function, line);
}

/* The frames of both stacks as one list, C++ innermost, as with stacks="all". */
static void put_stack(struct writing *writing, uint32_t python, uint32_t native, bool freed)
{
	struct stack_slot *slot = stack_slot(writing, python, native, freed);
	if (slot && slot->memo) {
		gm_pickler_again(&writing->pickler, slot->memo - 1);
		return;
	}
	size_t count;
	gm_pickler_list_begin(&writing->pickler);
	const uint64_t *addresses = gm_log_native_stack(writing->log, native, &count);
	for (size_t i = 0; i < count; i++)
		put_native_frame(writing, addresses[i]);
	const uint32_t *frames = gm_log_python_stack(writing->log, python, &count);
	for (size_t i = 0; i < count; i++)
		put_python_frame(writing, frames[i]);
	gm_pickler_list_end(&writing->pickler);
	uint32_t number = gm_pickler_remember(&writing->pickler);
	if (slot) {
		*slot = (struct stack_slot){python, native, number + 1, freed};
		writing->stack_count++;
	}
}

static void put_frames_of(struct writing *writing, uint32_t event)
{
	struct gm_event one = {0};
	if (event != GM_NO_EVENT)
		gm_log_event(writing->log, event, &one);
	put_key(writing, KEY_FRAMES);
	put_stack(writing, one.python_stack, one.native_stack, false);
}

/* --- segments --------------------------------------------------------------------------------- */

static void put_block(
        struct writing *writing, uint64_t address, uint64_t size, const struct gm_block *block)
{
	struct gm_pickler *pickler = &writing->pickler;
	bool pending = block && block->free_requested != GM_NO_EVENT;
	gm_pickler_dict_begin(pickler);
	put_number(writing, KEY_ADDRESS, address);
	put_number(writing, KEY_SIZE, size);
	put_number(writing, KEY_REQUESTED, !block ? 0 : block->requested ? block->requested : size);
	put_key(writing, KEY_STATE);
	gm_pickler_string(pickler, !block    ? "inactive"
	                           : pending ? "active_pending_free"
	                                     : "active_allocated");
	put_frames_of(writing, block ? block->alloc : GM_NO_EVENT);
	gm_pickler_dict_end(pickler);
}

struct sums {
	uint64_t allocated, active, requested;
};

static struct sums sum_up(const struct gm_block *const *blocks, size_t count)
{
	struct sums sums = {0};
	for (size_t i = 0; i < count; i++) {
		sums.active += blocks[i]->size;
		sums.requested += gm_block_requested(blocks[i]);
		if (blocks[i]->free_requested == GM_NO_EVENT)
			sums.allocated += blocks[i]->size;
	}
	return sums;
}

static void put_named(struct writing *writing, const char *key, uint64_t number)
{
	gm_pickler_string(&writing->pickler, key);
	gm_pickler_number(&writing->pickler, number);
}

static void put_segment(struct writing *writing, const struct gm_segment *segment,
        const struct gm_block *const *blocks, size_t count)
{
	struct gm_pickler *pickler = &writing->pickler;
	struct sums sums = sum_up(blocks, count);
	gm_pickler_dict_begin(pickler);
	gm_pickler_string(pickler, "device");
	if (writing->type == GM_LOG_DEVICE_PINNED)
		gm_pickler_negative(pickler, -1);
	else
		gm_pickler_number(
		        pickler, (uint64_t)gm_model_device(writing->model, segment->device)->index);
	put_number(writing, KEY_ADDRESS, segment->address);
	put_named(writing, "total_size", segment->size);
	put_named(writing, "allocated_size", sums.allocated);
	put_named(writing, "active_size", sums.active);
	put_named(writing, "requested_size", sums.requested);
	put_number(writing, KEY_STREAM, segment->stream);
	gm_pickler_string(pickler, "segment_type");
	gm_pickler_string(pickler, gm_segment_is_small(segment, count ? blocks[0]->size : 0) ||
	                                           writing->type == GM_LOG_DEVICE_PINNED
	                                   ? "small"
	                                   : "large");
	gm_pickler_string(pickler, "is_expandable");
	gm_pickler_bool(pickler, segment->mapped);
	put_frames_of(writing, segment->alloc);
	gm_pickler_string(pickler, "blocks");
	gm_pickler_list_begin(pickler);
	uint64_t at = segment->address, end = segment->address + segment->size;
	for (size_t i = 0; i < count; i++) {
		if (blocks[i]->address > at)
			put_block(writing, at, blocks[i]->address - at, NULL);
		put_block(writing, blocks[i]->address, blocks[i]->size, blocks[i]);
		at = blocks[i]->address + blocks[i]->size;
	}
	if (at < end)
		put_block(writing, at, end - at, NULL);
	gm_pickler_list_end(pickler);
	gm_pickler_dict_end(pickler);
}

static int by_address(const void *a, const void *b)
{
	const struct gm_block *left = *(const struct gm_block *const *)a;
	const struct gm_block *right = *(const struct gm_block *const *)b;
	if (left->device != right->device)
		return left->device < right->device ? -1 : 1;
	return left->address < right->address ? -1 : left->address > right->address;
}

/* Blocks that are not free at the end, for devices of one type, by device and address. */
static struct gm_error *live_blocks(const struct gm_model *model, uint8_t type,
        const struct gm_block ***ret_blocks, size_t *ret_count)
{
	GM_ARRAY(const struct gm_block *) live = {0};
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		if (block->alloc == GM_NO_EVENT || block->free_completed != GM_NO_EVENT ||
		        gm_model_device(model, block->device)->type != type)
			continue;
		if (!gm_array_push(&live, block)) {
			gm_array_deinit(&live);
			return &gm_error_no_memory;
		}
	}
	if (live.count)
		qsort(live.items, live.count, sizeof(*live.items), by_address);
	*ret_blocks = live.items;
	*ret_count = live.count;
	return NULL;
}

static struct gm_error *put_segments(struct writing *writing)
{
	uint64_t events = gm_log_event_count(writing->log);
	_cleanup_free_ struct gm_segment *segments = NULL;
	_cleanup_free_ const struct gm_block **blocks = NULL;
	size_t segment_count = 0, block_count = 0, at = 0;
	if (events)
		gm_try(gm_model_segments_after(
		        writing->model, events - 1, &segments, &segment_count));
	gm_try(live_blocks(writing->model, writing->type, &blocks, &block_count));
	gm_pickler_list_begin(&writing->pickler);
	for (size_t i = 0; i < segment_count; i++) {
		const struct gm_segment *segment = &segments[i];
		uint64_t end = segment->address + segment->size, covered = segment->address;
		if (gm_model_device(writing->model, segment->device)->type != writing->type)
			continue;
		/* blocks outside of any segment, in a recording that began late, are omitted: a
		 * snapshot cannot contain them */
		while (at < block_count && (blocks[at]->device < segment->device ||
		                                   (blocks[at]->device == segment->device &&
		                                           blocks[at]->address < segment->address)))
			at++;
		size_t first = at;
		while (at < block_count && blocks[at]->device == segment->device &&
		        blocks[at]->address >= covered && blocks[at]->size <= end - covered &&
		        blocks[at]->address <= end - blocks[at]->size) {
			covered = blocks[at]->address + blocks[at]->size;
			at++;
		}
		put_segment(writing, segment, blocks + first, at - first);
	}
	gm_pickler_list_end(&writing->pickler);
	return NULL;
}

/* --- traces ----------------------------------------------------------------------------------- */

/* The address of an out-of-memory entry: how much memory the device had free. */
static uint64_t device_free(const struct writing *writing, uint64_t number)
{
	char name[48];
	uint64_t bytes = 0;
	snprintf(name, sizeof(name), "oom.%" PRIu64 ".free", number);
	gm_log_counter(writing->log, name, &bytes);
	return bytes;
}

/* The program's own metadata; otherwise the name of the first tensor in the event's block. */
static void put_metadata(struct writing *writing, uint64_t number)
{
	const char *metadata = gm_model_metadata(writing->model, number);
	uint32_t block = gm_model_event_block(writing->model, number);
	struct gm_block_name first;
	put_key(writing, KEY_METADATA);
	if (metadata)
		gm_pickler_string(&writing->pickler, metadata);
	else if (block != GM_NO_BLOCK && gm_model_names(writing->model, block, &first, 1) > 0)
		gm_pickler_string(&writing->pickler, first.name);
	else
		put_word(writing, &writing->empty, "");
}

static void put_entry(struct writing *writing, const struct gm_event *event, uint64_t number)
{
	gm_pickler_dict_begin(&writing->pickler);
	put_key(writing, KEY_ACTION);
	put_word(writing, &writing->actions[event->action],
	        gm_action_name((enum gm_action)event->action));
	if (event->action == GM_OOM)
		put_number(writing, KEY_DEVICE_FREE, device_free(writing, number));
	else
		put_number(writing, KEY_ADDR, event->address);
	put_number(writing, KEY_SIZE, event->requested ? event->requested : event->size);
	put_number(writing, KEY_STREAM, event->stream);
	put_number(writing, KEY_TIME, event->time_ns / 1000);
	put_key(writing, KEY_COMPILE);
	if (writing->type == GM_LOG_DEVICE_PINNED)
		put_word(writing, &writing->empty, "");
	else
		put_word(writing, &writing->no_context, "N/A");
	put_metadata(writing, number);
	put_key(writing, KEY_FRAMES);
	bool freed = event->action == GM_FREE_REQUESTED || event->action == GM_FREE_COMPLETED;
	put_stack(writing, event->python_stack, event->native_stack, freed);
	gm_pickler_dict_end(&writing->pickler);
}

static void put_trace(struct writing *writing, int16_t index)
{
	bool some = gm_model_find_device(writing->model, writing->type, index) != SIZE_MAX;
	uint64_t count = some ? gm_log_event_count(writing->log) : 0;
	gm_pickler_list_begin(&writing->pickler);
	for (uint64_t number = 0; number < count; number++) {
		struct gm_event event;
		gm_log_event(writing->log, number, &event);
		if (event.device_type == writing->type && event.device == index &&
		        !(event.flags & GM_EVENT_PREEXISTING) &&
		        gm_action_name((enum gm_action)event.action))
			put_entry(writing, &event, number);
	}
	gm_pickler_list_end(&writing->pickler);
}

/* One for each index up to the highest; those of devices without events are empty. */
static void put_traces(struct writing *writing)
{
	int devices = 0;
	for (size_t i = 0; i < gm_model_device_count(writing->model); i++) {
		const struct gm_model_device *device = gm_model_device(writing->model, i);
		if (device->type == writing->type && device->index >= devices)
			devices = device->index + 1;
	}
	gm_pickler_list_begin(&writing->pickler);
	for (int index = 0; index < devices; index++)
		put_trace(writing, (int16_t)index);
	gm_pickler_list_end(&writing->pickler);
}

/* Further keys: those of torch.xpu have another variable's name and no annotations, which
 * distinguishes them from CUDA's. */
static void put_rest(struct writing *writing)
{
	enum { XPU = 12 };
	struct gm_pickler *pickler = &writing->pickler;
	gm_pickler_string(pickler, "allocator_settings");
	gm_pickler_dict_begin(pickler);
	if (writing->type == XPU) {
		gm_pickler_string(pickler, "PYTORCH_ALLOC_CONF");
		gm_pickler_string(pickler, "");
	}
	gm_pickler_dict_end(pickler);
	if (writing->type == XPU)
		return;
	gm_pickler_string(pickler, "external_annotations");
	writing->no_memory |= !gm_pytorch_put_annotations(pickler, writing->log);
}

static struct gm_error *put_host(struct writing *writing)
{
	writing->type = GM_LOG_DEVICE_PINNED;
	gm_pickler_string(&writing->pickler, "host_segments");
	gm_try(put_segments(writing));
	gm_pickler_string(&writing->pickler, "host_traces");
	put_trace(writing, 0);
	return NULL;
}

static struct gm_error *put_all(struct writing *writing)
{
	gm_pickler_dict_begin(&writing->pickler);
	gm_pickler_string(&writing->pickler, "segments");
	gm_try(put_segments(writing));
	gm_pickler_string(&writing->pickler, "device_traces");
	put_traces(writing);
	put_rest(writing);
	gm_try(put_host(writing));
	gm_pickler_dict_end(&writing->pickler);
	return NULL;
}

static uint8_t type_of(const struct gm_model *model)
{
	enum { CUDA = 1 };
	size_t main = gm_model_main_device(model);
	uint8_t type = main == SIZE_MAX ? CUDA : gm_model_device(model, main)->type;
	return gm_device_is_accelerator(type) ? type : CUDA;
}

struct gm_error *gm_export_pytorch(struct gm_model *model, FILE *out)
{
	struct writing writing = {
	        .model = model, .log = gm_model_log(model), .type = type_of(model)};
	gm_pickler_begin(&writing.pickler, out);
	struct gm_error *error = put_all(&writing);
	if (!error)
		gm_pickler_end(&writing.pickler);
	free(writing.strings.items);
	free(writing.frames.items);
	free(writing.stacks);
	return error ? error : writing.no_memory ? &gm_error_no_memory : NULL;
}
