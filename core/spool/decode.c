#include "spool/internal.h"

void gm_spool_cursor_init(struct gm_spool_cursor *cursor, struct gm_bytes records, uint32_t thread)
{
	const uint8_t *end = records.at ? records.at + records.size : NULL;
	*cursor =
	        (struct gm_spool_cursor){.in = {.at = records.at, .end = end}, .base = records.at};
	cursor->event.thread = thread;
}

static void next_event(struct gm_spool_cursor *cursor, uint8_t first)
{
	struct gm_cursor *in = &cursor->in;
	struct gm_spool_event *event = &cursor->event;
	if (in->end - in->at < 2) {
		in->bad = true;
		return;
	}
	uint32_t bits = in->at[0] | (uint32_t)in->at[1] << 8 |
	                (uint32_t)(first & GM_AGENT_MORE_BITS) << GM_AGENT_MORE_SHIFT;
	in->at += 2;
	unsigned shift = bits & GM_AGENT_GRAIN ? 9 : 0;
	event->action = first & GM_AGENT_ACTION_MASK;
	event->bits = bits;
	event->time_ns += (uint64_t)gm_unzigzag(gm_get_varint(in));
	event->address += (uint64_t)gm_unzigzag(gm_get_varint(in)) << shift;
	event->size = gm_get_varint(in) << shift;
	event->sequence++;
	if (bits & GM_AGENT_HAS_SEQUENCE)
		event->sequence += gm_get_varint(in);
	event->device_type = 1;
	event->device = 0;
	if (bits & GM_AGENT_HAS_DEVICE) {
		event->device_type = (uint8_t)gm_get_varint(in);
		event->device = (int16_t)gm_unzigzag(gm_get_varint(in));
	}
	event->source = bits & GM_AGENT_HAS_SOURCE ? (uint8_t)gm_get_varint(in) : GM_AGENT_C10;
	event->requested = bits & GM_AGENT_HAS_REQUESTED
	                           ? event->size - (uint64_t)gm_unzigzag(gm_get_varint(in))
	                           : 0;
	if (bits & GM_AGENT_HAS_STREAM)
		event->stream = gm_get_varint(in);
	event->allocated = bits & GM_AGENT_HAS_ALLOCATED ? gm_get_varint(in) : 0;
	event->reserved = bits & GM_AGENT_HAS_RESERVED ? gm_get_varint(in) : 0;
	if (bits & GM_AGENT_HAS_PYTHON)
		event->python += (uint32_t)gm_unzigzag(gm_get_varint(in));
	if (bits & GM_AGENT_HAS_NATIVE)
		event->native += (uint32_t)gm_unzigzag(gm_get_varint(in));
	event->evidence = bits & GM_AGENT_HAS_EVIDENCE ? gm_get_u32(in) : 0;
	event->tensor = bits & GM_AGENT_HAS_TENSOR ? gm_get_u32(in) : 0;
	if (event->action == 0 || event->action >= GM_AGENT_ACTION_COUNT ||
	        event->source >= GM_AGENT_SOURCE_COUNT)
		in->bad = true;
}

bool gm_spool_next(struct gm_spool_cursor *cursor, struct gm_spool_record *ret)
{
	struct gm_cursor *in = &cursor->in;
	if (in->at >= in->end || in->bad)
		return false;
	*ret = (struct gm_spool_record){0};
	if (*in->at & 0x80) {
		uint8_t first = *in->at++;
		next_event(cursor, first);
		return !in->bad;
	}
	ret->kind = gm_get_u32(in);
	uint64_t size = gm_get_varint(in);
	if (in->bad || size > (uint64_t)(in->end - in->at) || ret->kind < GM_AGENT_CODE) {
		in->bad = true;
		return false;
	}
	struct gm_cursor payload = {.at = in->at, .end = in->at + size};
	in->at += size;
	if (gm_agent_has_id(ret->kind))
		ret->id = gm_get_u32(&payload);
	if (ret->kind == GM_AGENT_THREAD)
		cursor->event.thread = gm_get_u32(&payload);
	in->bad = payload.bad;
	ret->payload = (struct gm_bytes){payload.at, (size_t)(payload.end - payload.at)};
	return !in->bad;
}
