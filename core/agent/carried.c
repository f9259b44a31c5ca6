#include "agent/carried.h"

#include <string.h>
#include <sys/mman.h>

#include "agent/format.h"
#include "base/varint.h"

enum { FIRST_CAPACITY = 1 << 14 };

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Unsigned, because it is shifted and added. */
static uint64_t get_signed(struct gm_cursor *in)
{
	return (uint64_t)gm_unzigzag(gm_get_varint(in));
}

/* The same as core/spool/decode.c. `event` is the previous one, and becomes this one. */
static void get_event(struct gm_cursor *in, struct gm_agent_carried_event *event)
{
	const uint8_t first = *in->at++;
	event->action = first & GM_AGENT_ACTION_MASK;
	if (in->end - in->at < 2) {
		in->bad = true;
		return;
	}
	uint32_t bits = in->at[0] | (uint32_t)in->at[1] << 8 |
	                (uint32_t)(first & GM_AGENT_MORE_BITS) << GM_AGENT_MORE_SHIFT;
	in->at += 2;
	unsigned shift = bits & GM_AGENT_GRAIN ? 9 : 0;
	event->bits = bits;
	event->time_ns += get_signed(in);
	event->address += get_signed(in) << shift;
	event->size = gm_get_varint(in) << shift;
	event->sequence += 1 + (bits & GM_AGENT_HAS_SEQUENCE ? gm_get_varint(in) : 0);
	event->device_type = 1;
	event->device = 0;
	if (bits & GM_AGENT_HAS_DEVICE) {
		event->device_type = (uint8_t)gm_get_varint(in);
		event->device = (int16_t)get_signed(in);
	}
	event->source = bits & GM_AGENT_HAS_SOURCE ? (uint8_t)gm_get_varint(in) : GM_AGENT_C10;
	event->requested = bits & GM_AGENT_HAS_REQUESTED ? event->size - get_signed(in) : 0;
	if (bits & GM_AGENT_HAS_STREAM)
		event->stream = gm_get_varint(in);
	if (bits & GM_AGENT_HAS_ALLOCATED)
		gm_get_varint(in);
	if (bits & GM_AGENT_HAS_RESERVED)
		gm_get_varint(in);
	if (bits & GM_AGENT_HAS_PYTHON)
		event->python += (uint32_t)get_signed(in);
	if (bits & GM_AGENT_HAS_NATIVE)
		event->native += (uint32_t)get_signed(in);
	if (bits & GM_AGENT_HAS_EVIDENCE)
		gm_get_varint(in);
	event->tensor = bits & GM_AGENT_HAS_TENSOR ? (uint32_t)gm_get_varint(in) : 0;
}

static uint8_t *put_signed(uint8_t *at, uint64_t value, uint64_t before)
{
	return gm_put_varint(at, gm_zigzag((int64_t)(value - before)));
}

uint8_t *gm_agent_carried_put(uint8_t *at, const struct gm_agent_carried_event *event,
        const struct gm_agent_carried_event *before)
{
	const uint32_t kept =
	        GM_AGENT_BORROWED | GM_AGENT_DEFERRED | GM_AGENT_PREEXISTING | GM_AGENT_NO_GRAD;
	uint32_t bits = (event->bits & kept) | GM_AGENT_HAS_SEQUENCE | GM_AGENT_HAS_DEVICE |
	                GM_AGENT_HAS_STREAM | GM_AGENT_HAS_PYTHON | GM_AGENT_HAS_NATIVE;
	bits |= event->source ? GM_AGENT_HAS_SOURCE : 0;
	bits |= event->requested ? GM_AGENT_HAS_REQUESTED : 0;
	bits |= event->tensor ? GM_AGENT_HAS_TENSOR : 0;
	if (event->thread != before->thread) {
		uint8_t payload[16], *end = gm_put_varint(payload, event->thread);
		at = gm_put_varint(at, GM_AGENT_THREAD);
		at = gm_put_varint(at, (uint64_t)(end - payload));
		memcpy(at, payload, (size_t)(end - payload));
		at += end - payload;
	}
	*at++ = (uint8_t)(0x80 | event->action |
	                  (bits >> GM_AGENT_MORE_SHIFT & GM_AGENT_MORE_BITS));
	*at++ = (uint8_t)bits;
	*at++ = (uint8_t)(bits >> 8);
	at = put_signed(at, event->time_ns, before->time_ns);
	at = put_signed(at, event->address, before->address);
	at = gm_put_varint(at, event->size);
	at = gm_put_varint(at, event->sequence - before->sequence - 1);
	at = gm_put_varint(at, event->device_type);
	at = gm_put_varint(at, gm_zigzag(event->device));
	if (bits & GM_AGENT_HAS_SOURCE)
		at = gm_put_varint(at, event->source);
	if (bits & GM_AGENT_HAS_REQUESTED)
		at = gm_put_varint(at, gm_zigzag((int64_t)(event->size - event->requested)));
	at = gm_put_varint(at, event->stream);
	at = put_signed(at, event->python, before->python);
	at = put_signed(at, event->native, before->native);
	return event->tensor ? gm_put_varint(at, event->tensor) : at;
}

/* ---- the table ------------------------------------------------------------------------------- */

static struct gm_agent_carried_event *map_table(size_t capacity)
{
	void *memory = mmap(NULL, capacity * sizeof(struct gm_agent_carried_event),
	        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

bool gm_agent_carried_init(struct gm_agent_carried *carried)
{
	*carried = (struct gm_agent_carried){
	        .table = map_table(FIRST_CAPACITY), .capacity = FIRST_CAPACITY};
	return carried->table != NULL;
}

void gm_agent_carried_deinit(struct gm_agent_carried *carried)
{
	if (carried->table)
		munmap(carried->table, carried->capacity * sizeof(*carried->table));
	carried->table = NULL;
}

static bool is_segment(const struct gm_agent_carried_event *event)
{
	return event->action >= GM_AGENT_SEGMENT_ALLOC && event->action <= GM_AGENT_SEGMENT_UNMAP;
}

static bool begins(const struct gm_agent_carried_event *event)
{
	return event->action == GM_AGENT_ALLOC || event->action == GM_AGENT_SEGMENT_ALLOC ||
	       event->action == GM_AGENT_SEGMENT_MAP;
}

/* The same address may be two entries: PyTorch's segment, and the block at its beginning. */
static uint64_t kind_of(const struct gm_agent_carried_event *event)
{
	if (event->source != GM_AGENT_C10)
		return 3;
	return is_segment(event) ? 2 : event->device_type == 1;
}

static struct gm_agent_carried_event *slot(
        struct gm_agent_carried *carried, const struct gm_agent_carried_event *event)
{
	uint64_t kind = kind_of(event);
	uint64_t hash = (event->address * 4 + kind) * UINT64_C(0x9e3779b97f4a7c15);
	for (size_t i = hash >> 20;; i++) {
		struct gm_agent_carried_event *at = &carried->table[i & (carried->capacity - 1)];
		if (!at->used || (at->address == event->address && kind_of(at) == kind))
			return at;
	}
}

static bool grow(struct gm_agent_carried *carried)
{
	struct gm_agent_carried larger = {
	        .table = map_table(carried->capacity * 2), .capacity = carried->capacity * 2};
	if (!larger.table)
		return false;
	for (size_t i = 0; i < carried->capacity; i++)
		if (carried->table[i].used)
			*slot(&larger, &carried->table[i]) = carried->table[i];
	gm_agent_carried_deinit(carried);
	carried->table = larger.table;
	carried->capacity = larger.capacity;
	return true;
}

static void put(struct gm_agent_carried *carried, const struct gm_agent_carried_event *event)
{
	if (carried->count * 4 > carried->capacity * 3 && !grow(carried)) {
		carried->failed = true;
		return;
	}
	struct gm_agent_carried_event *at = slot(carried, event);
	if (at->used && at->sequence > event->sequence)
		return;
	carried->count += !at->used;
	*at = *event;
	at->used = true;
}

static void add_event(struct gm_agent_carried *carried, const struct gm_agent_carried_event *event,
        struct gm_agent_carried_event *segment)
{
	carried->walked++;
	if (event->sequence > carried->last)
		carried->last = event->sequence;
	/* The owner of a segment follows from its first block, which may not be among the carried
	 * ones. */
	if (segment->used && event->action == GM_AGENT_ALLOC && event->source == GM_AGENT_C10 &&
	        event->address - segment->address < segment->size) {
		segment->device = event->device;
		segment->stream = event->stream;
		put(carried, segment);
	}
	segment->used = false;
	if (is_segment(event) && event->device < 0) {
		*segment = *event;
		segment->used = true;
	}
	if (event->action < GM_AGENT_OOM)
		put(carried, event);
}

void gm_agent_carried_add(struct gm_agent_carried *carried, const uint8_t *records, size_t size,
        uint32_t thread, gm_agent_keep_record *keep, void *context)
{
	struct gm_cursor in = {.at = records, .end = records + size};
	struct gm_agent_carried_event event = {.thread = thread}, segment = {0};
	while (in.at < in.end && !in.bad && !carried->failed) {
		const uint8_t *start = in.at;
		if (*in.at & 0x80) {
			get_event(&in, &event);
			if (!in.bad)
				add_event(carried, &event, &segment);
			continue;
		}
		uint64_t kind = gm_get_varint(&in), count = gm_get_varint(&in);
		if (in.bad || count > (uint64_t)(in.end - in.at))
			break;
		struct gm_cursor payload = {.at = in.at, .end = in.at + count};
		in.at += count;
		if (kind == GM_AGENT_THREAD)
			event.thread = (uint32_t)gm_get_varint(&payload);
		bool stays = gm_agent_has_id(kind) || kind == GM_AGENT_GAP ||
		             kind == GM_AGENT_COUNTER || kind == GM_AGENT_SETTING;
		if (stays && keep && !keep(context, start, (size_t)(in.at - start)))
			carried->failed = true;
	}
	carried->failed |= in.bad || in.at < in.end;
}

static void sort(struct gm_agent_carried_event *events, size_t count)
{
	for (size_t gap = count / 2; gap > 0; gap /= 2)
		for (size_t i = gap; i < count; i++) {
			struct gm_agent_carried_event event = events[i];
			size_t at = i;
			for (; at >= gap && events[at - gap].sequence > event.sequence; at -= gap)
				events[at] = events[at - gap];
			events[at] = event;
		}
}

size_t gm_agent_carried_sort(struct gm_agent_carried *carried, uint64_t least)
{
	size_t count = 0;
	for (size_t i = 0; i < carried->capacity; i++) {
		const struct gm_agent_carried_event *event = &carried->table[i];
		if (event->used && (begins(event) || event->sequence >= least))
			carried->table[count++] = *event;
	}
	sort(carried->table, count);
	return count;
}
