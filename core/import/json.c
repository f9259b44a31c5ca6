/*
 * Reads JSON into the machine: json.dumps of the result of torch.cuda.memory._snapshot(). RFC 8259,
 * and Python's NaN. JSON shares nothing, so each event contains its frames. Equal frames are merged
 * here, and so are equal lists of them.
 */
#include "import/json.h"

#include <string.h>

#include "import/machine.h"
#include "log/format.h"

enum {
	AHEAD = 1 << 12,     /* bytes that are read ahead */
	BATCH = 1 << 10,     /* values of a list that wait on the stack */
	BROKEN_MAX = 0xdfff, /* the low half of a surrogate pair */
};

struct text {
	GM_ARRAY(uint8_t) bytes;    /* of the current string, as far as it is kept */
	struct gm_intern frames;    /* file, name, line */
	GM_ARRAY(uint32_t) objects; /* of frame id - 1 */
	GM_ARRAY(uint32_t) list;    /* frames of the current list */
};

static struct gm_error *broken(const struct gm_pickle *pickle)
{
	return gm_pickle_wrong(pickle, "it is not JSON as json.dumps writes it");
}

/* The next byte, which exists. */
static inline struct gm_error *peek(struct gm_pickle *pickle, uint8_t *ret_byte)
{
	gm_try(gm_pickle_need(pickle, 1));
	*ret_byte = pickle->buffer[pickle->at];
	return NULL;
}

static struct gm_error *skip_space(struct gm_pickle *pickle, uint8_t *ret_byte)
{
	for (;;) {
		gm_try(peek(pickle, ret_byte));
		if (*ret_byte != ' ' && *ret_byte != '\n' && *ret_byte != '\r' && *ret_byte != '\t')
			break;
		pickle->at++;
	}
	pickle->op_at = gm_pickle_now(pickle);
	return NULL;
}

static struct gm_error *expect(struct gm_pickle *pickle, uint8_t wanted)
{
	uint8_t byte;
	gm_try(skip_space(pickle, &byte));
	if (byte != wanted)
		return broken(pickle);
	pickle->at++;
	return NULL;
}

/* ---- scalars -------------------------------------------------------------------------------- */

static bool keep(struct text *text, const uint8_t *bytes, size_t length)
{
	size_t capacity = GM_LOG_STRING_MAX - text->bytes.count;
	length = length < capacity ? length : capacity;
	if (!gm_array_reserve(&text->bytes, length + 1))
		return false;
	memcpy(text->bytes.items + text->bytes.count, bytes, length);
	text->bytes.count += length;
	return true;
}

static struct gm_error *read_hex(struct gm_pickle *pickle, uint32_t *ret_unit)
{
	gm_try(gm_pickle_need(pickle, 4));
	*ret_unit = 0;
	for (int i = 0; i < 4; i++) {
		uint8_t byte = pickle->buffer[pickle->at++];
		uint8_t lower = byte | 0x20;
		if (byte >= '0' && byte <= '9')
			*ret_unit = *ret_unit << 4 | (uint32_t)(byte - '0');
		else if (lower >= 'a' && lower <= 'f')
			*ret_unit = *ret_unit << 4 | (uint32_t)(lower - 'a' + 10);
		else
			return broken(pickle);
	}
	return NULL;
}

static struct gm_error *keep_unit(struct gm_pickle *pickle, struct text *text)
{
	uint32_t unit, low;
	gm_try(read_hex(pickle, &unit));
	if (unit >= 0xd800 && unit < 0xdc00) {
		gm_try(gm_pickle_fill(pickle, 6));
		if (pickle->end - pickle->at >= 6 && pickle->buffer[pickle->at] == '\\' &&
		        pickle->buffer[pickle->at + 1] == 'u') {
			pickle->at += 2;
			gm_try(read_hex(pickle, &low));
			unit = low >= 0xdc00 && low <= BROKEN_MAX
			               ? 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
			               : '?';
		}
	}
	if (unit >= 0xd800 && unit <= BROKEN_MAX)
		unit = '?'; /* half a pair */
	uint8_t bytes[4];
	size_t length = unit < 0x80 ? 1 : unit < 0x800 ? 2 : unit < 0x10000 ? 3 : 4;
	static const uint8_t heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
	for (size_t i = length; i-- > 1; unit >>= 6)
		bytes[i] = (uint8_t)(0x80 | (unit & 0x3f));
	bytes[0] = (uint8_t)(heads[length] | unit);
	return keep(text, bytes, length) ? NULL : &gm_error_no_memory;
}

static struct gm_error *keep_escape(struct gm_pickle *pickle, struct text *text)
{
	static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	uint8_t byte;
	gm_try(peek(pickle, &byte));
	pickle->at++;
	if (byte == 'u')
		return keep_unit(pickle, text);
	const char *name = byte ? strchr(names, byte) : NULL;
	if (!name)
		return broken(pickle);
	return keep(text, (const uint8_t *)&meant[name - names], 1) ? NULL : &gm_error_no_memory;
}

/* After the opening quote. */
static struct gm_error *push_string(struct gm_pickle *pickle, struct text *text)
{
	text->bytes.count = 0;
	for (;;) {
		gm_try(gm_pickle_fill(pickle, AHEAD));
		const uint8_t *start = pickle->buffer + pickle->at, *at = start,
		              *end = pickle->buffer + pickle->end;
		while (at < end && *at != '"' && *at != '\\' && *at >= 0x20)
			at++;
		if (!keep(text, start, (size_t)(at - start)))
			return &gm_error_no_memory;
		pickle->at += (size_t)(at - start);
		uint8_t byte;
		gm_try(peek(pickle, &byte));
		if (at == end)
			continue;
		pickle->at++;
		if (byte == '"')
			break;
		if (byte != '\\')
			return broken(pickle); /* a control character */
		gm_try(keep_escape(pickle, text));
	}
	uint32_t id = gm_pickle_string_id(pickle, text->bytes.items, text->bytes.count);
	return id ? gm_pickle_push(pickle, gm_value_make(GM_TAG_STRING, id)) : &gm_error_no_memory;
}

static struct gm_error *push_word(struct gm_pickle *pickle);

/* A number at the end of the file is an error: the last byte must be a bracket. */
static struct gm_error *push_number(struct gm_pickle *pickle)
{
	uint64_t value = 0;
	bool negative = false, whole = true, wide = false;
	uint8_t byte;
	for (size_t length = 0;; length++) {
		gm_try(peek(pickle, &byte));
		unsigned digit = byte - (unsigned)'0';
		if (digit < 10)
			wide |= __builtin_mul_overflow(value, UINT64_C(10), &value) ||
			        __builtin_add_overflow(value, digit, &value);
		else if (byte == '-' && length == 0)
			negative = true;
		else if (byte == '.' || byte == 'e' || byte == 'E' || byte == '+' || byte == '-')
			whole = false;
		else if (byte == 'I' && negative && length == 1)
			return push_word(pickle); /* -Infinity, which Python writes too */
		else
			break;
		pickle->at++;
	}
	if (!whole)
		return gm_pickle_push(pickle, GM_VALUE_OPAQUE);
	if (wide || negative || value >> 60)
		return gm_pickle_push_wide(pickle, value, !wide && !negative);
	return gm_pickle_push(pickle, gm_value_make(GM_TAG_INT, value));
}

static struct gm_error *push_word(struct gm_pickle *pickle)
{
	static const struct {
		const char *word;
		gm_value value;
	} words[] = {
	        {"null", GM_VALUE_NONE},
	        {"true", GM_VALUE_TRUE},
	        {"false", GM_VALUE_FALSE},
	        {"NaN", GM_VALUE_OPAQUE},
	        {"Infinity", GM_VALUE_OPAQUE},
	};
	gm_try(gm_pickle_fill(pickle, 16));
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t length = strlen(words[i].word);
		if (pickle->end - pickle->at >= length &&
		        memcmp(pickle->buffer + pickle->at, words[i].word, length) == 0) {
			pickle->at += length;
			return gm_pickle_push(pickle, words[i].value);
		}
	}
	return broken(pickle);
}

/* ---- containers ----------------------------------------------------------------------------- */

static struct gm_error *read_key(struct gm_pickle *pickle, struct text *text)
{
	gm_try(expect(pickle, '"'));
	gm_try(push_string(pickle, text));
	return expect(pickle, ':');
}

static bool in_list(const struct gm_pickle *pickle)
{
	const gm_value *values = pickle->stack.items + gm_pickle_bottom(pickle);
	return gm_pickle_object(pickle, values[-1])->kind == GM_LIST;
}

/* A complete dictionary: an entry needs no object any more, and a frame that is equal to an earlier
 * one is replaced by it. */
static struct gm_error *share_dict(struct gm_pickle *pickle, struct text *text)
{
	gm_value *value = &pickle->stack.items[pickle->stack.count - 1];
	struct gm_object *object = gm_pickle_object(pickle, *value);
	bool newest = *value >> 3 == pickle->objects.count - 1;
	if (object->kind == GM_ENTRY && newest) {
		*value = gm_value_make(GM_TAG_ENTRY, object->first);
		pickle->objects.count--;
	}
	if (object->kind != GM_FRAME || object->first != pickle->frames.count - 1)
		return NULL;
	const struct gm_frame_record *record = &pickle->frames.items[object->first];
	const uint32_t key[] = {record->file, record->name, record->line};
	uint32_t id = gm_intern_add(&text->frames, key, sizeof(key));
	if (!id || (id > text->objects.count &&
	                   !gm_array_push(&text->objects, (uint32_t)(*value >> 3))))
		return &gm_error_no_memory;
	if (newest && text->objects.items[id - 1] != *value >> 3) {
		pickle->objects.count--;
		pickle->frames.count--;
		*value = gm_value_make(GM_TAG_OBJECT, text->objects.items[id - 1]);
	}
	return NULL;
}

/* Replaces the values from `start` on by one stack, if all of them are frames. */
static struct gm_error *share_list(
        struct gm_pickle *pickle, struct text *text, size_t start, bool *ret_shared)
{
	size_t count = pickle->stack.count - start;
	gm_value *values = pickle->stack.items + start;
	*ret_shared = false;
	text->list.count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct gm_object *object = gm_pickle_object(pickle, values[i]);
		if (!object || object->kind != GM_FRAME)
			return NULL;
		if (!gm_array_push(&text->list, object->first))
			return &gm_error_no_memory;
	}
	if (!count || gm_pickle_object(pickle, values[-1])->first)
		return NULL; /* one that is longer than a batch */
	uint32_t first = (uint32_t)pickle->stack_frames.count;
	size_t known = pickle->raw.count;
	if (known >= (1u << GM_STACK_BITS) - 1 || first > UINT32_MAX - BATCH)
		return NULL;
	uint32_t id =
	        gm_intern_add(&pickle->raw, text->list.items, count * sizeof(*text->list.items));
	if (!id)
		return &gm_error_no_memory;
	if (id > known) {
		const struct gm_raw_stack stack = {.first = first, .count = (uint32_t)count};
		for (size_t i = 0; i < count; i++)
			if (!gm_array_push(&pickle->stack_frames, text->list.items[i]))
				return &gm_error_no_memory;
		if (!gm_array_push(&pickle->raw_stacks, stack))
			return &gm_error_no_memory;
	}
	if (values[-1] >> 3 == pickle->objects.count - 1)
		pickle->objects.count--;
	values[-1] = gm_value_make(GM_TAG_STACK, (id - 1) | (uint64_t)id << GM_STACK_BITS);
	pickle->stack.count = start;
	*ret_shared = true;
	return NULL;
}

static struct gm_error *close_container(struct gm_pickle *pickle, struct text *text)
{
	bool list = in_list(pickle), shared;
	size_t start;
	pickle->at++;
	gm_try(gm_pickle_pop_mark(pickle, &start));
	if (!list) {
		gm_try(gm_pickle_set_items(pickle, start));
		return share_dict(pickle, text);
	}
	gm_try(share_list(pickle, text, start, &shared));
	return shared ? NULL : gm_pickle_append_items(pickle, start);
}

/* Enters a list or dictionary; *ret_value: a value follows. */
static struct gm_error *open_container(
        struct gm_pickle *pickle, struct text *text, uint8_t byte, bool *ret_value)
{
	bool list = byte == '[';
	pickle->at++;
	gm_try(gm_pickle_push_object(pickle, list ? GM_LIST : GM_DICT));
	gm_try(gm_pickle_mark(pickle));
	gm_try(skip_space(pickle, &byte));
	*ret_value = byte != (list ? ']' : '}');
	if (!*ret_value)
		return close_container(pickle, text);
	return list ? NULL : read_key(pickle, text);
}

/* After a value: closes the containers that end here. *ret_value: another value follows. */
static struct gm_error *go_on(struct gm_pickle *pickle, struct text *text, bool *ret_value)
{
	uint8_t byte;
	*ret_value = false;
	while (pickle->marks.count) {
		bool list = in_list(pickle);
		gm_try(skip_space(pickle, &byte));
		if (byte == (list ? ']' : '}')) {
			gm_try(close_container(pickle, text));
			continue;
		}
		gm_try(expect(pickle, ','));
		*ret_value = true;
		size_t start;
		if (!list)
			return read_key(pickle, text);
		if (pickle->stack.count - gm_pickle_bottom(pickle) < BATCH)
			return NULL;
		gm_try(gm_pickle_pop_mark(pickle, &start));
		gm_try(gm_pickle_append_items(pickle, start));
		return gm_pickle_mark(pickle);
	}
	return NULL;
}

static struct gm_error *read_values(struct gm_pickle *pickle, struct text *text)
{
	for (bool more = true; more;) {
		uint8_t byte;
		gm_try(skip_space(pickle, &byte));
		bool inside = false;
		if (byte == '{' || byte == '[') {
			gm_try(open_container(pickle, text, byte, &inside));
		} else if (byte == '"') {
			pickle->at++;
			gm_try(push_string(pickle, text));
		} else if (byte == '-' || (byte >= '0' && byte <= '9')) {
			gm_try(push_number(pickle));
		} else {
			gm_try(push_word(pickle));
		}
		if (!inside)
			gm_try(go_on(pickle, text, &more));
	}
	return NULL;
}

struct gm_error *gm_json_read(struct gm_pickle *pickle)
{
	struct text text = {0};
	uint8_t byte;
	gm_try(skip_space(pickle, &byte));
	if (byte != '{' && byte != '[')
		return gm_pickle_wrong(pickle, "it begins neither like a pickle nor like JSON");
	struct gm_error *error = read_values(pickle, &text);
	gm_array_deinit(&text.bytes);
	gm_array_deinit(&text.objects);
	gm_array_deinit(&text.list);
	gm_intern_deinit(&text.frames);
	if (error)
		return error;
	for (;; pickle->at++) { /* only white space may follow */
		gm_try(gm_pickle_fill(pickle, 1));
		if (pickle->at == pickle->end)
			return NULL;
		pickle->op_at = gm_pickle_now(pickle);
		if (!pickle->buffer[pickle->at] || !strchr(" \n\r\t", pickle->buffer[pickle->at]))
			return broken(pickle);
	}
}
