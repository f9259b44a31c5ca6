/*
 * A fast reader of trace entries. The entries of a trace have the same opcodes with other numbers.
 * The form of one entry is learned as a sequence of parts (constant bytes, numbers, the action, the
 * list of frames), and entries of this form are read by it, at a tenth of the opcodes' cost. An
 * entry that does not fit has no effect here: it is read by the opcodes, and so is every error, so
 * this file reports none.
 *
 * What a part of the file means depends on the memo. Picklers use each memo number once; a file
 * that does not is read by opcodes only.
 */
#include "import/schema.h"

#include <stdlib.h>
#include <string.h>

#include "import/machine.h"
#include "import/values.h"

enum {
	SPAN = 1 << 13, /* bytes that are read ahead */
};

/*
 * The current entry: written after the pickle's entries and memo, where there is space, and added
 * to them when all of it has been read. Functions that read a part get its position and return its
 * end, or NULL if it is something else, so that the position can stay in a register.
 */
struct attempt {
	const uint8_t *end;
	struct gm_entry *entry;
	uint32_t *puts; /* packed */
	size_t put_count;
	uint32_t text; /* of metadata: string id, 0: none */
};

const uint8_t *gm_references_end(const uint8_t *at, const uint8_t *end)
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

uint32_t gm_metadata_text(const struct gm_pickle *pickle, gm_value value)
{
	bool text = gm_value_tag(value) == GM_TAG_STRING && !gm_pickle_text_is(pickle, value, "");
	return text ? (uint32_t)(value >> 3) : 0;
}

static inline void put(struct attempt *attempt, uint32_t packed)
{
	attempt->puts[attempt->put_count++] = packed;
}

/* MEMOIZE, or BINPUT and LONG_BINPUT with the next number. */
static inline const uint8_t *take_put(
        const struct gm_pickle *pickle, size_t before, const uint8_t *at)
{
	size_t next = pickle->memo.count + before;
	if (at[0] == 0x94)
		return at + 1;
	if (at[0] == 'q' && at[1] == next)
		return at + 2;
	if (at[0] == 'r' && gm_load32(at + 1) == next)
		return at + 5;
	return NULL;
}

/* ---- stacks --------------------------------------------------------------------------------- */

/* Stores the frames of a new stack. */
static bool add_stack(struct gm_pickle *pickle, const uint8_t *at, const uint8_t *end)
{
	struct gm_raw_stack stack = {.first = (uint32_t)pickle->stack_frames.count};
	if (pickle->stack_frames.count > UINT32_MAX - (size_t)(end - at))
		return false;
	while (at < end - 1) {
		uint32_t index;
		if (!(at = gm_take_reference(pickle, at, &index)))
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

/* The id of a stack by its bytes; 0: it cannot be stored. */
static uint32_t intern_stack(struct gm_pickle *pickle, const uint8_t *at, const uint8_t *end)
{
	size_t known = pickle->raw.count, frames = pickle->stack_frames.count;
	if (known != pickle->raw_stacks.count || known >= 1u << GM_STACK_BITS)
		return 0; /* one could not be stored: no more of them */
	uint32_t id = gm_intern_add(&pickle->raw, at, (size_t)(end - at));
	if (id > known && !add_stack(pickle, at, end)) {
		pickle->stack_frames.count = frames;
		return 0;
	}
	return id;
}

/* The references of a list; the stack that followed the previous one last time is tried first. */
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
	const uint8_t *behind = gm_references_end(at, end);
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
		at = gm_take_reference(pickle, at, &index);
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

static const uint8_t *take_other(struct gm_pickle *pickle, const struct gm_schema_part *part,
        struct attempt *attempt, const uint8_t *at)
{
	uint32_t packed = GM_VALUE_OPAQUE, index;
	uint64_t number;
	const uint8_t *bytes, *behind;
	size_t length;
	gm_value value = GM_VALUE_OPAQUE;
	if ((behind = gm_take_string(at, attempt->end, &bytes, &length))) {
		uint32_t id = gm_pickle_string_id(pickle, bytes, length);
		value = gm_value_make(GM_TAG_STRING, id);
		if (!id || !gm_memo_pack(pickle, value, &packed))
			return NULL;
	} else if (at[0] == 'N' || at[0] == 0x88 || at[0] == 0x89) {
		behind = at + 1;
	} else if ((behind = gm_take_reference(pickle, at, &index))) {
		value = gm_memo_unpack(pickle, index);
	} else if (!(behind = gm_take_number(at, &number))) {
		return NULL;
	}
	if (part->key)
		attempt->text = gm_metadata_text(pickle, value);
	if (!(at = take_put(pickle, attempt->put_count, behind)))
		return behind;
	put(attempt, packed);
	return at;
}

static inline const uint8_t *take_field(
        struct gm_pickle *pickle, struct gm_entry *entry, enum gm_key key, const uint8_t *at)
{
	uint64_t value;
	if (!(at = gm_take_number(at, &value)))
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
	default: /* an address, or for an oom the free bytes instead */
		entry->address = value;
		return at;
	}
}

static inline bool fits(const struct gm_schema_part *part, const uint8_t *at)
{
	return (((gm_load64(at) ^ part->bytes[0]) & part->mask[0]) |
	               ((gm_load64(at + 8) ^ part->bytes[1]) & part->mask[1])) == 0;
}

static inline __attribute__((always_inline)) const uint8_t *take_part(struct gm_pickle *pickle,
        const struct gm_schema_part *part, struct attempt *attempt, const uint8_t *at)
{
	uint32_t index;
	if (!fits(part, at)) {
		if (part->kind != GM_PART_OTHER)
			return NULL;
		return take_other(pickle, part, attempt, at);
	}
	at += part->length;
	switch ((enum gm_schema_part_kind)part->kind) {
	case GM_PART_NUMBER:
		return take_field(pickle, attempt->entry, (enum gm_key)part->key, at);
	case GM_PART_ACTION:
		at = gm_take_reference(pickle, at, &index);
		if (!at || (pickle->memo.items[index] & 7) != GM_TAG_STRING)
			return NULL;
		attempt->entry->action =
		        pickle->actions.items[(pickle->memo.items[index] >> 3) - 1];
		return at;
	case GM_PART_FRAMES:
		return take_frames(pickle, attempt, at);
	case GM_PART_OTHER:
		if (!part->length)
			return take_other(pickle, part, attempt, at);
		if (part->key)
			attempt->text = part->text;
		break;
	case GM_PART_LITERAL:
		break;
	case GM_PART_MEMO:
		if (!(at = take_put(pickle, attempt->put_count, at)))
			return NULL;
		break;
	}
	if (part->put != GM_PUT_NONE)
		put(attempt, part->put == GM_PUT_VALUE
		                     ? part->value
		                     : (uint32_t)pickle->entries.count << 3 | GM_TAG_ENTRY);
	return at;
}

/* False: the entry does not fit, or there is no memory, which the opcodes will report. */
static bool take_entry(struct gm_pickle *pickle, const struct gm_schema *schema)
{
	if (pickle->entries.count >= UINT32_MAX >> 3 || !gm_array_reserve(&pickle->entries, 1) ||
	        !gm_array_reserve(&pickle->memo, GM_SCHEMA_PUTS_MAX) ||
	        !gm_array_reserve(&pickle->stack, 1))
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
	if (!gm_pickle_note_metadata(pickle, (uint32_t)pickle->entries.count, attempt.text))
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
