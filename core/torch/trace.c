/*
 * PyTorch's own trace: the ring of TraceEntry that the allocator keeps after
 * torch.cuda.memory._record_memory_history(). Layouts: c10/core/CachingDeviceAllocator.h
 * (TraceEntry), torch/csrc/profiler/combined_traceback.h (frames_, the first member after the
 * vtable of GatheredContext).
 */
#include "torch/internal.h"
#include "torch/torch.h"

enum { MAX_ENTRIES = 1 << 22, FRAMES_AT = 8, FRAME_SIZE = 16, MAX_FRAMES = 4096 };

/* In the order of the ring: from the next place to be written, all around. */
static struct gm_error *read_ring(struct gm_torch *torch, uint64_t device,
        unsigned char **ret_bytes, size_t *ret_count, size_t *ret_first)
{
	const struct gm_torch_layout *layout = torch->layout;
	uint64_t next, vector, bounds[2];
	size_t size = layout->trace.size_of;
	*ret_count = 0;
	if (!gm_image_try_u64(torch->image, device + layout->allocator.trace_next, &next) ||
	        !gm_image_try_u64(
	                torch->image, device + layout->allocator.trace_entries, &vector) ||
	        !gm_is_object_address(vector) ||
	        !gm_image_try_read(torch->image, vector, bounds, sizeof(bounds)) ||
	        bounds[1] <= bounds[0] || (bounds[1] - bounds[0]) % size != 0 ||
	        (bounds[1] - bounds[0]) / size > MAX_ENTRIES)
		return NULL;
	size_t count = (size_t)((bounds[1] - bounds[0]) / size);
	unsigned char *bytes = malloc(count * size);
	if (!bytes)
		return &gm_error_no_memory;
	struct gm_error *error = gm_image_read(torch->image, bounds[0], bytes, count * size);
	if (error) {
		free(bytes);
		return error;
	}
	*ret_bytes = bytes;
	*ret_count = count;
	*ret_first = next < count ? (size_t)next : 0;
	return NULL;
}

struct gm_error *gm_torch_trace(
        struct gm_torch *torch, int device, struct gm_trace_entry **ret_entries, size_t *ret_count)
{
	uint64_t devices[GM_TORCH_DEVICES_MAX + 1];
	size_t device_count, count = 0, first = 0;
	gm_try(gm_torch_device_allocators(torch, devices, &device_count));
	const struct gm_torch_layout *layout = torch->layout;
	*ret_entries = NULL;
	*ret_count = 0;
	if (!layout->trace.size_of || !layout->allocator.trace_entries)
		return gm_error_create(GM_TARGET,
		        "PyTorch %s: gpumem does not know where this version keeps its trace: dump "
		        "a snapshot in the program (torch.cuda.memory._dump_snapshot) and ask "
		        "about that",
		        torch->version);
	if (device < 0 || (size_t)device >= device_count || !gm_is_object_address(devices[device]))
		return NULL;
	_cleanup_free_ unsigned char *bytes = NULL;
	gm_try(read_ring(torch, devices[device], &bytes, &count, &first));
	struct gm_trace_entry *entries = calloc(count + 1, sizeof(*entries));
	if (!entries)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++) {
		const unsigned char *from = bytes + (first + i) % count * layout->trace.size_of;
		entries[i] = (struct gm_trace_entry){
		        .action = gm_half(from, layout->trace.action),
		        .address = gm_word(from, layout->trace.address),
		        .size = gm_word(from, layout->trace.size),
		        .stream = gm_word(from, layout->trace.stream),
		        .context = gm_word(from, layout->trace.context),
		};
	}
	*ret_entries = entries;
	*ret_count = count;
	return NULL;
}

size_t gm_torch_trace_frames(
        struct gm_torch *torch, uint64_t context, struct gm_trace_frame *ret_frames, size_t max)
{
	uint64_t bounds[2];
	size_t count = 0;
	if (!gm_is_object_address(context) ||
	        !gm_image_try_read(torch->image, context + FRAMES_AT, bounds, sizeof(bounds)) ||
	        bounds[1] <= bounds[0] || (bounds[1] - bounds[0]) % FRAME_SIZE != 0 ||
	        (bounds[1] - bounds[0]) / FRAME_SIZE > MAX_FRAMES)
		return 0;
	for (uint64_t at = bounds[0]; at < bounds[1] && count < max; at += FRAME_SIZE) {
		unsigned char frame[FRAME_SIZE];
		if (!gm_image_try_read(torch->image, at, frame, sizeof(frame)))
			break;
		ret_frames[count++] = (struct gm_trace_frame){gm_word(frame, 0), gm_half(frame, 8)};
	}
	return count;
}
