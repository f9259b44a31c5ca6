#include "import/snapshot_read.h"

#include <string.h>

#include "base/cleanup.h"
#include "import/device_type.h"
#include "import/pickle_read.h"
#include "import/replay.h"
#include "import/values.h"

static struct gm_error *wrong(const struct gm_snapshot *snapshot, const char *what)
{
	return gm_error_create(GM_CORRUPT,
	        "%s: cannot be read as a snapshot: %s: "
	        "dump it with torch.cuda.memory._dump_snapshot",
	        snapshot->pickle.path, what);
}

static struct gm_error *find_device(struct gm_snapshot *snapshot, uint8_t type, uint64_t index,
        struct gm_trace_device **ret_device)
{
	if (index >= GM_SNAPSHOT_DEVICES_MAX)
		return wrong(snapshot, "it names a device beyond the 256th");
	for (size_t i = 0; i < snapshot->devices.count; i++) {
		*ret_device = &snapshot->devices.items[i];
		if ((*ret_device)->index == (int16_t)index && (*ret_device)->type == type)
			return NULL;
	}
	if (snapshot->devices.count == GM_SNAPSHOT_DEVICES_MAX)
		return wrong(snapshot, "it names more than 256 devices");
	const struct gm_trace_device fresh = {
	        .type = type, .index = (int16_t)index, .exact = type == GM_LOG_DEVICE_PINNED};
	if (!gm_array_push(&snapshot->devices, fresh))
		return &gm_error_no_memory;
	*ret_device = &snapshot->devices.items[snapshot->devices.count - 1];
	return NULL;
}

static bool is_list(const struct gm_snapshot *snapshot, gm_value value)
{
	const struct gm_object *object = gm_pickle_object(&snapshot->pickle, value);
	return object && object->kind == GM_LIST;
}

/* Each list appears once in a snapshot: one that appears in several places would be read many
 * times. */
static struct gm_error *take_list(struct gm_snapshot *snapshot, gm_value value)
{
	struct gm_object *object = gm_pickle_object(&snapshot->pickle, value);
	if (object->taken)
		return wrong(snapshot, "one list occurs in several places");
	object->taken = true;
	return NULL;
}

/* Consecutive entries that are in no trace yet become the trace without a copy; others are copied.
 * */
static struct gm_error *take_entries(struct gm_snapshot *snapshot, struct gm_trace_device *device,
        uint32_t first, uint32_t count)
{
	struct gm_pickle *pickle = &snapshot->pickle;
	bool fresh = first >= snapshot->taken;
	if (!device->count && fresh)
		device->first = first;
	if (fresh && first == device->first + device->count) {
		device->count += count;
		snapshot->taken = first + count;
		return NULL;
	}
	pickle->metadata.count = 0; /* a copy does not show which trace it belongs to */
	uint32_t had = device->first + device->count == pickle->entries.count ? 0 : device->count;
	if (pickle->entries.count + had + count >= UINT32_MAX ||
	        !gm_array_reserve(&pickle->entries, (size_t)had + count))
		return &gm_error_no_memory;
	struct gm_entry *entries = pickle->entries.items;
	size_t end = pickle->entries.count;
	memcpy(entries + end, entries + device->first, had * sizeof(*entries));
	memcpy(entries + end + had, entries + first, count * sizeof(*entries));
	if (had || !device->count)
		device->first = (uint32_t)end;
	pickle->entries.count += had + count;
	device->count += count;
	snapshot->taken = (uint32_t)pickle->entries.count;
	return NULL;
}

static struct gm_error *read_trace(
        struct gm_snapshot *snapshot, gm_value trace, uint8_t type, uint64_t index)
{
	struct gm_pickle_place place = gm_pickle_first(&snapshot->pickle, trace);
	gm_value value;
	uint32_t count;
	struct gm_trace_device *device = NULL;
	while (gm_pickle_next_row(&snapshot->pickle, &place, &value, &count)) {
		uint32_t first = gm_pickle_entry(&snapshot->pickle, value);
		if (first == UINT32_MAX)
			return wrong(snapshot, "a trace has an entry without an action");
		if (!device)
			gm_try(find_device(snapshot, type, index, &device));
		gm_try(take_entries(snapshot, device, first, count));
	}
	return NULL;
}

static struct gm_error *read_traces(struct gm_snapshot *snapshot, gm_value traces)
{
	struct gm_pickle_place place = gm_pickle_first(&snapshot->pickle, traces);
	gm_value trace;
	for (uint64_t index = 0; gm_pickle_next(&snapshot->pickle, &place, &trace); index++) {
		if (!is_list(snapshot, trace))
			return wrong(snapshot, "a device's trace is not a list");
		gm_try(take_list(snapshot, trace));
		gm_try(read_trace(snapshot, trace, snapshot->type, index));
	}
	return NULL;
}

/* Finds the devices, and checks that each list that is read later appears only once. */
static struct gm_error *check_segments(
        struct gm_snapshot *snapshot, gm_value segments, uint8_t type)
{
	const struct gm_pickle *pickle = &snapshot->pickle;
	gm_try(take_list(snapshot, segments));
	struct gm_pickle_place place = gm_pickle_first(pickle, segments);
	gm_value segment;
	while (gm_pickle_next(pickle, &place, &segment)) {
		gm_value blocks = gm_pickle_get(pickle, segment, GM_KEY_BLOCKS);
		if (!is_list(snapshot, blocks))
			return wrong(snapshot, "a segment has no list of blocks");
		gm_try(take_list(snapshot, blocks));
		uint64_t index = 0, address, size;
		/* the host's traces have -1 */
		gm_value named = type == GM_LOG_DEVICE_PINNED
		                         ? GM_VALUE_NONE
		                         : gm_pickle_get(pickle, segment, GM_KEY_DEVICE);
		if (named && !gm_pickle_number(pickle, named, &index))
			return wrong(snapshot, "a segment's device is not a number");
		if (!gm_pickle_number(
		            pickle, gm_pickle_get(pickle, segment, GM_KEY_ADDRESS), &address) ||
		        !gm_pickle_number(
		                pickle, gm_pickle_get(pickle, segment, GM_KEY_TOTAL_SIZE), &size) ||
		        address + size < address)
			return wrong(snapshot,
			        "a segment's address or size is not a number or out of range");
		struct gm_trace_device *device;
		gm_try(find_device(snapshot, type, index, &device));
		device->has_segments = true;
	}
	return NULL;
}

/* Are all its values dictionaries of this kind? */
static bool holds(const struct gm_snapshot *snapshot, gm_value list, enum gm_object_kind kind)
{
	const struct gm_pickle *pickle = &snapshot->pickle;
	struct gm_pickle_place place = gm_pickle_first(pickle, list);
	gm_value value;
	uint32_t count;
	while (gm_pickle_next_row(pickle, &place, &value, &count)) {
		const struct gm_object *object = gm_pickle_object(pickle, value);
		bool entry = gm_pickle_entry(pickle, value) != UINT32_MAX;
		if (kind == GM_ENTRY ? !entry : !object || object->kind != kind)
			return false;
	}
	return true;
}

/*
 * Since torch 2.14 a recorder may also follow the allocator of pinned host memory
 * (record_pinned_host_memory=True): one trace, and segments with one block each, in addition to
 * those of the devices.
 */
static struct gm_error *read_host(struct gm_snapshot *snapshot, gm_value segments, gm_value traces)
{
	if (is_list(snapshot, segments) && !holds(snapshot, segments, GM_DICT))
		snapshot->host_is_not_known = true;
	else if (is_list(snapshot, segments))
		gm_try(check_segments(snapshot, segments, GM_LOG_DEVICE_PINNED));
	if (!is_list(snapshot, traces))
		return NULL;
	if (!holds(snapshot, traces, GM_ENTRY)) {
		snapshot->host_is_not_known = true;
		return NULL;
	}
	gm_try(take_list(snapshot, traces));
	return read_trace(snapshot, traces, GM_LOG_DEVICE_PINNED, 0);
}

struct gm_error *gm_snapshot_read(struct gm_snapshot *snapshot, const char *path, bool plainly)
{
	*snapshot = (struct gm_snapshot){0};
	gm_value root;
	gm_try(gm_pickle_read(&snapshot->pickle, path, plainly, &root));
	gm_value segments = gm_pickle_get(&snapshot->pickle, root, GM_KEY_SEGMENTS);
	gm_value traces = gm_pickle_get(&snapshot->pickle, root, GM_KEY_DEVICE_TRACES);
	if (is_list(snapshot, root)) /* the old form: only the segments */
		segments = root;
	snapshot->has_traces = is_list(snapshot, traces);
	if (!snapshot->has_traces && !is_list(snapshot, segments))
		return wrong(snapshot, "it has neither segments nor device_traces");
	gm_value settings = gm_pickle_get(&snapshot->pickle, root, GM_KEY_ALLOCATOR_SETTINGS);
	snapshot->overflowed = gm_pickle_get(&snapshot->pickle, settings,
	                               GM_KEY_TRACE_ALLOC_OVERFLOWED) == GM_VALUE_TRUE;
	snapshot->type = gm_snapshot_device_type(&snapshot->pickle, root);
	gm_value host = gm_pickle_get(&snapshot->pickle, root, GM_KEY_HOST_SEGMENTS);
	if (is_list(snapshot, segments))
		gm_try(check_segments(snapshot, segments, snapshot->type));
	if (snapshot->has_traces)
		gm_try(read_traces(snapshot, traces));
	gm_try(read_host(
	        snapshot, host, gm_pickle_get(&snapshot->pickle, root, GM_KEY_HOST_TRACES)));
	gm_value annotations = gm_pickle_get(&snapshot->pickle, root, GM_KEY_EXTERNAL_ANNOTATIONS);
	gm_try(gm_annotations_read(&snapshot->annotations, &snapshot->pickle, annotations));
	for (size_t i = 0; i < snapshot->devices.count; i++) {
		struct gm_trace_device *device = &snapshot->devices.items[i];
		bool pinned = device->type == GM_LOG_DEVICE_PINNED;
		gm_try(gm_replay(snapshot, device,
		        !pinned                       ? segments
		        : snapshot->host_is_not_known ? GM_VALUE_NONE
		                                      : host));
	}
	return NULL;
}

void gm_snapshot_deinit(struct gm_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->devices.count; i++) {
		struct gm_trace_device *device = &snapshot->devices.items[i];
		for (size_t j = 0; j < device->extents.count; j++)
			gm_array_deinit(&device->extents.items[j].used);
		gm_array_deinit(&device->extents);
		gm_array_deinit(&device->before);
		gm_array_deinit(&device->mapped);
		free(device->lived);
	}
	gm_array_deinit(&snapshot->devices);
	gm_annotations_deinit(&snapshot->annotations);
	gm_pickle_deinit(&snapshot->pickle);
}
