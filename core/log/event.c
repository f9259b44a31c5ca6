/*
 * Encodes and decodes events. Each is encoded relative to the previous one in its chunk: a field
 * that is the same, or can be computed (the allocator's counters after an allocation), costs one
 * bit. About 20 bytes for each event.
 */
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "log/format.h"

enum {
	ACTION_MASK = 0xf,
	HAS_DEVICE = 1 << 4,
	HAS_THREAD = 1 << 5,
	HAS_STREAM = 1 << 6,
	HAS_FLAGS = 1 << 7,
	HAS_ALLOCATED = 1 << 8,
	HAS_RESERVED = 1 << 9,
	HAS_REQUESTED = 1 << 10,
	HAS_PYTHON_STACK = 1 << 11,
	HAS_NATIVE_STACK = 1 << 12,
	HAS_EVIDENCE = 1 << 13,
	HAS_TENSOR = 1 << 14,
	KNOWN_BITS = (1 << 15) - 1,
	/* rare fields, before the fields that many events have */
	RARE = HAS_DEVICE | HAS_THREAD | HAS_STREAM | HAS_FLAGS | HAS_ALLOCATED | HAS_RESERVED,
	REFERS = HAS_PYTHON_STACK | HAS_NATIVE_STACK | HAS_EVIDENCE | HAS_TENSOR,
	OWNER_SHIFT = 8, /* in the flags */
};

void gm_event_state_reset(struct gm_event *state)
{
	*state = (struct gm_event){.allocated = UINT64_MAX, .reserved = UINT64_MAX};
}

/* The allocator's counters after `event`, from those before it; unknown stays unknown. */
static inline void predict(const struct gm_event *state, unsigned action, uint64_t size,
        uint64_t *ret_allocated, uint64_t *ret_reserved)
{
	uint64_t allocated = state->allocated, reserved = state->reserved;
	if (allocated != UINT64_MAX) {
		/* without a branch: which of the two comes next is hard to predict */
		allocated += action == GM_ALLOC ? size : 0;
		allocated -= action == GM_FREE_REQUESTED ? size : 0;
	}
	if (reserved != UINT64_MAX) {
		if (action == GM_SEGMENT_ALLOC || action == GM_SEGMENT_MAP)
			reserved += size;
		else if (action == GM_SEGMENT_FREE || action == GM_SEGMENT_UNMAP)
			reserved -= size;
	}
	*ret_allocated = allocated;
	*ret_reserved = reserved;
}

static int64_t difference(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b);
}

uint8_t *gm_event_encode(struct gm_event *state, const struct gm_event *event, uint8_t *at)
{
	uint64_t allocated, reserved;
	predict(state, event->action, event->size, &allocated, &reserved);
	unsigned bits = event->action & ACTION_MASK;
	if (event->device != state->device || event->device_type != state->device_type)
		bits |= HAS_DEVICE;
	if (event->thread != state->thread)
		bits |= HAS_THREAD;
	if (event->stream != state->stream)
		bits |= HAS_STREAM;
	if (event->flags != state->flags || event->owner != state->owner)
		bits |= HAS_FLAGS;
	if (event->allocated != allocated)
		bits |= HAS_ALLOCATED;
	if (event->reserved != reserved)
		bits |= HAS_RESERVED;
	if (event->requested != event->size)
		bits |= HAS_REQUESTED;
	if (event->python_stack != state->python_stack)
		bits |= HAS_PYTHON_STACK;
	if (event->native_stack != state->native_stack)
		bits |= HAS_NATIVE_STACK;
	if (event->evidence)
		bits |= HAS_EVIDENCE;
	if (event->tensor)
		bits |= HAS_TENSOR;
	*at++ = (uint8_t)bits;
	*at++ = (uint8_t)(bits >> 8);
	at = gm_put_varint(at, gm_zigzag(difference(event->time_ns, state->time_ns)));
	at = gm_put_varint(at, gm_zigzag(difference(event->address, state->address)));
	at = gm_put_varint(at, event->size);
	if (bits & HAS_DEVICE) {
		at = gm_put_varint(at, event->device_type);
		at = gm_put_varint(at, gm_zigzag(event->device));
	}
	if (bits & HAS_THREAD)
		at = gm_put_varint(at, event->thread);
	if (bits & HAS_STREAM)
		at = gm_put_varint(at, event->stream);
	if (bits & HAS_FLAGS)
		at = gm_put_varint(at, event->flags | event->owner << OWNER_SHIFT);
	if (bits & HAS_ALLOCATED)
		at = gm_put_varint(at, event->allocated + 1); /* unknown, UINT64_MAX, becomes 0 */
	if (bits & HAS_RESERVED)
		at = gm_put_varint(at, event->reserved + 1);
	if (bits & HAS_REQUESTED)
		at = gm_put_varint(at, event->requested);
	if (bits & HAS_PYTHON_STACK)
		at = gm_put_varint(
		        at, gm_zigzag(difference(event->python_stack, state->python_stack)));
	if (bits & HAS_NATIVE_STACK)
		at = gm_put_varint(
		        at, gm_zigzag(difference(event->native_stack, state->native_stack)));
	if (bits & HAS_EVIDENCE)
		at = gm_put_varint(at, event->evidence);
	if (bits & HAS_TENSOR)
		at = gm_put_varint(at, event->tensor);
	*state = *event;
	return at;
}

static inline uint32_t get_id(struct gm_cursor *cursor, uint32_t before)
{
	uint64_t id = before + (uint64_t)gm_unzigzag(gm_get_varint(cursor));
	if (id > UINT32_MAX)
		cursor->bad = true;
	return (uint32_t)id;
}

#if defined(__SSE2__)
/* The value of the varint at `at`, `length` bytes from 1 to 8. Eight are read. */
static inline uint64_t varint_at(const uint8_t *at, unsigned length)
{
	uint64_t word;
	memcpy(&word, at, sizeof(word));
	return gm_squeeze_varint(word & UINT64_C(0x7f7f7f7f7f7f7f7f) >> (64 - 8 * length));
}
#endif

/*
 * The three numbers that each event has. The end of each is known only when the previous one has
 * been read, so a processor would wait for each in turn. Here all three ends are found from sixteen
 * bytes at once.
 */
static inline void get_three(struct gm_cursor *cursor, uint64_t ret_numbers[static 3])
{
#if defined(__SSE2__)
	enum { SEEN = 16, READ = SEEN - 1 + 8 };
	if (cursor->end - cursor->at >= READ) {
		const uint8_t *at = cursor->at;
		__m128i bytes = _mm_loadu_si128((const __m128i *)at);
		unsigned ends = ~(unsigned)_mm_movemask_epi8(bytes) & ((1u << SEEN) - 1);
		unsigned second = ends & (ends - 1), third = second & (second - 1);
		if (third) {
			unsigned a = (unsigned)__builtin_ctz(ends) + 1;
			unsigned b = (unsigned)__builtin_ctz(second) + 1 - a;
			unsigned c = (unsigned)__builtin_ctz(third) + 1 - a - b;
			if (a <= 8 && b <= 8 && c <= 8) {
				ret_numbers[0] = varint_at(at, a);
				ret_numbers[1] = varint_at(at + a, b);
				ret_numbers[2] = varint_at(at + a + b, c);
				cursor->at = at + a + b + c;
				return;
			}
		}
	}
#endif
	for (size_t i = 0; i < 3; i++)
		ret_numbers[i] = gm_get_varint(cursor);
}

static void decode_rare(struct gm_event *state, struct gm_cursor *cursor, unsigned bits)
{
	if (bits & HAS_DEVICE) {
		uint64_t type = gm_get_varint(cursor);
		int64_t device = gm_unzigzag(gm_get_varint(cursor));
		if (type > UINT8_MAX || device < INT16_MIN || device > INT16_MAX)
			cursor->bad = true;
		state->device_type = (uint8_t)type;
		state->device = (int16_t)device;
	}
	if (bits & HAS_THREAD)
		state->thread = gm_get_varint(cursor);
	if (bits & HAS_STREAM)
		state->stream = gm_get_varint(cursor);
	if (bits & HAS_FLAGS) {
		uint32_t value = gm_get_u32(cursor);
		state->flags = value & ((1 << OWNER_SHIFT) - 1);
		state->owner = value >> OWNER_SHIFT;
	}
	if (bits & HAS_ALLOCATED)
		state->allocated = gm_get_varint(cursor) - 1;
	if (bits & HAS_RESERVED)
		state->reserved = gm_get_varint(cursor) - 1;
}

static bool refers_beyond(const struct gm_event *state, const struct gm_event *most)
{
	return state->python_stack > most->python_stack ||
	       state->native_stack > most->native_stack || state->evidence > most->evidence ||
	       state->tensor > most->tensor;
}

/* Reads the next event into `state`; sets cursor->bad if the bytes are not an event. Returns its
 * bits. */
static inline unsigned decode(struct gm_event *state, struct gm_cursor *cursor)
{
	if (cursor->end - cursor->at < 2) {
		cursor->bad = true;
		return 0;
	}
	unsigned bits = cursor->at[0] | (unsigned)cursor->at[1] << 8;
	cursor->at += 2;
	unsigned action = bits & ACTION_MASK;
	if (bits & ~(unsigned)KNOWN_BITS || action == 0 || action >= GM_ACTION_COUNT) {
		cursor->bad = true;
		return 0;
	}
	uint64_t numbers[3];
	get_three(cursor, numbers);
	state->time_ns += (uint64_t)gm_unzigzag(numbers[0]);
	state->address += (uint64_t)gm_unzigzag(numbers[1]);
	state->size = numbers[2];
	predict(state, action, state->size, &state->allocated, &state->reserved);
	state->action = (uint8_t)action;
	if (bits & RARE)
		decode_rare(state, cursor, bits);
	state->requested = bits & HAS_REQUESTED ? gm_get_varint(cursor) : state->size;
	state->evidence = state->tensor = 0;
	if (bits & REFERS) {
		if (bits & HAS_PYTHON_STACK)
			state->python_stack = get_id(cursor, state->python_stack);
		if (bits & HAS_NATIVE_STACK)
			state->native_stack = get_id(cursor, state->native_stack);
		if (bits & HAS_EVIDENCE)
			state->evidence = gm_get_u32(cursor);
		if (bits & HAS_TENSOR)
			state->tensor = gm_get_u32(cursor);
	}
	return bits;
}

const char *gm_events_decode(struct gm_cursor *cursor, uint32_t count, const struct gm_event *most,
        struct gm_event *ret_events)
{
	struct gm_event state;
	struct gm_cursor here = *cursor; /* a copy, which stays in registers */
	gm_event_state_reset(&state);
	for (uint32_t i = 0; i < count; i++) {
		unsigned bits = decode(&state, &here);
		if (here.bad)
			return "an event is malformed";
		if (bits & REFERS && refers_beyond(&state, most))
			return "an event refers to a stack or a tensor that does not exist";
		if (ret_events)
			ret_events[i] = state;
	}
	*cursor = here;
	return here.at == here.end ? NULL : "bytes are left over after its events";
}
