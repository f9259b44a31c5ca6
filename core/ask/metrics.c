#include "ask/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "ask/info.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "log/log.h"

enum { LIBRARIES_MAX = 256, COLLECTIVES_MAX = 4096 }; /* the file may be anybody's */

struct sums {
	GM_ARRAY(struct gm_metrics_device) devices;
	GM_ARRAY(struct gm_metrics_library) libraries;
	GM_ARRAY(struct gm_metrics_collective) collectives;
};

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static bool add_device(struct sums *sums, const struct gm_model *model, size_t index)
{
	const struct gm_model_device *device = gm_model_device(model, index);
	bool beside = device->type == GM_LOG_DEVICE_EXTERNAL;
	if (!beside && !gm_device_is_accelerator(device->type))
		return true;
	struct gm_metrics_device one = {
	        .device = index,
	        .beside = beside,
	        .allocated = device->now.allocated,
	        .reserved = device->now.reserved,
	        .peak_allocated = most(device->peak.allocated, device->reported_peak_allocated),
	        .peak_reserved = most(device->peak.reserved, device->reported_peak_reserved),
	};
	if (gm_reports_allocated(device)) {
		one.allocated = device->reported_allocated;
		if (device->reported_reserved != UINT64_MAX)
			one.reserved = device->reported_reserved;
	}
	return gm_array_push(&sums->devices, one);
}

static struct gm_metrics_device *find_device(struct sums *sums, size_t device)
{
	for (size_t i = 0; i < sums->devices.count; i++)
		if (sums->devices.items[i].device == device)
			return &sums->devices.items[i];
	return NULL;
}

static bool add_library(struct sums *sums, size_t device, const char *name, uint64_t bytes)
{
	size_t count = sums->libraries.count;
	for (size_t i = 0; i < count; i++) {
		struct gm_metrics_library *one = &sums->libraries.items[i];
		if (one->device != device || strcmp(one->name, name) != 0)
			continue;
		one->bytes += bytes;
		return true;
	}
	if (count >= LIBRARIES_MAX && *name)
		return add_library(sums, device, "", bytes);
	return gm_array_push(&sums->libraries, ((struct gm_metrics_library){device, name, bytes}));
}

/* Blocks that are allocated now: of PyTorch's devices by category, of others by library. */
static bool add_blocks(
        struct sums *sums, const struct gm_model *model, const struct gm_categories *categories)
{
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		if (block->alloc == GM_NO_EVENT || gm_block_end(block) != GM_NO_EVENT)
			continue;
		struct gm_metrics_device *device = find_device(sums, block->device);
		if (!device)
			continue;
		if (!device->beside) {
			device->by_category[gm_categories_of(categories, i)] += block->size;
			continue;
		}
		struct gm_event event;
		gm_log_event(gm_model_log(model), block->alloc, &event);
		const char *owner = gm_log_string(gm_model_log(model), event.owner);
		if (!add_library(sums, block->device, owner, block->size))
			return false;
	}
	return true;
}

/* What the allocator counts and no recorded block has was allocated before the recording began.
 * Sums are the allocator's; where events were lost, what was freed may be more than that. */
static void add_unknown(struct sums *sums)
{
	for (size_t i = 0; i < sums->devices.count; i++) {
		struct gm_metrics_device *device = &sums->devices.items[i];
		uint64_t known = 0;
		for (size_t c = 0; c < GM_CATEGORY_COUNT; c++)
			known += device->by_category[c];
		if (device->beside)
			continue;
		if (known > device->allocated)
			device->allocated = known;
		device->by_category[GM_CATEGORY_UNKNOWN] += device->allocated - known;
	}
}

static bool add_collectives(struct sums *sums, const struct gm_log *log)
{
	for (size_t i = 0; i < gm_log_collective_count(log); i++) {
		struct gm_log_collective call;
		gm_log_collective(log, i, &call);
		struct gm_metrics_collective *found = NULL;
		for (size_t k = 0; k < sums->collectives.count && !found; k++)
			if (sums->collectives.items[k].group == call.group &&
			        sums->collectives.items[k].kind == call.kind)
				found = &sums->collectives.items[k];
		if (!found && sums->collectives.count >= COLLECTIVES_MAX)
			continue;
		const struct gm_metrics_collective fresh = {
		        .group = call.group, .ranks = call.ranks, .kind = call.kind};
		if (!found && !gm_array_push(&sums->collectives, fresh))
			return false;
		if (!found)
			found = &sums->collectives.items[sums->collectives.count - 1];
		found->calls++;
		found->send_bytes += call.send_bytes;
		found->receive_bytes += call.receive_bytes;
	}
	return true;
}

/* The recording of a process that still runs has one gap that says so. */
static struct gm_error *count_gaps(struct gm_context *context, uint64_t *ret_gaps)
{
	struct gm_info info;
	gm_try(gm_ask_info(context, &info));
	*ret_gaps = info.gap_count - (context->log_live && info.gap_count);
	gm_info_deinit(&info);
	return NULL;
}

struct gm_error *gm_ask_metrics(struct gm_context *context, struct gm_metrics *ret_metrics)
{
	struct gm_model *model;
	const struct gm_categories *categories;
	uint64_t gaps;
	gm_context_invalidate(context);
	gm_try(gm_context_model(context, &model));
	gm_try(count_gaps(context, &gaps));
	gm_try(gm_model_categories(model, &categories));
	struct sums sums = {0};
	bool whole = true;
	for (size_t i = 0; i < gm_model_device_count(model); i++)
		whole &= add_device(&sums, model, i);
	whole &= add_blocks(&sums, model, categories);
	add_unknown(&sums);
	whole &= add_collectives(&sums, gm_model_log(model));
	struct gm_metrics metrics = {
	        .model = model,
	        .devices = sums.devices.items,
	        .device_count = sums.devices.count,
	        .libraries = sums.libraries.items,
	        .library_count = sums.libraries.count,
	        .collectives = sums.collectives.items,
	        .collective_count = sums.collectives.count,
	        .gaps = gaps,
	};
	if (!whole) {
		gm_metrics_deinit(&metrics);
		return &gm_error_no_memory;
	}
	*ret_metrics = metrics;
	return NULL;
}

void gm_metrics_deinit(struct gm_metrics *metrics)
{
	free(metrics->devices);
	free(metrics->libraries);
	free(metrics->collectives);
	*metrics = (struct gm_metrics){0};
}
