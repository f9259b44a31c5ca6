/* info of a process or a core. */
#include <inttypes.h>

#include "base/put.h"
#include "render/json.h"
#include "render/memory.h"
#include "render/pause.h"
#include "render/text.h"

static void put_bytes(FILE *out, const char *what, uint64_t bytes)
{
	char size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED];
	gm_put(out, "    %-16s %12s  (%s bytes)\n", what, gm_text_size(bytes, size),
	        gm_text_grouped(bytes, exact));
}

static void put_settings(FILE *out, const struct gm_memory *memory)
{
	const struct gm_allocator_device *own = &memory->own;
	char size[GM_SIZE_TEXT];
	if (own->limit && own->limit != GM_NOT_KNOWN)
		gm_put(out, "    limit            %12s  by set_per_process_memory_fraction\n",
		        gm_text_size(own->limit, size));
	if (own->max_split)
		gm_put(out, "    max_split_size   %12s\n", gm_text_size(own->max_split, size));
	if (memory->total != GM_NOT_KNOWN)
		put_bytes(out, "device's total", memory->total);
	if (memory->device_free != GM_NOT_KNOWN)
		put_bytes(out, "device's free", memory->device_free);
	if (own->ooms || own->retries)
		gm_put(out,
		        "    out of memory    %12" PRIu64
		        "  times; cudaMalloc failed, cache emptied, asked again: %" PRIu64 "\n",
		        own->ooms, own->retries);
}

static void put_device(FILE *out, const struct gm_memory *memory)
{
	const struct gm_allocator_bytes *now = &memory->own.now, *peak = &memory->own.peak;
	char name[GM_SIZE_TEXT], hole[GM_SIZE_TEXT];
	gm_put(out, "  %s%s: %zu block%s in %zu segment%s\n",
	        gm_text_device(memory->device_type, memory->device, name),
	        memory->there.simulated ? " (simulated)" : "", memory->blocks,
	        gm_text_s(memory->blocks), memory->segment_count, gm_text_s(memory->segment_count));
	put_bytes(out, "allocated", now->allocated);
	put_bytes(out, "requested", now->requested);
	put_bytes(out, "active", now->active);
	put_bytes(out, "reserved", now->reserved);
	put_bytes(out, "peak allocated", peak->allocated);
	put_bytes(out, "peak requested", peak->requested);
	put_bytes(out, "peak reserved", peak->reserved);
	if (memory->holes)
		gm_put(out, "    free parts       %12zu  the largest %s (see `gpumem segments`)\n",
		        memory->holes, gm_text_size(memory->largest_hole, hole));
	put_settings(out, memory);
}

void gm_render_target_info_text(const struct gm_target_info *info, FILE *out)
{
	gm_put(out, "%s\n  PyTorch %s; ", info->source, info->torch);
	if (info->recording)
		gm_put(out,
		        "recorded in %s; these are the allocator's own figures; `gpumem info %s` "
		        "shows those of the recording\n",
		        info->recording, info->recording);
	else
		fputs("nothing recorded: these are the allocator's own figures\n", out);
	if (!info->device_count)
		fputs("  no device has memory\n", out);
	for (size_t i = 0; i < info->device_count; i++)
		put_device(out, &info->devices[i]);
	if (info->kernels_not_computed)
		gm_put(out,
		        "  %" PRIu64 " kernel%s computed nothing: the device is simulated, and the "
		        "program's values are not real results\n",
		        info->kernels_not_computed, gm_text_s(info->kernels_not_computed));
	fputs(info->complete ? "  complete: the blocks add up to the allocator's figures\n"
	                     : "  not complete:\n",
	        out);
	for (size_t i = 0; i < info->device_count; i++)
		gm_put_memory_gaps(&info->devices[i], "    ", out);
	gm_put_pause(&info->pause, out);
}

static json_t *known_json(uint64_t value)
{
	return value == GM_NOT_KNOWN ? json_null() : json_integer((json_int_t)value);
}

static json_t *device_json(const struct gm_memory *memory)
{
	const struct gm_allocator_device *own = &memory->own;
	json_t *value = json_pack("{s:i, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:n}",
	        "device", memory->device, "device_type", "cuda", "events", 0, "allocated",
	        (json_int_t)own->now.allocated, "active", (json_int_t)own->now.active, "requested",
	        (json_int_t)own->now.requested, "reserved", (json_int_t)own->now.reserved,
	        "peak_allocated", (json_int_t)own->peak.allocated, "peak_active",
	        (json_int_t)own->peak.active, "peak_requested", (json_int_t)own->peak.requested,
	        "peak_reserved", (json_int_t)own->peak.reserved, "peak_event");
	json_t *more = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:b}", "ooms",
	        (json_int_t)own->ooms, "alloc_retries", (json_int_t)own->retries, "segments",
	        (json_int_t)memory->segment_count, "blocks", (json_int_t)memory->blocks, "free",
	        (json_int_t)memory->free, "largest_free", (json_int_t)memory->largest_hole, "limit",
	        known_json(own->limit ? own->limit : GM_NOT_KNOWN), "max_split_size",
	        known_json(own->max_split ? own->max_split : GM_NOT_KNOWN), "device_total",
	        known_json(memory->total), "device_free", known_json(memory->device_free),
	        "simulated", memory->there.simulated);
	json_object_update(value, more);
	json_decref(more);
	return value;
}

struct gm_error *gm_render_target_info_json(const struct gm_target_info *info, FILE *out)
{
	json_t *devices = json_array(), *gaps = json_array();
	for (size_t i = 0; i < info->device_count; i++) {
		json_array_append_new(devices, device_json(&info->devices[i]));
		gm_json_memory_gaps(gaps, &info->devices[i]);
	}
	return gm_json_write(
	        json_pack("{s:o, s:i, s:i, s:s, s:o, s:i, s:b, s:b, s:o, s:I, s:o, s:o}", "source",
	                gm_json_string(info->source), "pid", info->pid, "events", 0, "torch",
	                info->torch, "devices", devices, "steps", 0, "complete", info->complete,
	                "recorded", info->recording != NULL, "recording",
	                info->recording ? gm_json_string(info->recording) : json_null(),
	                "kernels_not_computed", (json_int_t)info->kernels_not_computed, "gaps",
	                gaps, "pause", gm_json_pause(&info->pause)),
	        true, out);
}
