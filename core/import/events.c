/* The events of a snapshot in the log's form: each is made from an entry when it is read. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "import/snapshot.h"
#include "import/values.h"

struct gm_snapshot_events *gm_snapshot_events_create(const struct gm_snapshot *snapshot)
{
	struct gm_snapshot_events *events = calloc(1, sizeof(*events));
	for (size_t i = 0; events && i < snapshot->devices.count; i++) {
		const struct gm_trace_device *device = &snapshot->devices.items[i];
		events->devices[i].type = device->type;
		events->devices[i].index = device->index;
		events->devices[i].allocated = device->allocated;
		events->devices[i].reserved = device->reserved;
	}
	return events;
}

void gm_snapshot_events_destroy(struct gm_snapshot_events *events)
{
	if (!events)
		return;
	gm_array_deinit(&events->order);
	gm_array_deinit(&events->entries);
	gm_intern_deinit(&events->streams.streams);
	free(events);
}

void gm_snapshot_events_take(struct gm_snapshot_events *events, struct gm_pickle *pickle)
{
	memcpy(&events->entries, &pickle->entries, sizeof(events->entries));
	memset(&pickle->entries, 0, sizeof(pickle->entries));
	events->streams.streams = pickle->streams;
	pickle->streams = (struct gm_intern){0};
}

static void get(const void *context, uint64_t first, size_t count, struct gm_event *ret_events)
{
	const struct gm_snapshot_events *events = context;
	for (size_t i = 0; i < count; i++) {
		const struct gm_entry *entry =
		        &events->entries.items[events->order.items[first + i]];
		ret_events[i] = (struct gm_event){
		        .action = entry->action,
		        .device_type = events->devices[entry->device].type,
		        .device = events->devices[entry->device].index,
		        .flags = entry->flags & (GM_ENTRY_LAST - 1u),
		        .time_ns = entry->time_us * 1000,
		        .address = entry->address,
		        .size = entry->block_size,
		        .requested = entry->size,
		        .stream = gm_pickle_stream(&events->streams, entry->stream),
		        .allocated = UINT64_MAX,
		        .reserved = UINT64_MAX,
		        .python_stack = entry->stacks.python,
		        .native_stack = entry->stacks.native,
		};
		if (entry->flags & GM_ENTRY_LAST) {
			/* The sum of the segments is the allocator's own counter at the end. */
			ret_events[i].allocated = events->devices[entry->device].allocated;
			ret_events[i].reserved = events->devices[entry->device].reserved;
		}
	}
}

static void destroy(void *context)
{
	gm_snapshot_events_destroy(context);
}

struct gm_error *gm_snapshot_events_log(struct gm_snapshot_events *events, const char *written,
        const char *name, struct gm_log **ret_log)
{
	const struct gm_log_events given = {
	        .count = events->order.count,
	        .context = events,
	        .get = get,
	        .destroy = destroy,
	};
	return gm_log_open_with(written, name, &given, ret_log);
}
