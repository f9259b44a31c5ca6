/* Access to the values that the pickle machine created: strings, numbers, lists, dictionaries,
 * entries and frames. */
#include "import/values.h"

#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"

enum { KEYS_MAX = 256 }; /* keys of a dictionary that are examined; snapshots have a dozen */

static const char *const key_names[GM_KEY_COUNT] = {
        [GM_KEY_UNKNOWN] = "",
        [GM_KEY_ACTION] = "action",
        [GM_KEY_ADDR] = "addr",
        [GM_KEY_ADDRESS] = "address",
        [GM_KEY_BLOCKS] = "blocks",
        [GM_KEY_DEVICE] = "device",
        [GM_KEY_DEVICE_FREE] = "device_free",
        [GM_KEY_DEVICE_TRACES] = "device_traces",
        [GM_KEY_EXTERNAL_ANNOTATIONS] = "external_annotations",
        [GM_KEY_FILENAME] = "filename",
        [GM_KEY_FRAMES] = "frames",
        [GM_KEY_HISTORY] = "history",
        [GM_KEY_HOST_SEGMENTS] = "host_segments",
        [GM_KEY_HOST_TRACES] = "host_traces",
        [GM_KEY_ALLOCATOR_SETTINGS] = "allocator_settings",
        [GM_KEY_PYTORCH_ALLOC_CONF] = "PYTORCH_ALLOC_CONF",
        [GM_KEY_PYTORCH_CUDA_ALLOC_CONF] = "PYTORCH_CUDA_ALLOC_CONF",
        [GM_KEY_TRACE_ALLOC_OVERFLOWED] = "trace_alloc_overflowed",
        [GM_KEY_IS_EXPANDABLE] = "is_expandable",
        [GM_KEY_LINE] = "line",
        [GM_KEY_NAME] = "name",
        [GM_KEY_REAL_SIZE] = "real_size",
        [GM_KEY_REQUESTED_SIZE] = "requested_size",
        [GM_KEY_SEGMENTS] = "segments",
        [GM_KEY_SIZE] = "size",
        [GM_KEY_STAGE] = "stage",
        [GM_KEY_STATE] = "state",
        [GM_KEY_STREAM] = "stream",
        [GM_KEY_TIME_US] = "time_us",
        [GM_KEY_TOTAL_SIZE] = "total_size",
        [GM_KEY_USER_METADATA] = "user_metadata",
};

enum gm_key gm_pickle_key(const void *bytes, size_t length)
{
	for (enum gm_key key = GM_KEY_UNKNOWN + 1; key < GM_KEY_COUNT; key++)
		if (strlen(key_names[key]) == length && memcmp(key_names[key], bytes, length) == 0)
			return key;
	return GM_KEY_UNKNOWN;
}

const char *gm_pickle_string(const struct gm_pickle *pickle, uint32_t id, size_t *ret_length)
{
	if (id == 0 || id > pickle->strings.count) {
		*ret_length = 0;
		return "";
	}
	size_t start = id > 1 ? pickle->strings.ends[id - 2] : 0;
	*ret_length = pickle->strings.ends[id - 1] - start - 1;
	return (const char *)pickle->strings.bytes + start + 1;
}

/* "C:\\..." or "\\\\server\\..." */
static bool is_of_windows(const char *file, size_t length)
{
	bool drive = length > 2 && isalpha((unsigned char)file[0]) && file[1] == ':';
	return (drive && file[2] == '\\') || (length > 2 && file[0] == '\\' && file[1] == '\\');
}

void gm_pickle_slash_files(struct gm_pickle *pickle)
{
	for (size_t i = 0; i < pickle->frames.count; i++) {
		size_t length;
		const char *file = gm_pickle_string(pickle, pickle->frames.items[i].file, &length);
		if (!is_of_windows(file, length))
			continue;
		char *bytes =
		        (char *)pickle->strings.bytes + (file - (char *)pickle->strings.bytes);
		for (size_t at = 0; at < length; at++)
			if (bytes[at] == '\\')
				bytes[at] = '/';
	}
}

bool gm_pickle_text_is(const struct gm_pickle *pickle, gm_value value, const char *text)
{
	size_t length;
	if (gm_value_tag(value) != GM_TAG_STRING)
		return false;
	const char *bytes = gm_pickle_string(pickle, (uint32_t)(value >> 3), &length);
	return strlen(text) == length && memcmp(bytes, text, length) == 0;
}

bool gm_pickle_number(const struct gm_pickle *pickle, gm_value value, uint64_t *ret_number)
{
	if (gm_value_tag(value) == GM_TAG_INT) {
		*ret_number = value >> 3;
		return true;
	}
	if (gm_value_tag(value) != GM_TAG_WIDE)
		return false;
	const struct gm_wide *wide = &pickle->wides.items[value >> 3];
	*ret_number = wide->value;
	return wide->unsigned_64;
}

static inline enum gm_key key_of(const struct gm_pickle *pickle, gm_value value)
{
	return gm_value_tag(value) == GM_TAG_STRING
	               ? (enum gm_key)pickle->keys.items[(value >> 3) - 1]
	               : GM_KEY_UNKNOWN;
}

struct gm_pickle_place gm_pickle_first(const struct gm_pickle *pickle, gm_value list)
{
	const struct gm_object *object = gm_pickle_object(pickle, list);
	bool chain = object && (object->kind == GM_LIST || object->kind == GM_DICT);
	return (struct gm_pickle_place){chain ? object->first : 0, 0};
}

bool gm_pickle_next(
        const struct gm_pickle *pickle, struct gm_pickle_place *place, gm_value *ret_value)
{
	if (!place->chunk)
		return false;
	const gm_value *chunk = pickle->arena.items + place->chunk - 1;
	uint32_t count = (uint32_t)(chunk[0] >> 32);
	if (count & GM_CHUNK_ROW)
		*ret_value = chunk[1] + ((uint64_t)place->index++ << 3);
	else
		*ret_value = chunk[1 + place->index++];
	if (place->index == (count & ~GM_CHUNK_ROW))
		*place = (struct gm_pickle_place){(uint32_t)chunk[0], 0};
	return true;
}

bool gm_pickle_next_row(const struct gm_pickle *pickle, struct gm_pickle_place *place,
        gm_value *ret_value, uint32_t *ret_count)
{
	*ret_count = 1;
	if (place->chunk && !place->index) {
		const gm_value *chunk = pickle->arena.items + place->chunk - 1;
		uint32_t count = (uint32_t)(chunk[0] >> 32);
		if (count & GM_CHUNK_ROW) {
			*ret_count = count & ~GM_CHUNK_ROW;
			*ret_value = chunk[1];
			*place = (struct gm_pickle_place){(uint32_t)chunk[0], 0};
			return true;
		}
	}
	return gm_pickle_next(pickle, place, ret_value);
}

gm_value gm_pickle_get(const struct gm_pickle *pickle, gm_value dict, enum gm_key key)
{
	const struct gm_object *object = gm_pickle_object(pickle, dict);
	gm_value found = GM_VALUE_NONE, name, value;
	if (!object || object->kind != GM_DICT)
		return found;
	struct gm_pickle_place place = gm_pickle_first(pickle, dict);
	/* A large dictionary that appears in many places must not cost its size in each. */
	for (int keys = 0; keys < KEYS_MAX && gm_pickle_next(pickle, &place, &name) &&
	                   gm_pickle_next(pickle, &place, &value);
	        keys++)
		if (key_of(pickle, name) == key)
			found = value;
	return found;
}

enum gm_object_kind gm_pickle_kind(
        const struct gm_pickle *pickle, const gm_value *items, size_t count)
{
	bool file = false, line = false;
	for (size_t i = 0; i < count; i += 2) {
		enum gm_key key = key_of(pickle, items[i]);
		if (key == GM_KEY_ACTION)
			return GM_ENTRY;
		file |= key == GM_KEY_FILENAME;
		line |= key == GM_KEY_LINE;
	}
	return file && line ? GM_FRAME : GM_DICT;
}

static struct gm_error *number(const struct gm_pickle *pickle, gm_value value, enum gm_key key,
        uint64_t limit, uint64_t *ret_number)
{
	if (!gm_pickle_number(pickle, value, ret_number) || *ret_number > limit)
		return gm_pickle_refuse(pickle, pickle->op_at,
		        "'%s' of an entry before it is not a number, negative, or beyond %llu",
		        key_names[key], (unsigned long long)limit);
	return NULL;
}

bool gm_pickle_stream_number(struct gm_pickle *pickle, uint64_t stream, uint32_t *ret_number)
{
	if (stream != pickle->last_stream) {
		uint32_t id = gm_intern_add(&pickle->streams, &stream, sizeof(stream));
		if (!id)
			return false;
		pickle->last_stream = stream;
		pickle->last_stream_number = stream ? id : 0;
	}
	*ret_number = pickle->last_stream_number;
	return true;
}

uint64_t gm_pickle_stream(const struct gm_pickle *pickle, uint32_t number)
{
	uint64_t stream = 0;
	if (number)
		memcpy(&stream, pickle->streams.bytes + (size_t)(number - 1) * sizeof(stream),
		        sizeof(stream));
	return stream;
}

bool gm_pickle_note_metadata(struct gm_pickle *pickle, uint32_t entry, uint32_t text)
{
	size_t count = pickle->metadata.count;
	const struct gm_metadata *last = count ? &pickle->metadata.items[count - 1] : NULL;
	if (text == (last ? last->text : 0) || (last && entry < last->entry))
		return true;
	return gm_array_push(&pickle->metadata, ((struct gm_metadata){entry, text}));
}

struct gm_error *gm_pickle_fill_entry(
        struct gm_pickle *pickle, struct gm_entry *entry, const gm_value *items, size_t count)
{
	uint32_t metadata = 0;
	for (size_t i = 0; i < count; i += 2) {
		gm_value value = items[i + 1];
		enum gm_key key = key_of(pickle, items[i]);
		uint64_t stream = 0;
		switch (key) {
		case GM_KEY_ACTION:
			if (gm_value_tag(value) != GM_TAG_STRING)
				return gm_pickle_refuse(pickle, pickle->op_at,
				        "'action' of an entry before it is not a string");
			entry->action = pickle->actions.items[(value >> 3) - 1];
			break;
		case GM_KEY_ADDR:
		case GM_KEY_DEVICE_FREE: /* for an oom, instead of an address */
			gm_try(number(pickle, value, key, UINT64_MAX, &entry->address));
			break;
		case GM_KEY_SIZE:
			gm_try(number(pickle, value, key, GM_PICKLE_SIZE_MAX, &entry->size));
			break;
		case GM_KEY_STREAM:
			gm_try(number(pickle, value, key, UINT64_MAX, &stream));
			if (!gm_pickle_stream_number(pickle, stream, &entry->stream))
				return &gm_error_no_memory;
			break;
		case GM_KEY_TIME_US:
			gm_try(number(pickle, value, key, GM_PICKLE_TIME_MAX, &entry->time_us));
			break;
		case GM_KEY_FRAMES:
			entry->frames = value;
			break;
		case GM_KEY_USER_METADATA:
			if (gm_value_tag(value) == GM_TAG_STRING &&
			        !gm_pickle_text_is(pickle, value, ""))
				metadata = (uint32_t)(value >> 3);
			break;
		default:
			break; /* not needed, or newer than this */
		}
	}
	uint32_t index = (uint32_t)(entry - pickle->entries.items);
	return gm_pickle_note_metadata(pickle, index, metadata) ? NULL : &gm_error_no_memory;
}

struct gm_error *gm_pickle_fill_frame(const struct gm_pickle *pickle, struct gm_frame_record *frame,
        const gm_value *items, size_t count)
{
	for (size_t i = 0; i < count; i += 2) {
		gm_value value = items[i + 1];
		uint64_t line;
		switch (key_of(pickle, items[i])) {
		case GM_KEY_FILENAME:
			frame->file =
			        gm_value_tag(value) == GM_TAG_STRING ? (uint32_t)(value >> 3) : 0;
			break;
		case GM_KEY_NAME:
			frame->name =
			        gm_value_tag(value) == GM_TAG_STRING ? (uint32_t)(value >> 3) : 0;
			break;
		case GM_KEY_LINE: /* for machine code, its offset in the library */
			frame->line = gm_pickle_number(pickle, value, &line) && line <= UINT32_MAX
			                      ? (uint32_t)line
			                      : 0;
			break;
		default:
			break;
		}
	}
	return NULL;
}
