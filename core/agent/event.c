/* Encodes an event as format.h specifies. */
#include "agent/event.h"

#include <string.h>

#include "torch/allocator.h"
#include "agent/spool.h"
#include "agent/stacks/stacks.h"
#include "agent/clock.h"
#include "agent/grad_mode.h"
#include "agent/state.h"
#include "agent/stops.h"
#include "base/varint.h"

enum { REPEAT_AFTER = 256 };

/* A device's counters as a reader derives them, so that an event need not repeat them. Changed
 * under the allocator's own lock. */
struct counters {
	uint64_t allocated, reserved;
	uint32_t quiet; /* events since they were last written; 0: never */
};

static struct counters counters[GM_TORCH_DEVICES_MAX];
static uint64_t own_id;

void gm_agent_events_begin(void)
{
	gm_agent_stops_begin();
	gm_agent_clock_begin();
	memset(counters, 0, sizeof(counters));
	atomic_store(&gm_agent_sequence, 1);
	gm_agent_grad_mode_begin();
}

void gm_agent_keep_id(uint64_t id)
{
	own_id = id;
}

uint64_t gm_agent_kept_id(void)
{
	return own_id;
}

/* Which of the counters must be written. */
static uint32_t count_bits(const struct gm_agent_event *event)
{
	if (event->allocated == UINT64_MAX || event->device < 0 ||
	        event->device >= GM_TORCH_DEVICES_MAX)
		return GM_AGENT_NO_COUNTERS;
	struct counters *known = &counters[event->device];
	uint64_t expected = known->allocated;
	if (event->action == GM_AGENT_ALLOC)
		expected += event->size;
	else if (event->action == GM_AGENT_FREE_REQUESTED)
		expected -= event->size;
	uint32_t bits = 0;
	bool again = known->quiet == 0 || known->quiet >= REPEAT_AFTER;
	if (again || expected != event->allocated)
		bits |= GM_AGENT_HAS_ALLOCATED;
	if (again || known->reserved != event->reserved)
		bits |= GM_AGENT_HAS_RESERVED;
	known->quiet = again ? 1 : known->quiet + 1;
	known->allocated = event->allocated;
	known->reserved = event->reserved;
	return bits;
}

/* The same as gm_put_varint(); most values take one or two bytes. */
static inline uint8_t *put(uint8_t *at, uint64_t value)
{
	if (value < 0x80) {
		*at = (uint8_t)value;
		return at + 1;
	}
	if (value < 0x4000) {
		at[0] = (uint8_t)(value | 0x80);
		at[1] = (uint8_t)(value >> 7);
		return at + 2;
	}
	return gm_put_varint(at, value);
}

static inline uint8_t *put_signed(uint8_t *at, uint64_t value, uint64_t before)
{
	return put(at, gm_zigzag((int64_t)(value - before)));
}

/* Optional fields, which few events have. The order is that of the bits. */
static uint8_t *put_source(uint8_t *at, const struct gm_agent_event *event, bool has_device)
{
	if (has_device) {
		at = put(at, event->device_type);
		at = put(at, gm_zigzag(event->device));
	}
	return event->source ? put(at, event->source) : at;
}

static uint8_t *put_counters(uint8_t *at, const struct gm_agent_event *event, uint32_t bits)
{
	if (bits & GM_AGENT_HAS_ALLOCATED)
		at = put(at, event->allocated);
	return bits & GM_AGENT_HAS_RESERVED ? put(at, event->reserved) : at;
}

/* Each field is written and its bit set, if it has a value; the bits before the fields are filled
 * in last. */
static inline uint64_t write_event(
        const struct gm_agent_event *event, const struct gm_agent_stacks *stacks, uint32_t bits)
{
	struct gm_agent_buffer *buffer = gm_agent_buffer(GM_AGENT_EVENT_MAX);
	if (__builtin_expect(!buffer, 0)) {
		struct gm_agent_file_header *header = gm_agent_spool_header();
		if (header)
			atomic_fetch_add(&header->lost, 1);
		return 0;
	}
	struct gm_agent_coding *before = &buffer->coding;
	const uint64_t sequence =
	        atomic_fetch_add_explicit(&gm_agent_sequence, 1, memory_order_relaxed);
	const uint64_t time_ns = gm_agent_now();
	uint8_t *head = gm_agent_buffer_at(buffer), *at = head + 3;
	unsigned shift = 0;
	if (((event->address | event->size | before->address) & 511) == 0) {
		bits |= GM_AGENT_GRAIN;
		shift = 9;
	}
	at = put_signed(at, time_ns, before->time_ns);
	at = put(at, gm_zigzag((int64_t)(event->address - before->address) >> shift));
	at = put(at, event->size >> shift);
	if (sequence != before->sequence + 1) {
		bits |= GM_AGENT_HAS_SEQUENCE;
		at = put(at, sequence - before->sequence - 1);
	}
	bool has_device =
	        event->device_type != 1 || event->device != 0; /* otherwise CUDA's first device */
	if (__builtin_expect(has_device || event->source, 0)) {
		bits |= has_device ? GM_AGENT_HAS_DEVICE : 0;
		bits |= event->source ? GM_AGENT_HAS_SOURCE : 0;
		at = put_source(at, event, has_device);
	}
	if (event->requested) {
		bits |= GM_AGENT_HAS_REQUESTED;
		at = put(at, gm_zigzag((int64_t)(event->size - event->requested)));
	}
	if (__builtin_expect(event->stream != before->stream, 0)) {
		bits |= GM_AGENT_HAS_STREAM;
		at = put(at, event->stream);
		before->stream = event->stream;
	}
	if (__builtin_expect(bits & (GM_AGENT_HAS_ALLOCATED | GM_AGENT_HAS_RESERVED), 0))
		at = put_counters(at, event, bits);
	if (stacks->python != before->python) {
		bits |= GM_AGENT_HAS_PYTHON;
		at = put_signed(at, stacks->python, before->python);
		before->python = stacks->python;
	}
	if (stacks->native != before->native) {
		bits |= GM_AGENT_HAS_NATIVE;
		at = put_signed(at, stacks->native, before->native);
		before->native = stacks->native;
	}
	if (stacks->evidence) {
		bits |= GM_AGENT_HAS_EVIDENCE;
		at = put(at, stacks->evidence);
	}
	if (event->tensor) {
		bits |= GM_AGENT_HAS_TENSOR;
		at = put(at, event->tensor);
	}
	bits |= stacks->flags & GM_STACKS_BORROWED ? GM_AGENT_BORROWED : 0;
	bits |= event->preexisting ? GM_AGENT_PREEXISTING : 0;
	head[0] = (uint8_t)(0x80 | event->action |
	                    (bits >> GM_AGENT_MORE_SHIFT & GM_AGENT_MORE_BITS));
	head[1] = (uint8_t)bits;
	head[2] = (uint8_t)(bits >> 8);
	before->sequence = sequence;
	before->time_ns = time_ns;
	before->address = event->address;
	gm_agent_buffer_commit(buffer, at);
	return sequence;
}

/* Not for an event within its caller: its own frame is looked up. */
__attribute__((noinline)) void gm_agent_event(const struct gm_agent_event *event)
{
	struct gm_agent_stacks stacks = {0};
	bool freed =
	        event->action == GM_AGENT_FREE_REQUESTED || event->action == GM_AGENT_SEGMENT_FREE;
	if (event->preexisting) {
		/* no running code created it */
	} else if (event->at) {
		gm_stacks_take(event->at, freed, &stacks);
	} else {
		const struct gm_agent_registers own = gm_agent_caller();
		gm_stacks_take(&own, freed, &stacks);
	}
	uint32_t bits =
	        event->action == GM_AGENT_FREE_REQUESTED && event->deferred ? GM_AGENT_DEFERRED : 0;
	uint64_t sequence =
	        write_event(event, &stacks, bits | gm_agent_grad_bits(event) | count_bits(event));
	if (__builtin_expect(
	            atomic_load_explicit(&gm_agent_sequence, memory_order_relaxed) >
	                    atomic_load_explicit(&gpumem_agent_stops, memory_order_relaxed),
	            0))
		gm_agent_stops_see(event, &stacks, sequence);
}
