/* The machine: its stack, containers and memo. */
#include "import/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import/values.h"
#include "log/format.h"

/* ---- the file ------------------------------------------------------------------------------- */

struct gm_error *gm_pickle_fill(struct gm_pickle *pickle, size_t size)
{
	if (pickle->end - pickle->at >= size || pickle->ended)
		return NULL;
	memmove(pickle->buffer, pickle->buffer + pickle->at, pickle->end - pickle->at);
	pickle->before += pickle->at;
	pickle->end -= pickle->at;
	pickle->at = 0;
	while (pickle->end < size) {
		ssize_t got = read(
		        pickle->fd, pickle->buffer + pickle->end, GM_PICKLE_BUFFER - pickle->end);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return gm_error_os(GM_CORRUPT, errno, "%s: cannot be read", pickle->path);
		if (got == 0) {
			pickle->ended = true;
			break;
		}
		pickle->end += (size_t)got;
	}
	return NULL;
}

struct gm_error *gm_pickle_fetch(struct gm_pickle *pickle, size_t size)
{
	gm_try(gm_pickle_fill(pickle, size));
	if (pickle->end - pickle->at >= size)
		return NULL;
	return gm_pickle_refuse(pickle, pickle->before + pickle->end,
	        "the file is truncated: copy or dump it again");
}

/* ---- the stack ------------------------------------------------------------------------------ */

struct gm_error *gm_pickle_mark(struct gm_pickle *pickle)
{
	if (pickle->marks.count == GM_PICKLE_DEPTH_MAX)
		return gm_pickle_wrong(pickle, "values are nested a thousand deep: no snapshot is");
	return gm_array_push(&pickle->marks, pickle->stack.count) ? NULL : &gm_error_no_memory;
}

struct gm_error *gm_pickle_pop_mark(struct gm_pickle *pickle, size_t *ret_start)
{
	if (!pickle->marks.count)
		return gm_pickle_wrong(pickle, "values end that did not begin");
	*ret_start = pickle->marks.items[--pickle->marks.count];
	return NULL;
}

struct gm_error *gm_pickle_require(const struct gm_pickle *pickle, size_t count)
{
	if (pickle->stack.count - gm_pickle_bottom(pickle) < count)
		return gm_pickle_wrong(pickle, "an operation lacks its values");
	return NULL;
}

struct gm_error *gm_pickle_push_wide(struct gm_pickle *pickle, uint64_t value, bool unsigned_64)
{
	const struct gm_wide wide = {value, unsigned_64};
	if (!gm_array_push(&pickle->wides, wide))
		return &gm_error_no_memory;
	return gm_pickle_push(pickle, gm_value_make(GM_TAG_WIDE, pickle->wides.count - 1));
}

struct gm_error *gm_pickle_push_int(struct gm_pickle *pickle, int64_t value)
{
	if (value >= 0 && value < INT64_C(1) << 60)
		return gm_pickle_push(pickle, gm_value_make(GM_TAG_INT, (uint64_t)value));
	return gm_pickle_push_wide(pickle, (uint64_t)value, value >= 0);
}

static uint8_t action_of(const uint8_t *bytes, size_t length)
{
	for (unsigned action = GM_ALLOC; action < GM_ACTION_COUNT; action++) {
		const char *name = gm_action_name((enum gm_action)action);
		if (name && strlen(name) == length && memcmp(name, bytes, length) == 0)
			return (uint8_t)action;
	}
	return 0;
}

uint32_t gm_pickle_string_id(struct gm_pickle *pickle, const uint8_t *bytes, size_t length)
{
	/* One byte comes first, so that an empty string has a number of its own too. */
	size_t known = pickle->strings.count;
	uint8_t *text = pickle->buffer + GM_PICKLE_BUFFER + GM_PICKLE_SLACK;
	text[0] = 's';
	memcpy(text + 1, bytes, length);
	uint32_t id = gm_intern_add(&pickle->strings, text, length + 1);
	if (id > known && (!gm_array_push(&pickle->keys, (uint8_t)gm_pickle_key(bytes, length)) ||
	                          !gm_array_push(&pickle->actions, action_of(bytes, length))))
		return 0;
	return id;
}

/* ---- containers ----------------------------------------------------------------------------- */

struct gm_error *gm_pickle_push_object(struct gm_pickle *pickle, enum gm_object_kind kind)
{
	const struct gm_object object = {.kind = (uint8_t)kind};
	if (pickle->objects.count >= UINT32_MAX || !gm_array_push(&pickle->objects, object))
		return &gm_error_no_memory;
	return gm_pickle_push(pickle, gm_value_make(GM_TAG_OBJECT, pickle->objects.count - 1));
}

/* Entries that were read consecutively are stored as the first one and their number. */
static bool is_row(const gm_value *values, size_t count)
{
	if (count < 2 || gm_value_tag(values[0]) != GM_TAG_ENTRY)
		return false;
	for (size_t i = 1; i < count; i++)
		if (values[i] != values[i - 1] + (1 << 3))
			return false;
	return true;
}

static struct gm_error *append(
        struct gm_pickle *pickle, struct gm_object *object, const gm_value *values, size_t count)
{
	if (!count)
		return NULL;
	size_t chunk = pickle->arena.count;
	bool row = is_row(values, count);
	size_t kept = row ? 1 : count;
	if (count >= GM_CHUNK_ROW || chunk + kept + 1 >= UINT32_MAX)
		return gm_pickle_wrong(pickle, "it holds more than 2,147,483,647 values");
	if (!gm_array_reserve(&pickle->arena, kept + 1))
		return &gm_error_no_memory;
	pickle->arena.items[chunk] = ((uint64_t)count | (row ? GM_CHUNK_ROW : 0)) << 32;
	memcpy(pickle->arena.items + chunk + 1, values, kept * sizeof(*values));
	pickle->arena.count += kept + 1;
	if (object->last)
		pickle->arena.items[object->last - 1] |= chunk + 1;
	else
		object->first = (uint32_t)chunk + 1;
	object->last = (uint32_t)chunk + 1;
	return NULL;
}

struct gm_error *gm_pickle_append_items(struct gm_pickle *pickle, size_t start)
{
	gm_value *values = pickle->stack.items + start;
	size_t count = pickle->stack.count - start;
	struct gm_object *object =
	        start > gm_pickle_bottom(pickle) ? gm_pickle_object(pickle, values[-1]) : NULL;
	if (!object || object->kind != GM_LIST)
		return gm_pickle_wrong(
		        pickle, "values are appended to something that is not a list");
	pickle->stack.count = start;
	return append(pickle, object, values, count);
}

struct gm_error *gm_pickle_set_items(struct gm_pickle *pickle, size_t start)
{
	gm_value *values = pickle->stack.items + start;
	size_t count = pickle->stack.count - start;
	gm_value owner = start > gm_pickle_bottom(pickle) ? values[-1] : GM_VALUE_NONE;
	struct gm_object *object = gm_pickle_object(pickle, owner);
	bool entry = gm_value_tag(owner) == GM_TAG_ENTRY;
	if ((!entry && (!object || object->kind == GM_LIST)) || count % 2)
		return gm_pickle_wrong(
		        pickle, "items are set in something that is not a dictionary");
	pickle->stack.count = start;
	if (entry)
		return gm_pickle_fill_entry(
		        pickle, &pickle->entries.items[owner >> 3], values, count);
	if (object->kind == GM_DICT && !object->first) {
		object->kind = (uint8_t)gm_pickle_kind(pickle, values, count);
		if (object->kind == GM_ENTRY) {
			object->first = (uint32_t)pickle->entries.count;
			if (pickle->entries.count >= UINT32_MAX - 1 ||
			        !gm_array_push(&pickle->entries, ((struct gm_entry){0})))
				return &gm_error_no_memory;
		} else if (object->kind == GM_FRAME) {
			object->first = (uint32_t)pickle->frames.count;
			if (!gm_array_push(&pickle->frames, ((struct gm_frame_record){0})))
				return &gm_error_no_memory;
		}
	}
	if (object->kind == GM_ENTRY)
		return gm_pickle_fill_entry(
		        pickle, &pickle->entries.items[object->first], values, count);
	if (object->kind == GM_FRAME)
		return gm_pickle_fill_frame(
		        pickle, &pickle->frames.items[object->first], values, count);
	return append(pickle, object, values, count);
}

/* ---- the memo ------------------------------------------------------------------------------- */

enum { MEMO_LARGE = 7, MEMO_PAYLOAD_BITS = 29 }; /* a tag that no value has */

bool gm_memo_pack(struct gm_pickle *pickle, gm_value value, uint32_t *ret_packed)
{
	uint64_t payload = value >> 3;
	uint32_t tag = (uint32_t)gm_value_tag(value);
	if (tag == GM_TAG_STACK)
		payload = gm_value_stack(
		        value); /* which list it is follows from its place in the memo */
	if (payload >> MEMO_PAYLOAD_BITS) {
		payload = pickle->memo_large.count;
		tag = MEMO_LARGE;
		if (payload >= UINT32_MAX >> 3 || !gm_array_push(&pickle->memo_large, value))
			return false;
	}
	*ret_packed = (uint32_t)payload << 3 | tag;
	return true;
}

gm_value gm_memo_unpack(const struct gm_pickle *pickle, size_t index)
{
	uint32_t packed = pickle->memo.items[index];
	if ((packed & 7) == MEMO_LARGE)
		return pickle->memo_large.items[packed >> 3];
	if ((packed & 7) == GM_TAG_STACK)
		return packed | (uint64_t)(index + 1) << (3 + GM_STACK_BITS);
	return packed;
}

struct gm_error *gm_pickle_memo_put(struct gm_pickle *pickle, uint64_t index)
{
	gm_try(gm_pickle_require(pickle, 1));
	/* Each number is written by an opcode of its own, so none can exceed the file's size. */
	if (index > pickle->op_at)
		return gm_pickle_wrong(
		        pickle, "a memo number is greater than the file could have made");
	while (pickle->memo.count <= index)
		if (!gm_array_push(&pickle->memo, GM_MEMO_EMPTY))
			return &gm_error_no_memory;
	pickle->memo_rewritten |= pickle->memo.items[index] != GM_MEMO_EMPTY;
	return gm_memo_pack(pickle, pickle->stack.items[pickle->stack.count - 1],
	               &pickle->memo.items[index])
	               ? NULL
	               : &gm_error_no_memory;
}

struct gm_error *gm_pickle_memo_get(struct gm_pickle *pickle, uint64_t index)
{
	if (index >= pickle->memo.count || pickle->memo.items[index] == GM_MEMO_EMPTY)
		return gm_pickle_wrong(pickle, "a memo number refers to nothing");
	return gm_pickle_push(pickle, gm_memo_unpack(pickle, index));
}
