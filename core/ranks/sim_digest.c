#include "ranks/sim_digest.h"

#include <stdlib.h>
#include <string.h>

#include "ask/context.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/map.h"
#include "log/log.h"

struct device {
	uint8_t type;
	int16_t index;
	uint64_t peak_allocated, peak_reserved;
};

struct digesting {
	const struct gm_log *log;
	struct gm_map threads; /* of a thread's id plus 1 its hash */
	struct gm_map stacks;  /* of a stack's id its hash */
	struct gm_map tensors;
	GM_ARRAY(struct device) devices; /* in the order in which they first occur */
	uint64_t ooms, requested;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return gm_hash_mix(hash ^ gm_hash_mix(value + UINT64_C(0x9e3779b97f4a7c15)));
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
	return gm_hash_bytes(text, strlen(text), hash);
}

static uint64_t hash_stack(const struct gm_log *log, uint32_t id)
{
	size_t count = 0;
	const uint32_t *frames = gm_log_python_stack(log, id, &count);
	uint64_t hash = count;
	for (size_t i = 0; i < count; i++) {
		struct gm_log_frame frame;
		struct gm_log_code code;
		if (!gm_log_frame(log, frames[i], &frame) || !gm_log_code(log, frame.code, &code))
			continue;
		hash = mix_text(hash, gm_log_string(log, code.file));
		hash = mix_text(hash, gm_log_string(log, code.name));
		hash = mix(hash, frame.line);
	}
	return hash;
}

static uint64_t hash_tensor(const struct gm_log *log, uint32_t id)
{
	struct gm_log_tensor tensor;
	if (!gm_log_tensor(log, id, &tensor))
		return 0;
	uint64_t hash = mix(tensor.type, tensor.dimensions);
	for (uint32_t i = 0; i < tensor.dimensions; i++) {
		hash = mix(hash, (uint64_t)tensor.sizes[i]);
		if (tensor.strides)
			hash = mix(hash, (uint64_t)tensor.strides[i]);
	}
	return hash;
}

/* Each id once. */
static bool kept(struct gm_map *map, const struct gm_log *log, uint32_t id,
        uint64_t (*hash)(const struct gm_log *log, uint32_t id), uint64_t *ret_hash)
{
	bool is_new = false;
	*ret_hash = 0;
	if (!id)
		return true;
	uint64_t *value = gm_map_put(map, id, &is_new);
	if (!value)
		return false;
	if (is_new)
		*value = hash(log, id);
	*ret_hash = *value;
	return true;
}

/* Its place among the recording's devices; NULL: no memory. */
static struct device *find_device(
        struct digesting *digesting, const struct gm_event *event, size_t *ret_place)
{
	for (size_t i = 0; i < digesting->devices.count; i++) {
		struct device *device = &digesting->devices.items[i];
		if (device->type == event->device_type && device->index == event->device) {
			*ret_place = i;
			return device;
		}
	}
	const struct device device = {.type = event->device_type, .index = event->device};
	if (!gm_array_push(&digesting->devices, device))
		return NULL;
	*ret_place = digesting->devices.count - 1;
	return &digesting->devices.items[*ret_place];
}

static void see_counters(
        struct digesting *digesting, struct device *device, const struct gm_event *event)
{
	if (!gm_device_is_accelerator(event->device_type))
		return;
	if (event->allocated != UINT64_MAX && event->allocated > device->peak_allocated)
		device->peak_allocated = event->allocated;
	if (event->reserved != UINT64_MAX && event->reserved > device->peak_reserved)
		device->peak_reserved = event->reserved;
	if (event->action == GM_OOM && digesting->ooms++ == 0)
		digesting->requested = event->size;
}

static bool add_event(struct digesting *digesting, const struct gm_event *event)
{
	uint64_t stack, tensor;
	size_t place = 0;
	struct device *device = find_device(digesting, event, &place);
	uint64_t *hash = gm_map_put(&digesting->threads, event->thread + 1, NULL);
	if (!device || !hash ||
	        !kept(&digesting->stacks, digesting->log, event->python_stack, hash_stack,
	                &stack) ||
	        !kept(&digesting->tensors, digesting->log, event->tensor, hash_tensor, &tensor))
		return false;
	see_counters(digesting, device, event);
	*hash = mix(*hash, event->action | (uint64_t)event->device_type << 8 | place << 16);
	*hash = mix(*hash, event->size);
	*hash = mix(*hash, event->requested);
	*hash = mix(*hash, stack);
	*hash = mix(*hash, tensor);
	return true;
}

/* Threads have no order. */
static uint64_t all_threads(const struct digesting *digesting)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < digesting->threads.capacity; i++)
		if (digesting->threads.slots[i].key)
			sum += gm_hash_mix(digesting->threads.slots[i].value);
	return sum;
}

static struct gm_error *read_events(struct digesting *digesting)
{
	const struct gm_log *log = digesting->log;
	uint64_t total = gm_log_event_count(log);
	size_t count;
	for (uint64_t at = 0; at < total; at += count) {
		const struct gm_event *events = gm_log_events(log, at, &count);
		if (!events || !count) {
			struct gm_error *error = gm_log_event_error(log, at);
			return error ? error : &gm_error_no_memory;
		}
		for (size_t i = 0; i < count; i++)
			if (!add_event(digesting, &events[i]))
				return &gm_error_no_memory;
	}
	return NULL;
}

static void add_recording(const struct digesting *digesting, struct gm_sim_result *result)
{
	/* a rank's processes have no order either */
	result->digest += gm_hash_mix(all_threads(digesting));
	result->events += gm_log_event_count(digesting->log);
	if (!result->ooms)
		result->requested = digesting->requested;
	result->ooms += digesting->ooms;
	for (size_t i = 0; i < digesting->devices.count; i++) {
		const struct device *device = &digesting->devices.items[i];
		if (!gm_device_is_accelerator(device->type))
			continue;
		if (device->peak_allocated > result->peak_allocated)
			result->peak_allocated = device->peak_allocated;
		if (device->peak_reserved > result->peak_reserved)
			result->peak_reserved = device->peak_reserved;
		gm_log_device_total(digesting->log, device->index, &result->total);
	}
}

struct gm_error *gm_sim_digest(const char *path, struct gm_sim_result *result)
{
	struct gm_context context;
	struct gm_log *log;
	gm_context_init(&context);
	context.shell = true;
	struct gm_error *error = gm_context_set_log(&context, path);
	if (!error)
		error = gm_context_log(&context, &log);
	if (!error) {
		struct digesting digesting = {.log = log};
		error = read_events(&digesting);
		if (!error)
			add_recording(&digesting, result);
		gm_map_deinit(&digesting.threads);
		gm_map_deinit(&digesting.stacks);
		gm_map_deinit(&digesting.tensors);
		gm_array_deinit(&digesting.devices);
	}
	gm_context_deinit(&context);
	return error;
}
