/*
 * Dicts: their entries, in the order of insertion.
 *
 * PyDictKeysObject ends with an index table and the entries (Objects/dict-common.h of 3.9, 3.10;
 * Include/internal/pycore_dict.h from 3.11): (hash, key, value), or (key, value) if all keys are
 * str (3.11+). A split dict shares its keys with the other instances of its class and has its
 * values elsewhere.
 */
#include <string.h>

#include "cpython/python.h"

enum { MAX_LOG2 = 36 };

bool gm_py_keys_decode(const struct gm_python_layout *layout, uint64_t address, const uint8_t *head,
        struct gm_dict_keys *ret)
{
	uint64_t indices;
	uint64_t slots;

	ret->count = gm_u64_at(head, layout->keys_entries);
	if (layout->keys_log2_size == GM_NO_FIELD) {
		slots = gm_u64_at(head, layout->keys_size);
		if (!slots || slots & (slots - 1) || slots >> MAX_LOG2)
			return false;
		indices = slots * (slots <= 0xff                ? 1
		                          : slots <= 0xffff     ? 2
		                          : slots <= 0xffffffff ? 4
		                                                : 8);
		ret->size = 24;
	} else {
		if (head[layout->keys_log2_size] > MAX_LOG2 ||
		        head[layout->keys_log2_index_bytes] > MAX_LOG2 + 3)
			return false;
		slots = UINT64_C(1) << head[layout->keys_log2_size];
		indices = UINT64_C(1) << head[layout->keys_log2_index_bytes];
		ret->size = head[layout->keys_kind] == 0 ? 24 : 16;
	}
	ret->entries = address + (uint64_t)layout->keys_indices + indices;
	return ret->count <= slots;
}

bool gm_py_read_keys(struct gm_python *python, uint64_t address, struct gm_dict_keys *ret)
{
	const struct gm_python_layout *layout = &python->layout;
	uint8_t head[GM_KEYS_HEAD];

	return address && !(address & 7) && (size_t)layout->keys_indices <= sizeof(head) &&
	       gm_image_try_read(python->image, address, head, (size_t)layout->keys_indices) &&
	       gm_py_keys_decode(layout, address, head, ret);
}

enum { BATCH = 128 };

static bool each_entry(struct gm_python *python, const struct gm_dict_keys *keys, uint64_t values,
        gm_dict_visit visit, void *context)
{
	uint8_t entries[BATCH * 24];
	uint64_t split[BATCH];

	for (uint64_t at = 0; at < keys->count; at += BATCH) {
		uint64_t count = keys->count - at < BATCH ? keys->count - at : BATCH;
		if (!gm_image_try_read(python->image, keys->entries + at * keys->size, entries,
		            (size_t)count * keys->size) ||
		        (values && !gm_image_try_read(python->image, values + 8 * at, split,
		                           (size_t)count * 8)))
			return false;
		for (uint64_t i = 0; i < count; i++) {
			const uint8_t *entry =
			        entries + i * keys->size + (keys->size == 24 ? 8 : 0);
			uint64_t key = gm_u64_at(entry, 0);
			uint64_t value = values ? split[i] : gm_u64_at(entry, 8);
			if (key && value && !visit(context, key, value))
				return true;
		}
	}
	return true;
}

bool gm_py_values_each(struct gm_python *python, uint64_t keys_address, uint64_t values,
        uint64_t max, gm_dict_visit visit, void *context)
{
	struct gm_dict_keys keys;

	if (!gm_py_read_keys(python, keys_address, &keys))
		return false;
	if (keys.count > max)
		keys.count = max;
	return each_entry(python, &keys, values, visit, context);
}

bool gm_py_dict_each(struct gm_python *python, uint64_t dict, gm_dict_visit visit, void *context)
{
	const struct gm_python_layout *layout = &python->layout;
	uint64_t values = gm_py_field(python, dict, layout->dict_values);
	struct gm_dict_keys keys;

	if (!gm_py_read_keys(python, gm_py_field(python, dict, layout->dict_keys), &keys))
		return false;
	return each_entry(python, &keys, values ? values + (uint64_t)layout->values_items : 0,
	        visit, context);
}

struct lookup {
	struct gm_python *python;
	const char *text;
	int64_t number;
	uint64_t value;
};

static bool is_text(void *context, uint64_t key, uint64_t value)
{
	struct lookup *lookup = context;

	if (!gm_py_str_equals(lookup->python, key, lookup->text))
		return true;
	lookup->value = value;
	return false;
}

static bool is_number(void *context, uint64_t key, uint64_t value)
{
	struct lookup *lookup = context;
	int64_t number;

	if (!gm_py_int(lookup->python, key, &number) || number != lookup->number)
		return true;
	lookup->value = value;
	return false;
}

uint64_t gm_py_dict_get_str(struct gm_python *python, uint64_t dict, const char *key)
{
	struct lookup lookup = {.python = python, .text = key};

	gm_py_dict_each(python, dict, is_text, &lookup);
	return lookup.value;
}

uint64_t gm_py_dict_get_int(struct gm_python *python, uint64_t dict, int64_t key)
{
	struct lookup lookup = {.python = python, .number = key};

	gm_py_dict_each(python, dict, is_number, &lookup);
	return lookup.value;
}
