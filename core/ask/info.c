#include "ask/info.h"
#include "ask/context.h"

#include <stdlib.h>

#include "base/array.h"

struct gaps {
	GM_ARRAY(struct gm_gap) list;
	bool no_memory;
};

static void add(struct gaps *gaps, struct gm_gap gap)
{
	gaps->no_memory |= !gm_array_push(&gaps->list, gap);
}

static void add_device(struct gaps *gaps, const struct gm_model_device *device)
{
	struct gm_gap gap = {.device = device};
	if (device->unknown_frees) {
		gap.kind = GM_GAP_FREES;
		gap.counted = device->unknown_frees;
		gap.bytes = device->unknown_free_bytes;
		add(gaps, gap);
	}
	if (device->reported_allocated != UINT64_MAX &&
	        device->reported_allocated != device->now.allocated) {
		gap.kind = GM_GAP_ALLOCATED;
		gap.counted = device->reported_allocated;
		gap.bytes = device->now.allocated;
		add(gaps, gap);
	}
	if (device->reported_reserved != UINT64_MAX &&
	        device->reported_reserved != device->now.reserved) {
		gap.kind = GM_GAP_RESERVED;
		gap.counted = device->reported_reserved;
		gap.bytes = device->now.reserved;
		add(gaps, gap);
	}
}

struct gm_error *gm_ask_info(struct gm_context *context, struct gm_info *ret_info)
{
	struct gm_model *model;
	struct gm_error *error = gm_context_any_model(context, &model);
	if (error)
		return error;
	const struct gm_log *log = gm_model_log(model);
	struct gaps gaps = {0};
	if (gm_context_log_is_trace(context))
		add(&gaps, (struct gm_gap){.kind = GM_GAP_TRACE});
	for (size_t i = 0; i < gm_log_gap_count(log); i++)
		add(&gaps, (struct gm_gap){.kind = GM_GAP_RECORDED, .text = gm_log_gap(log, i)});
	uint64_t offset;
	if (gm_log_truncated(log, &offset))
		add(&gaps, (struct gm_gap){.kind = GM_GAP_TRUNCATED, .counted = offset});
	for (size_t i = 0; i < gm_model_device_count(model); i++)
		add_device(&gaps, gm_model_device(model, i));
	struct gm_info info = {
	        .model = model,
	        .complete = gaps.list.count == 0 && gm_log_closed(log),
	        .gap_count = gaps.list.count,
	        .gaps = gaps.list.items,
	        .closed = gm_log_closed(log),
	};
	const struct {
		const char *name;
		uint64_t *value;
	} counters[] = {
	        {"sim.kernels_launched", &info.kernels_launched},
	        {"sim.kernels_not_computed", &info.kernels_not_computed},
	        {"sim.library_calls_not_computed", &info.library_calls_not_computed},
	        {"sim.bytes_read_back", &info.bytes_read_back},
	};
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		gm_log_counter(log, counters[i].name, counters[i].value);
	if (gaps.no_memory) {
		gm_info_deinit(&info);
		return &gm_error_no_memory;
	}
	*ret_info = info;
	return NULL;
}

void gm_info_deinit(struct gm_info *info)
{
	free(info->gaps);
	*info = (struct gm_info){0};
}
