#include <inttypes.h>

#include "base/cleanup.h"

#include "base/put.h"
#include "render/json.h"
#include "render/memory.h"
#include "render/pause.h"
#include "render/text.h"

static const char *pool_name(const struct gm_memory_segment *segment)
{
	static const char *const names[] = {"", "small", "large"};
	return names[segment->pool];
}

static const char *stream_text(uint64_t stream, char text[24])
{
	if (stream)
		snprintf(text, 24, "0x%" PRIx64, stream);
	else
		snprintf(text, 24, "default");
	return text;
}

static void put_head(const struct gm_memory *memory, FILE *out)
{
	char name[GM_SIZE_TEXT], size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED];
	gm_put(out, "%s: %s reserved (%s bytes) in %zu segment%s",
	        gm_text_device(memory->device_type, memory->device, name),
	        gm_text_size(memory->reserved, size), gm_text_grouped(memory->reserved, exact),
	        memory->segment_count, gm_text_s(memory->segment_count));
	if (memory->event != GM_NO_EVENT)
		gm_put(out, " after event %u", memory->event);
	gm_put(out, "; %s allocated", gm_text_size(memory->allocated, size));
	if (memory->pending)
		gm_put(out, ", %s released and waiting for a stream",
		        gm_text_size(memory->pending, size));
	gm_put(out, ", %s free\n", gm_text_size(memory->free, size));
}

static void put_fragmentation(const struct gm_memory *memory, FILE *out)
{
	char size[GM_SIZE_TEXT], free_text[GM_SIZE_TEXT];
	if (!memory->free) {
		fputs("fragmentation: none: no part of a segment is free\n", out);
		return;
	}
	gm_put(out, "fragmentation: %s free in %zu part%s, the largest %s",
	        gm_text_size(memory->free, free_text), memory->holes, memory->holes == 1 ? "" : "s",
	        gm_text_size(memory->largest_hole, size));
	if (memory->holes > 1)
		gm_put(out, " (%.0f %% of it)",
		        100 * (double)memory->largest_hole / (double)memory->free);
	if (memory->whole_free)
		gm_put(out, "; %s in whole segments, which empty_cache() would release",
		        gm_text_size(memory->whole_free, size));
	if (memory->private_free)
		gm_put(out, "; %s in private pools, for their own use only",
		        gm_text_size(memory->private_free, size));
	fputc('\n', out);
}

static struct gm_error *put_table(
        const struct gm_memory *memory, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {
	        "segment", "size", "used", "free", "largest free", "holes", "pool", "stream"};
	struct gm_table *table = gm_table_create(heads, "lrrrrrll");
	for (size_t i = 0; i < memory->segment_count; i++) {
		const struct gm_memory_segment *segment = &memory->segments[i];
		char size[GM_SIZE_TEXT], used[GM_SIZE_TEXT], space[GM_SIZE_TEXT],
		        hole[GM_SIZE_TEXT], stream[24];
		gm_table_cell(table, "0x%" PRIx64, segment->address);
		gm_table_cell(table, "%s", gm_text_size(segment->size, size));
		gm_table_cell(table, "%s", gm_text_size(segment->used + segment->pending, used));
		gm_table_cell(table, "%s", segment->free ? gm_text_size(segment->free, space) : "");
		gm_table_cell(table, "%s",
		        segment->free ? gm_text_size(segment->largest_hole, hole) : "");
		if (segment->holes)
			gm_table_cell(table, "%zu", segment->holes);
		else
			gm_table_cell(table, "%s", "");
		gm_table_cell(table, "%s%s%s", pool_name(segment),
		        segment->is_private ? " private" : "",
		        segment->expandable ? " expandable" : "");
		gm_table_cell(table, "%s%s", stream_text(segment->stream, stream),
		        segment->pending ? " (frees pending)" : "");
	}
	return gm_table_finish(table, style, out) ? NULL : &gm_error_no_memory;
}

/* --- a request -------------------------------------------------------------------------------- */

static void put_holes(const struct gm_holes *holes, const char *why, FILE *out)
{
	char size[GM_SIZE_TEXT], largest[GM_SIZE_TEXT];
	if (!holes->count)
		return;
	gm_put(out, "  %zu free part%s, %s in all, the largest %s: %s\n", holes->count,
	        holes->count == 1 ? "" : "s", gm_text_size(holes->bytes, size),
	        gm_text_size(holes->largest, largest), why);
}

/* More than the device would have if nothing else were on it? */
static bool is_too_large(const struct gm_memory *memory, const struct gm_request *request)
{
	uint64_t kept = memory->reserved - memory->whole_free;
	return memory->total != GM_NOT_KNOWN &&
	       (request->segment > memory->total || kept > memory->total - request->segment);
}

static void put_new_segment(
        const struct gm_memory *memory, const struct gm_request *request, FILE *out)
{
	char size[GM_SIZE_TEXT], text[GM_SIZE_TEXT];
	const struct gm_allocator_device *own = memory->allocator;
	gm_put(out, "  so PyTorch asks CUDA for a new segment of %s",
	        gm_text_size(request->segment, size));
	if (own && own->limit && own->limit != GM_NOT_KNOWN &&
	        own->now.reserved + request->segment > own->limit)
		gm_put(out, ": refused, the limit set for this process is %s\n",
		        gm_text_size(own->limit, text));
	else if (memory->device_free == GM_NOT_KNOWN && is_too_large(memory, request))
		gm_put(out, ": refused, of the device's %s PyTorch already has %s\n",
		        gm_text_size(memory->total, text), gm_text_size(memory->reserved, size));
	else if (memory->device_free == GM_NOT_KNOWN)
		fputs(": whether the device has that much is not known\n", out);
	else if (memory->device_free >= request->segment)
		gm_put(out, ": the device has that much, %s is free\n",
		        gm_text_size(memory->device_free, text));
	else
		gm_put(out, ": refused, the device has %s left%s\n",
		        gm_text_size(memory->device_free, text),
		        memory->whole_free
		                ? "; PyTorch then releases its whole free segments and asks again"
		                : "");
}

static void put_request(const struct gm_memory *memory, const struct gm_request *request, FILE *out)
{
	char size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED], stream[24], rounded[GM_SIZE_GROUPED];
	gm_put(out, "a request of %s (%s bytes, a block of %s) on stream %s ",
	        gm_text_size(request->bytes, size), gm_text_grouped(request->bytes, exact),
	        gm_text_grouped(request->rounded, rounded), stream_text(request->stream, stream));
	if (request->fits) {
		gm_put(out, "fits: it gets the free part at 0x%" PRIx64 "\n", request->at);
		return;
	}
	fputs("fits in no free part:\n", out);
	if (!memory->holes)
		fputs("  there are none\n", out);
	put_holes(&request->too_small, "too small", out);
	put_holes(&request->other_stream, "of another stream's segments", out);
	put_holes(&request->other_pool,
	        request->small ? "in the large pool, and requests up to 1 MiB use the small one"
	                       : "in the small pool, for requests up to 1 MiB",
	        out);
	put_holes(&request->private_pool, "in a private pool (CUDA graph, MemPool)", out);
	put_holes(&request->unsplittable, "not split, because of max_split_size_mb", out);
	put_new_segment(memory, request, out);
}

struct gm_error *gm_render_segments_text(const struct gm_memory *memory,
        const struct gm_request *request, const struct gm_style *style, FILE *out)
{
	put_head(memory, out);
	if (memory->segment_count)
		gm_try(put_table(memory, style, out));
	put_fragmentation(memory, out);
	gm_put_memory_gaps(memory, "not complete: ", out);
	gm_put_pause(&memory->pause, out);
	if (request)
		put_request(memory, request, out);
	return NULL;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *bytes_json(uint64_t bytes)
{
	return bytes == GM_NOT_KNOWN ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *part_json(const struct gm_memory *memory, const struct gm_segment_part *part)
{
	static const char *const states[] = {"used", "pending", "free", "unmapped"};
	json_t *value = json_pack("{s:o, s:I, s:s, s:I}", "address", gm_json_address(part->address),
	        "size", (json_int_t)part->size, "state", states[part->state], "requested",
	        (json_int_t)part->requested);
	if (part->block != GM_NO_BLOCK) {
		uint32_t event = gm_model_block(memory->model, part->block)->alloc;
		json_object_set_new(value, "block", gm_json_event_or_null(event));
	}
	return value;
}

static json_t *segment_json(const struct gm_memory *memory, const struct gm_memory_segment *segment)
{
	json_t *parts = json_array();
	for (size_t i = segment->first; i < segment->first + segment->count; i++)
		json_array_append_new(parts, part_json(memory, &memory->parts[i]));
	return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:b, s:b, s:o}", "address",
	        gm_json_address(segment->address), "size", (json_int_t)segment->size, "used",
	        (json_int_t)segment->used, "pending", (json_int_t)segment->pending, "free",
	        (json_int_t)segment->free, "largest_free", (json_int_t)segment->largest_hole,
	        "holes", (json_int_t)segment->holes, "stream", (json_int_t)segment->stream, "pool",
	        segment->pool ? pool_name(segment) : "unknown", "private", segment->is_private,
	        "expandable", segment->expandable, "blocks", parts);
}

static json_t *holes_json(const struct gm_holes *holes)
{
	return json_pack("{s:I, s:I, s:I}", "holes", (json_int_t)holes->count, "bytes",
	        (json_int_t)holes->bytes, "largest", (json_int_t)holes->largest);
}

static json_t *request_json(const struct gm_request *request)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "bytes",
	        (json_int_t)request->bytes, "rounded", (json_int_t)request->rounded, "segment",
	        (json_int_t)request->segment, "stream", (json_int_t)request->stream, "fits",
	        request->fits, "at", request->fits ? gm_json_address(request->at) : json_null(),
	        "too_small", holes_json(&request->too_small), "other_stream",
	        holes_json(&request->other_stream), "other_pool", holes_json(&request->other_pool),
	        "private_pool", holes_json(&request->private_pool), "unsplittable",
	        holes_json(&request->unsplittable));
}

struct gm_error *gm_render_segments_json(
        const struct gm_memory *memory, const struct gm_request *request, FILE *out)
{
	json_t *segments = json_array();
	for (size_t i = 0; i < memory->segment_count; i++)
		json_array_append_new(segments, segment_json(memory, &memory->segments[i]));
	json_t *value = json_pack(
	        "{s:i, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "device",
	        memory->device, "event", gm_json_event_or_null(memory->event), "reserved",
	        (json_int_t)memory->reserved, "allocated", (json_int_t)memory->allocated, "pending",
	        (json_int_t)memory->pending, "free", (json_int_t)memory->free, "largest_free",
	        (json_int_t)memory->largest_hole, "holes", (json_int_t)memory->holes, "whole_free",
	        (json_int_t)memory->whole_free, "private_free", (json_int_t)memory->private_free,
	        "device_total", bytes_json(memory->total), "device_free",
	        bytes_json(memory->device_free), "segments", segments);
	if (value)
		gm_json_set_memory_gaps(value, memory);
	if (value && request)
		json_object_set_new(value, "request", request_json(request));
	return gm_json_write(value, true, out);
}
