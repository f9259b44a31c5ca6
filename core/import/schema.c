/*
 * The entries of a trace are alike: the same opcodes with other numbers in them. What one entry looks like is learned
 * as a row of parts (bytes that stay, numbers, the action, the list of frames), and those that fit it are
 * read by it, at a tenth of the opcodes' cost. An entry that does not fit changes nothing: it is read by the opcodes,
 * and so is all that is wrong, so that this file has no errors of its own.
 *
 * What a part of the file means depends on the memo. Picklers use each of its numbers once; a file that does not is
 * read by opcodes alone.
 */
#include <stdlib.h>
#include <string.h>

#include "import/machine.h"

enum {
	SCHEMAS_MAX = 4,
	PARTS_MAX = 40,
	PUTS_MAX = PARTS_MAX + 2,
	LITERAL_MAX = 16,
	SPAN = 1 << 13,       /* bytes that are made to lie ahead */
	STRING_MAX = 1 << 12, /* of a string read here */
	ROOM_MIN = 1 << 14,   /* entries: fewer may be moved */
	ROOM_MAX = 1 << 26,
};

enum part_kind {
	PART_LITERAL, /* bytes that stay */
	PART_NUMBER,
	PART_ACTION,
	PART_FRAMES,
	PART_OTHER, /* the value of a key that is not asked for: the bytes that it was, or another scalar */
	PART_MEMO, /* BINPUT and LONG_BINPUT, whose number is the next */
};

enum put_kind { PUT_NONE, PUT_ENTRY, PUT_VALUE };

struct part {
	uint8_t kind, length; /* of the bytes; 0: none are known */
	uint8_t key;          /* of a number */
	uint8_t put;          /* enum put_kind: what the memo gets behind the bytes */
	uint32_t value;       /* for PUT_VALUE, packed */
	uint64_t bytes[2], mask[2];
};

struct schema {
	size_t count;
	struct part parts[PARTS_MAX];
};

struct gm_schemas {
	struct schema items[SCHEMAS_MAX];
	size_t count, last, oldest; /* last: that fitted */
	uint32_t stack;             /* id of the last stack, 0: none */
};

/*
 * An entry under way: written behind the pickle's entries and memo, where there is room for it, and theirs once all of
 * it has been read. What takes a piece of it is given where it begins and gives back where it ends, NULL where it is
 * something else, so that the place can stay in a register.
 */
struct attempt {
	const uint8_t *end;
	struct gm_entry *entry;
	uint32_t *puts; /* packed */
	size_t put_count;
};

void gm_schemas_destroy(struct gm_schemas *schemas)
{
	free(schemas);
}

static inline uint64_t load64(const uint8_t *bytes)
{
	uint64_t value;
	memcpy(&value, bytes, sizeof(value));
	return value; /* little-endian, as the file: the core runs on x86-64 and AArch64 */
}

static inline uint32_t load32(const uint8_t *bytes)
{
	uint32_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* ---- pieces --------------------------------------------------------------------------------- */

static const uint8_t number_sizes[256] = {['K'] = 1, ['M'] = 2, ['J'] = 4};

/* A number that is not negative and below 2^63. Bytes behind the end may be looked at. */
static inline const uint8_t *take_number(const uint8_t *at, uint64_t *ret_value)
{
	bool is_long = at[0] == 0x8a; /* LONG1 */
	unsigned size = is_long ? at[1] : number_sizes[at[0]];
	if (size - 1 > 7)
		return NULL;
	at += 1 + is_long;
	uint64_t value = load64(at) & UINT64_MAX >> (64 - 8 * size);
	if ((is_long || size == 4) && value >> (8 * size - 1))
		return NULL;
	*ret_value = value;
	return at + size;
}

/* BINGET or LONG_BINGET of a memo number that is there. */
static inline const uint8_t *take_reference(
        const struct gm_pickle *pickle, const uint8_t *at, uint32_t *ret_index)
{
	bool is_long = at[0] == 'j';
	if (!is_long && at[0] != 'h')
		return NULL;
	*ret_index = is_long ? load32(at + 1) : at[1];
	if (*ret_index >= pickle->memo.count || pickle->memo.items[*ret_index] == GM_MEMO_EMPTY)
		return NULL;
	return at + (is_long ? 5 : 2);
}

static inline void put(struct attempt *attempt, uint32_t packed)
{
	attempt->puts[attempt->put_count++] = packed;
}

/* MEMOIZE, or BINPUT and LONG_BINPUT of the next number. */
static inline const uint8_t *take_put(
        const struct gm_pickle *pickle, size_t before, const uint8_t *at)
{
	size_t next = pickle->memo.count + before;
	if (at[0] == 0x94)
		return at + 1;
	if (at[0] == 'q' && at[1] == next)
		return at + 2;
	if (at[0] == 'r' && load32(at + 1) == next)
		return at + 5;
	return NULL;
}

/* A string that is not too long. */
static const uint8_t *take_string(
        const uint8_t *at, const uint8_t *end, const uint8_t **ret_bytes, size_t *ret_length)
{
	size_t head = at[0] == 0x8c ? 2 : at[0] == 'X' ? 5 : 0;
	if (!head)
		return NULL;
	*ret_length = head == 2 ? at[1] : load32(at + 1);
	if (*ret_length > STRING_MAX || end - at < (ptrdiff_t)(head + *ret_length))
		return NULL;
	*ret_bytes = at + head;
	return at + head + *ret_length;
}

/* ---- stacks --------------------------------------------------------------------------------- */

/* Behind the references to frames and the APPENDS that ends them; NULL: something else is among them. */
static const uint8_t *references_end(const uint8_t *at, const uint8_t *end)
{
	while (at < end) {
		if (*at == 'j')
			at += 5;
		else if (*at == 'h')
			at += 2;
		else
			return *at == 'e' ? at + 1 : NULL;
	}
	return NULL;
}

/* Notes the frames of a stack not seen before. */
static bool add_stack(struct gm_pickle *pickle, const uint8_t *at, const uint8_t *end)
{
	struct gm_raw_stack stack = {.first = (uint32_t)pickle->stack_frames.count};
	if (pickle->stack_frames.count > UINT32_MAX - (size_t)(end - at))
		return false;
	while (at < end - 1) {
		uint32_t index;
		if (!(at = take_reference(pickle, at, &index)))
			return false;
		const struct gm_object *object =
		        gm_pickle_object(pickle, gm_memo_unpack(pickle, index));
		if (object && object->kind == GM_FRAME &&
		        !gm_array_push(&pickle->stack_frames, object->first))
			return false;
	}
	stack.count = (uint32_t)pickle->stack_frames.count - stack.first;
	return gm_array_push(&pickle->raw_stacks, stack);
}

/* The id of a stack by its bytes; 0: it cannot be kept. */
static uint32_t intern_stack(struct gm_pickle *pickle, const uint8_t *at, const uint8_t *end)
{
	size_t known = pickle->raw.count, frames = pickle->stack_frames.count;
	if (known != pickle->raw_stacks.count || known >= 1u << GM_STACK_BITS)
		return 0; /* one could not be noted: no more of them */
	uint32_t id = gm_intern_add(&pickle->raw, at, (size_t)(end - at));
	if (id > known && !add_stack(pickle, at, end)) {
		pickle->stack_frames.count = frames;
		return 0;
	}
	return id;
}

/* The references of a list; the stack that followed the last one before is tried first. */
static const uint8_t *take_stack(
        struct gm_pickle *pickle, const uint8_t *at, const uint8_t *end, uint32_t *ret_id)
{
	struct gm_schemas *schemas = pickle->schemas;
	struct gm_raw_stack *last =
	        schemas->stack ? &pickle->raw_stacks.items[schemas->stack - 1] : NULL;
	if (last && last->next) {
		size_t start = last->next > 1 ? pickle->raw.ends[last->next - 2] : 0;
		size_t length = pickle->raw.ends[last->next - 1] - start;
		if ((size_t)(end - at) >= length &&
		        memcmp(at, pickle->raw.bytes + start, length) == 0) {
			*ret_id = schemas->stack = last->next;
			return at + length;
		}
	}
	const uint8_t *behind = references_end(at, end);
	uint32_t id = behind && behind <= end ? intern_stack(pickle, at, behind) : 0;
	if (!id)
		return NULL;
	if (schemas->stack)
		pickle->raw_stacks.items[schemas->stack - 1].next = id;
	*ret_id = schemas->stack = id;
	return behind;
}

static const uint8_t *take_frames(
        struct gm_pickle *pickle, struct attempt *attempt, const uint8_t *at)
{
	uint32_t index;
	if (at[0] != ']') {
		at = take_reference(pickle, at, &index);
		if (at)
			attempt->entry->frames = gm_memo_unpack(pickle, index);
		return at;
	}
	if (!(at = take_put(pickle, attempt->put_count, at + 1)))
		return NULL;
	size_t place = pickle->memo.count + attempt->put_count;
	if (at[0] != '(') {
		attempt->entry->frames = GM_VALUE_OPAQUE; /* no frames */
		put(attempt, GM_VALUE_OPAQUE);
		return at;
	}
	uint32_t id;
	at = place < UINT32_MAX && at < attempt->end ? take_stack(pickle, at + 1, attempt->end, &id)
	                                             : NULL;
	if (!at)
		return NULL;
	attempt->entry->frames =
	        gm_value_make(GM_TAG_STACK, (id - 1) | (uint64_t)(place + 1) << GM_STACK_BITS);
	put(attempt, (id - 1) << 3 | GM_TAG_STACK);
	return at;
}

/* ---- reading -------------------------------------------------------------------------------- */

static const uint8_t *take_other(
        struct gm_pickle *pickle, struct attempt *attempt, const uint8_t *at)
{
	uint32_t packed = GM_VALUE_OPAQUE, index;
	uint64_t number;
	const uint8_t *bytes, *behind;
	size_t length;
	if ((behind = take_string(at, attempt->end, &bytes, &length))) {
		uint32_t id = gm_pickle_string_id(pickle, bytes, length);
		if (!id || !gm_memo_pack(pickle, gm_value_make(GM_TAG_STRING, id), &packed))
			return NULL;
	} else if (at[0] == 'N' || at[0] == 0x88 || at[0] == 0x89) {
		behind = at + 1;
	} else if (!(behind = take_number(at, &number)) &&
	           !(behind = take_reference(pickle, at, &index))) {
		return NULL;
	}
	if (!(at = take_put(pickle, attempt->put_count, behind)))
		return behind;
	put(attempt, packed);
	return at;
}

static inline const uint8_t *take_field(
        struct gm_pickle *pickle, struct gm_entry *entry, enum gm_key key, const uint8_t *at)
{
	uint64_t value;
	if (!(at = take_number(at, &value)))
		return NULL;
	switch (key) {
	case GM_KEY_SIZE:
		entry->size = value;
		return value <= GM_PICKLE_SIZE_MAX ? at : NULL;
	case GM_KEY_TIME_US:
		entry->time_us = value;
		return value <= GM_PICKLE_TIME_MAX ? at : NULL;
	case GM_KEY_STREAM:
		return gm_pickle_stream_number(pickle, value, &entry->stream) ? at : NULL;
	default: /* an address, or in its place the free bytes of an oom */
		entry->address = value;
		return at;
	}
}

static inline bool fits(const struct part *part, const uint8_t *at)
{
	return (((load64(at) ^ part->bytes[0]) & part->mask[0]) |
	               ((load64(at + 8) ^ part->bytes[1]) & part->mask[1])) == 0;
}

static inline __attribute__((always_inline)) const uint8_t *take_part(struct gm_pickle *pickle,
        const struct part *part, struct attempt *attempt, const uint8_t *at)
{
	uint32_t index;
	if (!fits(part, at)) {
		if (part->kind != PART_OTHER)
			return NULL;
		return take_other(pickle, attempt, at);
	}
	at += part->length;
	switch ((enum part_kind)part->kind) {
	case PART_NUMBER:
		return take_field(pickle, attempt->entry, (enum gm_key)part->key, at);
	case PART_ACTION:
		at = take_reference(pickle, at, &index);
		if (!at || (pickle->memo.items[index] & 7) != GM_TAG_STRING)
			return NULL;
		attempt->entry->action =
		        pickle->actions.items[(pickle->memo.items[index] >> 3) - 1];
		return at;
	case PART_FRAMES:
		return take_frames(pickle, attempt, at);
	case PART_OTHER:
		if (!part->length)
			return take_other(pickle, attempt, at);
		break;
	case PART_LITERAL:
		break;
	case PART_MEMO:
		if (!(at = take_put(pickle, attempt->put_count, at)))
			return NULL;
		break;
	}
	if (part->put != PUT_NONE)
		put(attempt, part->put == PUT_VALUE
		                     ? part->value
		                     : (uint32_t)pickle->entries.count << 3 | GM_TAG_ENTRY);
	return at;
}

/* False: the entry does not fit, or there is no memory, which the opcodes will find out. */
static bool take_entry(struct gm_pickle *pickle, const struct schema *schema)
{
	if (pickle->entries.count >= UINT32_MAX >> 3 || !gm_array_reserve(&pickle->entries, 1) ||
	        !gm_array_reserve(&pickle->memo, PUTS_MAX) || !gm_array_reserve(&pickle->stack, 1))
		return false;
	const uint8_t *at = pickle->buffer + pickle->at, *end = pickle->buffer + pickle->end;
	struct attempt attempt = {
	        .end = end,
	        .entry = pickle->entries.items + pickle->entries.count,
	        .puts = pickle->memo.items + pickle->memo.count,
	};
	*attempt.entry = (struct gm_entry){0};
	for (size_t i = 0; i < schema->count; i++)
		if (!(at = take_part(pickle, &schema->parts[i], &attempt, at)) || at > end)
			return false;
	pickle->memo.count += attempt.put_count;
	pickle->stack.items[pickle->stack.count++] =
	        gm_value_make(GM_TAG_ENTRY, pickle->entries.count++);
	pickle->at = (size_t)(at - pickle->buffer);
	return true;
}

struct gm_error *gm_schema_read(struct gm_pickle *pickle)
{
	struct gm_schemas *schemas = pickle->schemas;
	if (!schemas || pickle->memo_rewritten)
		return NULL;
	for (;;) {
		gm_try(gm_pickle_fill(pickle, SPAN));
		if (pickle->at == pickle->end || pickle->buffer[pickle->at] != '}')
			return NULL;
		size_t tried = 0;
		while (tried < schemas->count &&
		        !take_entry(pickle, &schemas->items[schemas->last])) {
			schemas->last = (schemas->last + 1) % schemas->count;
			tried++;
		}
		if (tried == schemas->count)
			return NULL;
	}
}

/* ---- learning ------------------------------------------------------------------------------- */

static struct part *add_part(struct schema *schema, enum part_kind kind)
{
	struct part *last = schema->count ? &schema->parts[schema->count - 1] : NULL;
	bool joins = kind == PART_NUMBER || kind == PART_ACTION || kind == PART_FRAMES;
	if (joins && last && last->kind == PART_LITERAL && !last->put) {
		last->kind = (uint8_t)kind;
		return last;
	}
	if (schema->count == PARTS_MAX)
		return NULL;
	struct part *part = &schema->parts[schema->count++];
	*part = (struct part){.kind = (uint8_t)kind};
	return part;
}

static bool set_bytes(struct part *part, const uint8_t *bytes, size_t length)
{
	if (length > LITERAL_MAX)
		return false;
	part->length = (uint8_t)length;
	memcpy(part->bytes, bytes, length);
	memset(part->mask, 0xff, length);
	return true;
}

/* Bytes that stay, joined to those before them. */
static bool add_literal(struct schema *schema, const uint8_t *bytes, size_t length)
{
	struct part *last = schema->count ? &schema->parts[schema->count - 1] : NULL;
	if (last && last->kind == PART_LITERAL && !last->put &&
	        last->length + length <= LITERAL_MAX) {
		memcpy((uint8_t *)last->bytes + last->length, bytes, length);
		memset((uint8_t *)last->mask + last->length, 0xff, length);
		last->length = (uint8_t)(last->length + length);
		return true;
	}
	struct part *part = add_part(schema, PART_LITERAL);
	return part && set_bytes(part, bytes, length);
}

/* What puts the entry itself into the memo. Bytes that were learned have been read: their numbers are not the next. */
static bool learn_put(struct schema *schema, const uint8_t **at)
{
	uint8_t op = **at;
	size_t length = op == 0x94 ? 1 : op == 'q' ? 2 : op == 'r' ? 5 : 0;
	if (!length)
		return true; /* a pickler without a memo */
	if (length == 1 && !add_literal(schema, *at, 1))
		return false;
	struct part *part =
	        length == 1 ? &schema->parts[schema->count - 1] : add_part(schema, PART_MEMO);
	if (part)
		part->put = PUT_ENTRY;
	*at += length;
	return part;
}

/* A value of no interest: a scalar, or a tuple of up to three of them. */
static bool learn_other(
        struct gm_pickle *pickle, struct schema *schema, const uint8_t **at, const uint8_t *end)
{
	const uint8_t *start = *at, *bytes;
	struct part *part = add_part(schema, PART_OTHER);
	uint32_t index;
	uint64_t number;
	size_t length = 0, scalars = 0;
	gm_value value = GM_VALUE_OPAQUE;
	const uint8_t *behind = take_string(*at, end, &bytes, &length);
	bool fresh = behind;
	if (fresh) {
		*at = behind;
		uint32_t id = gm_pickle_string_id(pickle, bytes, length);
		value = id ? gm_value_make(GM_TAG_STRING, id) : GM_VALUE_OPAQUE;
	}
	while (!fresh && scalars < 3 && *at < end) {
		if (**at == 'N' || **at == 0x88 || **at == 0x89)
			behind = *at + 1;
		else if (!(behind = take_number(*at, &number)) &&
		         !(behind = take_reference(pickle, *at, &index)))
			break;
		*at = behind;
		scalars++;
		/* a key follows a single one, and is a reference too */
		if (scalars == 1 && (**at == 'h' || **at == 'j' || **at == 'u'))
			break;
	}
	if (!part || (!fresh && !scalars))
		return false;
	if (!fresh && **at >= 0x85 && **at <= 0x87) /* TUPLE1 to TUPLE3 */
		++*at;
	else if (!fresh && scalars > 1)
		return false;
	if (**at == 0x94) {
		++*at;
		part->put = PUT_VALUE;
		if (!gm_memo_pack(pickle, value, &part->value))
			return false;
	} else if (**at == 'q' || **at == 'r') {
		/* its number differs from entry to entry: the bytes never fit, and are read as they come */
		*at += **at == 'q' ? 2 : 5;
		return fresh;
	}
	if ((size_t)(*at - start) > LITERAL_MAX)
		return fresh;
	return set_bytes(part, start, (size_t)(*at - start));
}

static bool learn_frames(const struct gm_pickle *pickle, const uint8_t **at, const uint8_t *end)
{
	uint32_t index;
	if (**at != ']')
		return (*at = take_reference(pickle, *at, &index));
	++*at;
	*at += **at == 0x94 ? 1 : **at == 'q' ? 2 : **at == 'r' ? 5 : 0;
	if (**at == '(')
		*at = references_end(*at + 1, end);
	return *at;
}

static bool learn_item(
        struct gm_pickle *pickle, struct schema *schema, const uint8_t **at, const uint8_t *end)
{
	const uint8_t *start = *at;
	uint32_t index;
	uint64_t number;
	if (!(*at = take_reference(pickle, *at, &index)))
		return false;
	gm_value name = gm_memo_unpack(pickle, index);
	if (gm_value_tag(name) != GM_TAG_STRING ||
	        !add_literal(schema, start, (size_t)(*at - start)))
		return false;
	enum gm_key key = (enum gm_key)pickle->keys.items[(name >> 3) - 1];
	struct part *part;
	switch (key) {
	case GM_KEY_ACTION:
		return add_part(schema, PART_ACTION) && (*at = take_reference(pickle, *at, &index));
	case GM_KEY_FRAMES:
		return add_part(schema, PART_FRAMES) && learn_frames(pickle, at, end);
	case GM_KEY_ADDR:
	case GM_KEY_DEVICE_FREE:
	case GM_KEY_SIZE:
	case GM_KEY_STREAM:
	case GM_KEY_TIME_US:
		part = add_part(schema, PART_NUMBER);
		if (part)
			part->key = (uint8_t)key;
		return part && (*at = take_number(*at, &number));
	default:
		return learn_other(pickle, schema, at, end);
	}
}

static size_t count_puts(const struct schema *schema)
{
	size_t puts = 1; /* of frames */
	for (size_t i = 0; i < schema->count; i++)
		puts += schema->parts[i].put != PUT_NONE;
	return puts;
}

/* Room for all entries that the rest of the file may have, so that they are never moved. What is not used of it costs
 * no memory. */
static void make_room(struct gm_pickle *pickle, size_t length, size_t puts)
{
	uint64_t now = gm_pickle_now(pickle);
	uint64_t entries = now < pickle->file_size ? (pickle->file_size - now) / length : 0;
	if (entries > ROOM_MIN && entries < ROOM_MAX) {
		(void)gm_array_reserve(&pickle->entries, (size_t)entries);
		(void)gm_array_reserve(&pickle->memo, (size_t)entries * puts);
	}
}

void gm_schema_learn(struct gm_pickle *pickle, size_t start)
{
	const uint8_t *at = pickle->buffer + start, *end = pickle->buffer + pickle->at;
	struct schema schema = {0};
	static const uint8_t mark = '(', set_items = 'u';
	if (pickle->memo_rewritten || end - at < 4 || !add_literal(&schema, at++, 1) ||
	        !learn_put(&schema, &at) || *at++ != mark || !add_literal(&schema, &mark, 1))
		return;
	while (at < end && *at != set_items)
		if (!learn_item(pickle, &schema, &at, end))
			return;
	if (at != end - 1 || !add_literal(&schema, &set_items, 1))
		return;
	if (!pickle->schemas && !(pickle->schemas = calloc(1, sizeof(*pickle->schemas))))
		return; /* it goes without, at a tenth of the speed */
	struct gm_schemas *schemas = pickle->schemas;
	if (!schemas->count)
		make_room(pickle, (size_t)(end - pickle->buffer) - start, count_puts(&schema));
	size_t place = schemas->count;
	if (place < SCHEMAS_MAX) {
		schemas->count++;
	} else {
		place = schemas->oldest;
		schemas->oldest = (schemas->oldest + 1) % SCHEMAS_MAX;
	}
	schemas->items[place] = schema;
	schemas->last = place;
}
