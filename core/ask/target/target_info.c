/* `info` of a process or core: the allocator's own figures, compared with its blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/target/memory_now.h"
#include "ask/target/target_info.h"
#include "ask/target/recording.h"
#include "ask/context.h"
#include "ask/target/memory.h"
#include "ask/target/pause.h"
#include "base/array.h"
#include "base/cleanup.h"

static struct gm_error *add_device(
        struct gm_context *context, struct gm_target_info *info, int device)
{
	struct gm_memory memory;
	gm_try(gm_memory_now(context, device, &memory));
	if (memory.segment_count == 0 && memory.own.peak.reserved == 0 && memory.own.ooms == 0) {
		gm_memory_deinit(&memory);
		return NULL;
	}
	struct gm_memory *grown = realloc(info->devices, (info->device_count + 1) * sizeof(*grown));
	if (!grown) {
		gm_memory_deinit(&memory);
		return &gm_error_no_memory;
	}
	info->devices = grown;
	grown[info->device_count++] = memory;
	for (size_t i = 0; i < info->device_count; i++)
		grown[i].allocator = &grown[i].own;
	return NULL;
}

static struct gm_error *fill(struct gm_context *context, struct gm_target_info *info)
{
	struct gm_torch *torch;
	size_t devices;
	gm_try(gm_context_torch(context, &torch));
	info->torch = gm_torch_version(torch);
	info->pid = context->core_path ? 0 : context->pid;
	if (!(info->source = gm_target_name(context)))
		return &gm_error_no_memory;
	gm_try(gm_torch_allocator_devices(torch, &devices));
	for (size_t i = 0; i < devices; i++)
		gm_try(add_device(context, info, (int)i));
	/* optional: a file that cannot be opened says nothing about the process */
	gm_error_destroy(gm_recording_of(context->image, &info->recording));
	info->complete = true;
	for (size_t i = 0; i < info->device_count; i++)
		info->complete = info->complete && gm_memory_agrees(&info->devices[i]);
	if (info->device_count)
		info->kernels_not_computed = info->devices[0].there.not_computed;
	return NULL;
}

struct gm_error *gm_ask_target_info(struct gm_context *context, struct gm_target_info *ret_info)
{
	struct gm_target_info info = {0};
	gm_try(gm_context_pause(context, GM_READS_LITTLE));
	struct gm_error *error = fill(context, &info);
	gm_context_resume(context, &info.pause);
	info.complete = info.complete && gm_pause_is_still(&info.pause);
	if (error) {
		gm_target_info_deinit(&info);
		return error;
	}
	*ret_info = info;
	return NULL;
}

void gm_target_info_deinit(struct gm_target_info *info)
{
	for (size_t i = 0; i < info->device_count; i++)
		gm_memory_deinit(&info->devices[i]);
	free(info->devices);
	free(info->source);
	free(info->recording);
	*info = (struct gm_target_info){0};
}
