/* An event into the bytes of format.h. */
#include <string.h>

#include "agent/inside.h"
#include "agent/spool.h"
#include "agent/stacks/stacks.h"

enum { DEVICES = 128, TELL_AGAIN = 256 };

/* A device's counters as a reader works them out: what an event need not say. Changed under the allocator's own lock. */
struct counters {
	uint64_t allocated, reserved;
	uint32_t quiet; /* events since they were last written; 0: never */
};

static struct counters counters[DEVICES];
static _Atomic uint64_t sequence;
static uint64_t own_id;

void gm_agent_events_begin(void)
{
	gm_agent_clock_begin();
	memset(counters, 0, sizeof(counters));
	atomic_store(&sequence, 1);
}

uint64_t gm_agent_events_next(void)
{
	return atomic_load_explicit(&sequence, memory_order_relaxed);
}

void gm_agent_keep_id(uint64_t id)
{
	own_id = id;
}

uint64_t gm_agent_kept_id(void)
{
	return own_id;
}

bool gm_agent_put(enum gm_agent_record kind, uint32_t id, const void *bytes, size_t count)
{
	uint8_t head[32], number[8], *at = gm_agent_varint(head, kind);
	bool has_id = kind <= GM_AGENT_EVIDENCE;
	size_t number_size = has_id ? (size_t)(gm_agent_varint(number, id) - number) : 0;
	at = gm_agent_varint(at, count + number_size);
	memcpy(at, number, number_size);
	size_t head_size = (size_t)(at - head) + number_size;
	struct gm_agent_piece *piece =
	        count < GM_AGENT_RECORD_MAX / 2 ? gm_agent_piece(head_size + count) : NULL;
	if (!piece)
		return false;
	uint8_t *to = gm_agent_piece_at(piece);
	memcpy(to, head, head_size);
	memcpy(to + head_size, bytes, count);
	gm_agent_piece_commit(piece, to + head_size + count);
	return true;
}

/* Which of the counters have to be said. */
static uint32_t count_bits(const struct gm_agent_event *event)
{
	if (event->allocated == UINT64_MAX || event->device < 0 || event->device >= DEVICES)
		return GM_AGENT_NO_COUNTERS;
	struct counters *known = &counters[event->device];
	uint64_t expected = known->allocated;
	if (event->action == GM_AGENT_ALLOC)
		expected += event->size;
	else if (event->action == GM_AGENT_FREE_REQUESTED)
		expected -= event->size;
	uint32_t bits = 0;
	bool again = known->quiet == 0 || known->quiet >= TELL_AGAIN;
	if (again || expected != event->allocated)
		bits |= GM_AGENT_HAS_ALLOCATED;
	if (again || known->reserved != event->reserved)
		bits |= GM_AGENT_HAS_RESERVED;
	known->quiet = again ? 1 : known->quiet + 1;
	known->allocated = event->allocated;
	known->reserved = event->reserved;
	return bits;
}

static uint8_t *put_signed(uint8_t *at, uint64_t value, uint64_t before)
{
	return gm_agent_varint(at, gm_agent_zigzag((int64_t)(value - before)));
}

static void write_event(
        const struct gm_agent_event *event, const struct gm_stacks *stacks, uint32_t bits)
{
	struct gm_agent_piece *piece = gm_agent_piece(GM_AGENT_EVENT_MAX);
	if (!piece) {
		struct gm_agent_file_header *header = gm_agent_spool_header();
		if (header)
			atomic_fetch_add(&header->lost, 1);
		return;
	}
	struct gm_agent_coding *before = &piece->coding;
	const struct gm_agent_coding is = {
	        .sequence = atomic_fetch_add_explicit(&sequence, 1, memory_order_relaxed),
	        .time_ns = gm_agent_now(),
	        .address = event->address,
	        .stream = event->stream,
	        .python = stacks->python,
	        .native = stacks->native,
	};
	bool cuda_0 = event->device_type == 1 && event->device == 0;
	bool grain = ((event->address | event->size | before->address) & 511) == 0;
	bits |= grain ? GM_AGENT_GRAIN : 0;
	bits |= is.sequence != before->sequence + 1 ? GM_AGENT_HAS_SEQUENCE : 0;
	bits |= cuda_0 ? 0 : GM_AGENT_HAS_DEVICE;
	bits |= event->source ? GM_AGENT_HAS_SOURCE : 0;
	bits |= event->requested ? GM_AGENT_HAS_REQUESTED : 0;
	bits |= is.stream != before->stream ? GM_AGENT_HAS_STREAM : 0;
	bits |= is.python != before->python ? GM_AGENT_HAS_PYTHON : 0;
	bits |= is.native != before->native ? GM_AGENT_HAS_NATIVE : 0;
	bits |= stacks->evidence ? GM_AGENT_HAS_EVIDENCE : 0;
	bits |= stacks->flags & GM_STACKS_BORROWED ? GM_AGENT_BORROWED : 0;
	bits |= event->preexisting ? GM_AGENT_PREEXISTING : 0;

	uint8_t *at = gm_agent_piece_at(piece);
	unsigned shift = grain ? 9 : 0;
	*at++ = (uint8_t)(0x80 | event->action);
	*at++ = (uint8_t)bits;
	*at++ = (uint8_t)(bits >> 8);
	at = put_signed(at, is.time_ns, before->time_ns);
	at = gm_agent_varint(at, gm_agent_zigzag((int64_t)(is.address - before->address) >> shift));
	at = gm_agent_varint(at, event->size >> shift);
	if (bits & GM_AGENT_HAS_SEQUENCE)
		at = gm_agent_varint(at, is.sequence - before->sequence - 1);
	if (bits & GM_AGENT_HAS_DEVICE) {
		at = gm_agent_varint(at, event->device_type);
		at = gm_agent_varint(at, gm_agent_zigzag(event->device));
	}
	if (bits & GM_AGENT_HAS_SOURCE)
		at = gm_agent_varint(at, event->source);
	if (bits & GM_AGENT_HAS_REQUESTED)
		at = gm_agent_varint(
		        at, gm_agent_zigzag((int64_t)(event->size - event->requested)));
	if (bits & GM_AGENT_HAS_STREAM)
		at = gm_agent_varint(at, is.stream);
	if (bits & GM_AGENT_HAS_ALLOCATED)
		at = gm_agent_varint(at, event->allocated);
	if (bits & GM_AGENT_HAS_RESERVED)
		at = gm_agent_varint(at, event->reserved);
	if (bits & GM_AGENT_HAS_PYTHON)
		at = put_signed(at, is.python, before->python);
	if (bits & GM_AGENT_HAS_NATIVE)
		at = put_signed(at, is.native, before->native);
	if (bits & GM_AGENT_HAS_EVIDENCE)
		at = gm_agent_varint(at, stacks->evidence);
	*before = is;
	gm_agent_piece_commit(piece, at);
}

void gm_agent_event(const struct gm_agent_event *event)
{
	struct gm_stacks stacks = {0};
	const struct gm_agent_registers own = gm_agent_caller();
	bool freed =
	        event->action == GM_AGENT_FREE_REQUESTED || event->action == GM_AGENT_SEGMENT_FREE;
	if (!event->preexisting) /* else nobody who is here now made it */
		gm_stacks_take(event->at ? event->at : &own, freed, &stacks);
	uint32_t bits =
	        event->action == GM_AGENT_FREE_REQUESTED && event->deferred ? GM_AGENT_DEFERRED : 0;
	write_event(event, &stacks, bits | count_bits(event));
}
