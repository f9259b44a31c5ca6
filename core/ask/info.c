#include "ask/info.h"
#include "ask/context.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"

struct gaps {
	GM_ARRAY(char *) list;
	bool no_memory;
};

__attribute__((format(printf, 2, 3))) static void add(struct gaps *gaps, const char *format, ...)
{
	char *text;
	va_list args;
	va_start(args, format);
	int length = vasprintf(&text, format, args);
	va_end(args);
	if (length < 0 || !gm_array_push(&gaps->list, text)) {
		gaps->no_memory = true;
		if (length >= 0)
			free(text);
	}
}

static void add_device(struct gaps *gaps, const struct gm_model_device *device)
{
	const char *name = gm_device_type_name(device->type);
	const char *type = device->type == GM_LOG_DEVICE_BESIDE   ? "beside PyTorch, cuda"
	                   : device->type == GM_LOG_DEVICE_PINNED ? "pinned"
	                   : name                                 ? name
	                                                          : "device";
	if (device->unknown_frees)
		add(gaps,
		        "%s:%d: %" PRIu64 " blocks (%" PRIu64
		        " bytes) were freed whose allocation is not in the recording",
		        type, device->index, device->unknown_frees, device->unknown_free_bytes);
	if (device->reported_allocated != UINT64_MAX &&
	        device->reported_allocated != device->now.allocated)
		add(gaps,
		        "%s:%d: the allocator counts %" PRIu64
		        " bytes allocated, the events of the recording add up to %" PRIu64,
		        type, device->index, device->reported_allocated, device->now.allocated);
	if (device->reported_reserved != UINT64_MAX &&
	        device->reported_reserved != device->now.reserved)
		add(gaps,
		        "%s:%d: the allocator counts %" PRIu64
		        " bytes reserved, the events of the recording add up to %" PRIu64,
		        type, device->index, device->reported_reserved, device->now.reserved);
}

struct gm_error *gm_ask_info(struct gm_context *context, struct gm_info *ret_info)
{
	struct gm_model *model;
	struct gm_error *error = gm_context_any_model(context, &model);
	if (error)
		return error;
	const struct gm_log *log = gm_model_log(model);
	struct gaps gaps = {0};
	for (size_t i = 0; i < gm_log_gap_count(log); i++)
		add(&gaps, "%s", gm_log_gap(log, i));
	uint64_t offset;
	if (gm_log_truncated(log, &offset))
		add(&gaps,
		        "the file is truncated inside a chunk at byte %" PRIu64
		        ": the rest is lost",
		        offset);
	for (size_t i = 0; i < gm_model_device_count(model); i++)
		add_device(&gaps, gm_model_device(model, i));
	struct gm_info info = {
	        .model = model,
	        .complete = gaps.list.count == 0,
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
	for (size_t i = 0; i < info->gap_count; i++)
		free(info->gaps[i]);
	free(info->gaps);
	*info = (struct gm_info){0};
}
