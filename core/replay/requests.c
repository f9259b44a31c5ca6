/* The requests of one device, out of a recording's events. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "log/log.h"
#include "model/model.h"
#include "replay/replay.h"

enum { STREAMS_MAX = 1 << 15 };

struct taking {
	const struct gm_model *model;
	const struct gm_log *log;
	const struct gm_model_device *device;
	struct gm_replay_requests *requests;
	uint32_t *ordinals; /* of each block of the model its allocation's number + 1; 0: none */
	uint64_t streams[STREAMS_MAX];
};

void gm_replay_requests_deinit(struct gm_replay_requests *requests)
{
	free(requests->kinds);
	free(requests->numbers);
	free(requests->streams);
	free(requests->events);
	*requests = (struct gm_replay_requests){0};
}

static uint16_t stream_of(struct taking *taking, uint64_t stream)
{
	struct gm_replay_requests *requests = taking->requests;
	for (size_t i = 0; i < requests->stream_count; i++)
		if (taking->streams[i] == stream)
			return (uint16_t)i;
	if (requests->stream_count == STREAMS_MAX)
		return STREAMS_MAX - 1;
	taking->streams[requests->stream_count] = stream;
	return (uint16_t)requests->stream_count++;
}

static void put(struct taking *taking, uint64_t event, enum gm_replay_kind kind, int64_t number,
        uint16_t stream)
{
	struct gm_replay_requests *requests = taking->requests;
	size_t at = requests->count++;
	requests->kinds[at] = (uint8_t)kind;
	requests->numbers[at] = number;
	requests->streams[at] = stream;
	requests->events[at] = (uint32_t)event;
}

static bool is_of_device(const struct taking *taking, const struct gm_event *event)
{
	return event->device_type == taking->device->type &&
	       event->device == taking->device->index && !event->owner;
}

/* Did the program call torch.cuda.empty_cache()? *ret_known: the recording has Python's stack. */
static bool is_empty_cache(const struct gm_log *log, uint32_t stack, bool *ret_known)
{
	struct gm_log_frame frame;
	struct gm_log_code code;
	size_t count = 0;
	const uint32_t *frames = stack ? gm_log_python_stack(log, stack, &count) : NULL;
	*ret_known = frames && count > 0;
	return *ret_known && gm_log_frame(log, frames[0], &frame) &&
	       gm_log_code(log, frame.code, &code) &&
	       strcmp(gm_log_string(log, code.name), "empty_cache") == 0;
}

/*
 * Segments are freed by empty_cache(), or by the allocator itself where it needs the memory
 * elsewhere (it frees, then asks CUDA again) or collects garbage: that it does by itself in the
 * replay too. Without a stack the event behind the freed segments tells: the allocator frees of its
 * own where CUDA has not enough for the next one.
 */
static void take_freed(struct taking *taking, uint64_t *number, const struct gm_event *first)
{
	bool known, called = is_empty_cache(taking->log, first->python_stack, &known);
	uint64_t at = *number, end = gm_log_event_count(taking->log);
	struct gm_event next = *first;
	while (at < end) {
		gm_log_event(taking->log, at, &next);
		bool ours = is_of_device(taking, &next);
		if (ours && next.action != GM_SEGMENT_FREE && next.action != GM_SEGMENT_UNMAP)
			break;
		*number = ours ? at : *number;
		at++;
	}
	if (!known) {
		bool more =
		        at < end && (next.action == GM_SEGMENT_ALLOC ||
		                            next.action == GM_SEGMENT_MAP || next.action == GM_OOM);
		uint64_t total = taking->requests->total, reserved = first->reserved;
		bool full = total && reserved != UINT64_MAX &&
		            reserved + first->size + next.size > total - total / 16;
		called = !(more && (full || next.action == GM_OOM));
	}
	if (called)
		put(taking, *number, GM_REPLAY_EMPTY_CACHE, 0, 0);
}

static void take_alloc(struct taking *taking, uint64_t number, const struct gm_event *event)
{
	uint32_t block = gm_model_event_block(taking->model, number);
	uint64_t size = event->requested ? event->requested : event->size;
	taking->requests->earlier += event->flags & GM_EVENT_PREEXISTING ? 1 : 0;
	if (block != GM_NO_BLOCK)
		taking->ordinals[block] = (uint32_t)++taking->requests->allocations;
	else
		taking->requests->allocations++;
	put(taking, number, GM_REPLAY_ALLOC, (int64_t)size, stream_of(taking, event->stream));
}

static void take_free(struct taking *taking, uint64_t number)
{
	uint32_t block = gm_model_event_block(taking->model, number);
	uint32_t ordinal = block == GM_NO_BLOCK ? 0 : taking->ordinals[block];
	if (!ordinal) {
		taking->requests->unknown++;
		return;
	}
	taking->ordinals[block] = 0; /* a damaged recording may free it again */
	put(taking, number, GM_REPLAY_FREE, ordinal - 1, 0);
}

static void take(struct taking *taking, uint64_t *number, const struct gm_event *event)
{
	switch (event->action) {
	case GM_ALLOC:
		take_alloc(taking, *number, event);
		break;
	case GM_FREE_REQUESTED:
		if (event->flags & GM_EVENT_COMPLETES)
			take_free(taking, *number);
		break;
	case GM_FREE_COMPLETED:
		take_free(taking, *number);
		break;
	case GM_SEGMENT_FREE:
	case GM_SEGMENT_UNMAP:
		take_freed(taking, number, event);
		break;
	case GM_OOM:
		taking->requests->refused++;
		put(taking, *number, GM_REPLAY_REFUSED,
		        (int64_t)(event->requested ? event->requested : event->size),
		        stream_of(taking, event->stream));
		break;
	default:
		break;
	}
}

struct gm_error *gm_replay_requests_create(
        const struct gm_model *model, size_t device, struct gm_replay_requests *ret_requests)
{
	const struct gm_log *log = gm_model_log(model);
	const struct gm_model_device *of = gm_model_device(model, device);
	size_t count = gm_log_event_count(log), blocks = gm_model_block_count(model);
	struct gm_replay_requests requests = {
	        .kinds = calloc(count + 1, sizeof(*requests.kinds)),
	        .numbers = calloc(count + 1, sizeof(*requests.numbers)),
	        .streams = calloc(count + 1, sizeof(*requests.streams)),
	        .events = calloc(count + 1, sizeof(*requests.events)),
	        .peak_allocated = of->peak.allocated,
	        .peak_reserved = of->peak.reserved,
	};
	_cleanup_free_ struct taking *taking = calloc(1, sizeof(*taking));
	_cleanup_free_ uint32_t *ordinals = calloc(blocks + 1, sizeof(*ordinals));
	gm_log_device_total(log, of->index, &requests.total);
	if (!requests.kinds || !requests.numbers || !requests.streams || !requests.events ||
	        !taking || !ordinals) {
		gm_replay_requests_deinit(&requests);
		return &gm_error_no_memory;
	}
	taking->model = model;
	taking->log = log;
	taking->device = of;
	taking->requests = &requests;
	taking->ordinals = ordinals;
	stream_of(taking, 0);
	for (uint64_t number = 0; number < count; number++) {
		struct gm_event event;
		gm_log_event(log, number, &event);
		if (is_of_device(taking, &event))
			take(taking, &number, &event);
	}
	if (requests.allocations == 0) {
		gm_replay_requests_deinit(&requests);
		return gm_error_create(GM_TARGET,
		        "replay: %s: no allocations of this device are in the recording",
		        gm_log_path(log));
	}
	*ret_requests = requests;
	return NULL;
}
