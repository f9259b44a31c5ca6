/* Learns the form of an entry from one that the opcodes have read. */
#include "import/schema_learn.h"

#include <stdlib.h>
#include <string.h>

#include "import/machine.h"
#include "import/schema.h"

enum {
	RESERVED_MIN = 1 << 14, /* entries: fewer may be moved */
	RESERVED_MAX = 1 << 26,
};

static struct gm_schema_part *add_part(struct gm_schema *schema, enum gm_schema_part_kind kind)
{
	struct gm_schema_part *last = schema->count ? &schema->parts[schema->count - 1] : NULL;
	bool joins = kind == GM_PART_NUMBER || kind == GM_PART_ACTION || kind == GM_PART_FRAMES;
	if (joins && last && last->kind == GM_PART_LITERAL && !last->put) {
		last->kind = (uint8_t)kind;
		return last;
	}
	if (schema->count == GM_SCHEMA_PARTS_MAX)
		return NULL;
	struct gm_schema_part *part = &schema->parts[schema->count++];
	*part = (struct gm_schema_part){.kind = (uint8_t)kind};
	return part;
}

static bool set_bytes(struct gm_schema_part *part, const uint8_t *bytes, size_t length)
{
	if (length > GM_SCHEMA_LITERAL_MAX)
		return false;
	part->length = (uint8_t)length;
	memcpy(part->bytes, bytes, length);
	memset(part->mask, 0xff, length);
	return true;
}

/* Constant bytes, joined to the preceding ones. */
static bool add_literal(struct gm_schema *schema, const uint8_t *bytes, size_t length)
{
	struct gm_schema_part *last = schema->count ? &schema->parts[schema->count - 1] : NULL;
	if (last && last->kind == GM_PART_LITERAL && !last->put &&
	        last->length + length <= GM_SCHEMA_LITERAL_MAX) {
		memcpy((uint8_t *)last->bytes + last->length, bytes, length);
		memset((uint8_t *)last->mask + last->length, 0xff, length);
		last->length = (uint8_t)(last->length + length);
		return true;
	}
	struct gm_schema_part *part = add_part(schema, GM_PART_LITERAL);
	return part && set_bytes(part, bytes, length);
}

/* Opcodes that put the entry itself into the memo. The learned bytes have been read already: their
 * numbers are not the next ones. */
static bool learn_put(struct gm_schema *schema, const uint8_t **at)
{
	uint8_t op = **at;
	size_t length = op == 0x94 ? 1 : op == 'q' ? 2 : op == 'r' ? 5 : 0;
	if (!length)
		return true; /* a pickler without a memo */
	if (length == 1 && !add_literal(schema, *at, 1))
		return false;
	struct gm_schema_part *part =
	        length == 1 ? &schema->parts[schema->count - 1] : add_part(schema, GM_PART_MEMO);
	if (part)
		part->put = GM_PUT_ENTRY;
	*at += length;
	return part;
}

/* A value that is not used: a scalar, or a tuple of up to three of them. */
static bool learn_other(struct gm_pickle *pickle, struct gm_schema *schema, bool metadata,
        const uint8_t **at, const uint8_t *end)
{
	const uint8_t *start = *at, *bytes;
	struct gm_schema_part *part = add_part(schema, GM_PART_OTHER);
	uint32_t index;
	uint64_t number;
	size_t length = 0, scalars = 0;
	gm_value value = GM_VALUE_OPAQUE;
	const uint8_t *behind = gm_take_string(*at, end, &bytes, &length);
	bool fresh = behind;
	if (fresh) {
		*at = behind;
		uint32_t id = gm_pickle_string_id(pickle, bytes, length);
		value = id ? gm_value_make(GM_TAG_STRING, id) : GM_VALUE_OPAQUE;
	}
	while (!fresh && scalars < 3 && *at < end) {
		if (**at == 'N' || **at == 0x88 || **at == 0x89)
			behind = *at + 1;
		else if ((behind = gm_take_reference(pickle, *at, &index)))
			value = gm_memo_unpack(pickle, index);
		else if (!(behind = gm_take_number(*at, &number)))
			break;
		*at = behind;
		scalars++;
		/* a key follows a single value, and is a reference too */
		if (scalars == 1 && (**at == 'h' || **at == 'j' || **at == 'u'))
			break;
	}
	if (!part || (!fresh && !scalars))
		return false;
	bool tuple = !fresh && **at >= 0x85 && **at <= 0x87; /* TUPLE1 to TUPLE3 */
	if (metadata) {
		part->key = GM_KEY_USER_METADATA;
		part->text = tuple ? 0 : gm_metadata_text(pickle, value);
	}
	value = fresh ? value : GM_VALUE_OPAQUE; /* the items of a tuple, if any */
	if (tuple)
		++*at;
	else if (!fresh && scalars > 1)
		return false;
	if (**at == 0x94) {
		++*at;
		part->put = GM_PUT_VALUE;
		if (!gm_memo_pack(pickle, value, &part->value))
			return false;
	} else if (**at == 'q' || **at == 'r') {
		/* its number differs between entries: the bytes never fit, and are read by the
		 * opcodes */
		*at += **at == 'q' ? 2 : 5;
		return fresh;
	}
	if ((size_t)(*at - start) > GM_SCHEMA_LITERAL_MAX)
		return fresh;
	return set_bytes(part, start, (size_t)(*at - start));
}

static bool learn_frames(const struct gm_pickle *pickle, const uint8_t **at, const uint8_t *end)
{
	uint32_t index;
	if (**at != ']')
		return (*at = gm_take_reference(pickle, *at, &index));
	++*at;
	*at += **at == 0x94 ? 1 : **at == 'q' ? 2 : **at == 'r' ? 5 : 0;
	if (**at == '(')
		*at = gm_references_end(*at + 1, end);
	return *at;
}

static bool learn_item(
        struct gm_pickle *pickle, struct gm_schema *schema, const uint8_t **at, const uint8_t *end)
{
	const uint8_t *start = *at;
	uint32_t index;
	uint64_t number;
	if (!(*at = gm_take_reference(pickle, *at, &index)))
		return false;
	gm_value name = gm_memo_unpack(pickle, index);
	if (gm_value_tag(name) != GM_TAG_STRING ||
	        !add_literal(schema, start, (size_t)(*at - start)))
		return false;
	enum gm_key key = (enum gm_key)pickle->keys.items[(name >> 3) - 1];
	struct gm_schema_part *part;
	switch (key) {
	case GM_KEY_ACTION:
		return add_part(schema, GM_PART_ACTION) &&
		       (*at = gm_take_reference(pickle, *at, &index));
	case GM_KEY_FRAMES:
		return add_part(schema, GM_PART_FRAMES) && learn_frames(pickle, at, end);
	case GM_KEY_ADDR:
	case GM_KEY_DEVICE_FREE:
	case GM_KEY_SIZE:
	case GM_KEY_STREAM:
	case GM_KEY_TIME_US:
		part = add_part(schema, GM_PART_NUMBER);
		if (part)
			part->key = (uint8_t)key;
		return part && (*at = gm_take_number(*at, &number));
	default:
		return learn_other(pickle, schema, key == GM_KEY_USER_METADATA, at, end);
	}
}

static size_t count_puts(const struct gm_schema *schema)
{
	size_t puts = 1; /* of frames */
	for (size_t i = 0; i < schema->count; i++)
		puts += schema->parts[i].put != GM_PUT_NONE;
	return puts;
}

/* Capacity for all entries that the rest of the file may have, so that they are never moved. Unused
 * capacity costs no memory. */
static void grow(struct gm_pickle *pickle, size_t length, size_t puts)
{
	uint64_t now = gm_pickle_now(pickle);
	uint64_t entries = now < pickle->file_size ? (pickle->file_size - now) / length : 0;
	if (entries > RESERVED_MIN && entries < RESERVED_MAX) {
		(void)gm_array_reserve(&pickle->entries, (size_t)entries);
		(void)gm_array_reserve(&pickle->memo, (size_t)entries * puts);
	}
}

void gm_schema_learn(struct gm_pickle *pickle, size_t start)
{
	const uint8_t *at = pickle->buffer + start, *end = pickle->buffer + pickle->at;
	struct gm_schema schema = {0};
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
		return; /* read without it, at a tenth of the speed */
	struct gm_schemas *schemas = pickle->schemas;
	if (!schemas->count)
		grow(pickle, (size_t)(end - pickle->buffer) - start, count_puts(&schema));
	size_t place = schemas->count;
	if (place < GM_SCHEMAS_MAX) {
		schemas->count++;
	} else {
		place = schemas->oldest;
		schemas->oldest = (schemas->oldest + 1) % GM_SCHEMAS_MAX;
	}
	schemas->items[place] = schema;
	schemas->last = place;
}
