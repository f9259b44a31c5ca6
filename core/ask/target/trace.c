#include "ask/target/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ask/context.h"
#include "ask/target/memory.h"
#include "ask/target/memory_now.h"
#include "base/cleanup.h"
#include "log/log.h"
#include "base/map.h"
#include "torch/torch.h"
#include "torch/allocator.h"

enum { FRAMES_MAX = 128, LOOPS_MAX = 64 };

/* Actions that a log has too; the last one, GM_TORCH_ANNOTATE, is not among them. */
static const uint8_t actions[GM_TORCH_ANNOTATE] = {
        [GM_TORCH_ALLOC] = GM_ALLOC,
        [GM_TORCH_FREE_REQUESTED] = GM_FREE_REQUESTED,
        [GM_TORCH_FREE_COMPLETED] = GM_FREE_COMPLETED,
        [GM_TORCH_SEGMENT_ALLOC] = GM_SEGMENT_ALLOC,
        [GM_TORCH_SEGMENT_FREE] = GM_SEGMENT_FREE,
        [GM_TORCH_SEGMENT_MAP] = GM_SEGMENT_MAP,
        [GM_TORCH_SEGMENT_UNMAP] = GM_SEGMENT_UNMAP,
        [GM_TORCH_SNAPSHOT] = GM_SNAPSHOT,
        [GM_TORCH_OOM] = GM_OOM,
};

struct writing {
	struct gm_context *context;
	struct gm_log_writer *log;
	struct gm_map stacks; /* context -> id in the log, plus 1 */
	struct gm_map sizes;  /* address -> size of the live block at it */
	uint64_t written, capacity;
};

static uint32_t put_frame(struct writing *writing, const struct gm_python_frame *frame)
{
	struct gm_log_loop loops[LOOPS_MAX];
	struct gm_log_code code = {
	        .file = gm_log_writer_string(writing->log, frame->code->file),
	        .name = gm_log_writer_string(writing->log, frame->code->name),
	        .first_line = frame->code->first_line,
	        .loops = loops,
	};
	for (uint32_t i = 0; i < frame->code->loop_count && i < LOOPS_MAX; i++) {
		const struct gm_loop *loop = &frame->code->loops[i];
		loops[code.loop_count++] = (struct gm_log_loop){
		        loop->start, loop->end, loop->line, loop->line_end, true};
	}
	struct gm_instruction instruction;
	gm_python_instruction(writing->context->python, frame->code, frame->lasti, &instruction);
	const struct gm_log_frame record = {
	        .code = gm_log_writer_code(writing->log, &code),
	        .lasti = frame->lasti,
	        .line = frame->line,
	        .op = (uint32_t)instruction.op,
	        .op_name =
	                instruction.name ? gm_log_writer_string(writing->log, instruction.name) : 0,
	};
	return gm_log_writer_frame(writing->log, &record);
}

static uint32_t put_stack(struct writing *writing, uint64_t context)
{
	struct gm_trace_frame frames[FRAMES_MAX];
	uint32_t ids[FRAMES_MAX];
	size_t count = 0;
	bool is_new;
	if (!context)
		return 0;
	uint64_t *known = gm_map_put(&writing->stacks, context, &is_new);
	if (known && !is_new)
		return (uint32_t)(*known - 1);
	size_t depth = gm_torch_trace_frames(writing->context->torch, context, frames, FRAMES_MAX);
	for (size_t i = 0; i < depth; i++) {
		struct gm_python_frame frame;
		if (writing->context->python && gm_python_code_frame(writing->context->python,
		                                        frames[i].code, frames[i].lasti, &frame))
			ids[count++] = put_frame(writing, &frame);
	}
	uint32_t id = count ? gm_log_writer_python_stack(writing->log, ids, count) : 0;
	if (known)
		*known = (uint64_t)id + 1;
	return id;
}

/* The trace has the requested size; the size that the allocator chose is known only for live
 * blocks. */
static uint64_t block_size(
        const struct writing *writing, const struct gm_trace_entry *entry, bool last)
{
	const uint64_t *size = last ? gm_map_find(&writing->sizes, entry->address) : NULL;
	if (size)
		return *size;
	return (entry->size + GM_TORCH_BLOCK_STEP - 1) / GM_TORCH_BLOCK_STEP * GM_TORCH_BLOCK_STEP;
}

static void put_entry(
        struct writing *writing, int device, const struct gm_trace_entry *entry, bool last)
{
	if (entry->action >= GM_TORCH_ANNOTATE)
		return;
	uint8_t action = actions[entry->action];
	bool block =
	        action == GM_ALLOC || action == GM_FREE_REQUESTED || action == GM_FREE_COMPLETED;
	struct gm_event event = {
	        .action = action,
	        .device_type = GM_DEVICE_CUDA,
	        .device = (int16_t)device,
	        .address = action == GM_OOM ? 0 : entry->address,
	        .size = block ? block_size(writing, entry, last) : entry->size,
	        .requested = entry->size,
	        .stream = entry->stream,
	        .allocated = UINT64_MAX,
	        .reserved = UINT64_MAX,
	        .python_stack = put_stack(writing, entry->context),
	};
	uint64_t number = gm_log_writer_event(writing->log, &event);
	writing->written++;
	if (action == GM_OOM) {
		char name[48];
		snprintf(name, sizeof(name), "oom.%ju.free", (uintmax_t)number);
		gm_log_writer_counter(writing->log, name, entry->address);
	}
}

static void put_existing(struct writing *writing, int device, uint8_t action, uint64_t address,
        uint64_t size, uint64_t requested, uint64_t stream)
{
	const struct gm_event event = {
	        .action = action,
	        .device_type = GM_DEVICE_CUDA,
	        .device = (int16_t)device,
	        .flags = GM_EVENT_PREEXISTING,
	        .address = address,
	        .size = size,
	        .requested = requested,
	        .stream = stream,
	        .allocated = UINT64_MAX,
	        .reserved = UINT64_MAX,
	};
	gm_log_writer_event(writing->log, &event);
}

/* Blocks that are live and were created before the trace begins. */
static void put_before(struct writing *writing, const struct gm_memory *memory,
        const struct gm_map *made, const struct gm_map *segments)
{
	for (size_t i = 0; i < memory->segment_count; i++) {
		const struct gm_memory_segment *segment = &memory->segments[i];
		if (!segment->expandable && !gm_map_find(segments, segment->address))
			put_existing(writing, memory->device, GM_SEGMENT_ALLOC, segment->address,
			        segment->size, segment->size, segment->stream);
		for (size_t j = segment->first; j < segment->first + segment->count; j++) {
			const struct gm_segment_part *part = &memory->parts[j];
			if (part->state == GM_SEGMENT_PART_USED &&
			        !gm_map_find(made, part->address))
				put_existing(writing, memory->device, GM_ALLOC, part->address,
				        part->size, part->requested, segment->stream);
		}
	}
}

/* For each address: the entry that created the live block, plus 1. */
static void follow(const struct gm_trace_entry *entries, size_t count, struct gm_map *made,
        struct gm_map *segments)
{
	for (size_t i = 0; i < count; i++) {
		if (entries[i].action >= GM_TORCH_ANNOTATE)
			continue;
		uint8_t action = actions[entries[i].action];
		struct gm_map *map = action == GM_ALLOC           ? made
		                     : action == GM_SEGMENT_ALLOC ? segments
		                                                  : NULL;
		uint64_t *slot = map ? gm_map_put(map, entries[i].address, NULL) : NULL;
		if (slot)
			*slot = i + 1;
	}
}

static struct gm_error *put_device(struct writing *writing, int device)
{
	struct gm_memory memory;
	_cleanup_free_ struct gm_trace_entry *entries = NULL;
	struct gm_map made = {0}, segments = {0};
	size_t count;
	gm_try(gm_torch_trace(writing->context->torch, device, &entries, &count));
	if (!count)
		return NULL;
	gm_try(gm_memory_now(writing->context, device, &memory));
	gm_map_deinit(&writing->sizes);
	for (size_t i = 0; i < memory.part_count; i++) {
		uint64_t *size =
		        memory.parts[i].state == GM_SEGMENT_PART_USED
		                ? gm_map_put(&writing->sizes, memory.parts[i].address, NULL)
		                : NULL;
		if (size)
			*size = memory.parts[i].size;
	}
	follow(entries, count, &made, &segments);
	put_before(writing, &memory, &made, &segments);
	for (size_t i = 0; i < count; i++) {
		const uint64_t *last = gm_map_find(&made, entries[i].address);
		put_entry(writing, device, &entries[i], last && *last == i + 1);
	}
	gm_memory_deinit(&memory);
	gm_map_deinit(&made);
	gm_map_deinit(&segments);
	return NULL;
}

static struct gm_error *put_all(struct writing *writing)
{
	size_t devices;
	gm_try(gm_torch_allocator_devices(writing->context->torch, &devices));
	for (size_t i = 0; i < devices; i++)
		gm_try(put_device(writing, (int)i));
	if (writing->written == 0)
		return gm_error_create(GM_TARGET,
		        "nothing was recorded, by gpumem or by PyTorch: earlier events "
		        "are not known: record the program (`gpumem record` in gdb), or "
		        "call torch.cuda.memory._record_memory_history() at its start");
	return NULL;
}

struct gm_error *gm_trace_log(struct gm_context *context, struct gm_log **ret_log)
{
	struct gm_torch *torch;
	gm_try(gm_context_torch(context, &torch));
	_cleanup_free_ char *name = gm_target_name(context);
	_cleanup_close_ int fd = memfd_create("gpumem-trace", MFD_CLOEXEC);
	if (!name)
		return &gm_error_no_memory;
	if (fd < 0)
		return gm_error_os(
		        GM_INTERNAL, errno, "not enough memory for the events of the trace");
	char path[40];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	const struct gm_log_writer_options options = {.source = "PyTorch's own trace",
	        .pid = context->core_path ? 0 : (uint64_t)context->pid};
	struct writing writing = {.context = context};
	gm_try(gm_log_writer_create(path, &options, &writing.log));
	struct gm_error *error = put_all(&writing);
	struct gm_error *closing = gm_log_writer_close(writing.log);
	gm_map_deinit(&writing.stacks);
	gm_map_deinit(&writing.sizes);
	if (error)
		gm_error_destroy(closing);
	else
		error = closing;
	return error ? error : gm_log_open_lazily(path, name, ret_log);
}
