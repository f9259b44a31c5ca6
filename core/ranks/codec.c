#include "ranks/codec.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT_MOST = 10 };

void gm_codec_write(struct gm_codec *codec, struct gm_strings *strings)
{
	*codec = (struct gm_codec){.writing = true, .strings = strings};
}

void gm_codec_read(
        struct gm_codec *codec, const uint8_t *bytes, size_t size, struct gm_strings *strings)
{
	*codec = (struct gm_codec){.strings = strings, .in = {.at = bytes, .end = bytes + size}};
}

void gm_codec_read_part(struct gm_codec *codec, const uint8_t *bytes, size_t size,
        const struct gm_string_numbers *numbers)
{
	gm_codec_read(codec, bytes, size, NULL);
	codec->numbers = numbers->of.items;
	codec->number_count = numbers->of.count;
}

void gm_codec_deinit(struct gm_codec *codec)
{
	gm_array_deinit(&codec->out);
}

static void out_of_memory(struct gm_codec *codec)
{
	codec->bad = codec->no_memory = true;
}

void gm_code_u64(struct gm_codec *codec, uint64_t *value)
{
	if (codec->writing) {
		if (!gm_array_reserve(&codec->out, VARINT_MOST)) {
			out_of_memory(codec);
			return;
		}
		uint8_t *at = codec->out.items + codec->out.count;
		codec->out.count += (size_t)(gm_put_varint(at, *value) - at);
		return;
	}
	*value = gm_get_varint(&codec->in);
	if (codec->in.bad)
		codec->bad = true;
	if (codec->bad)
		*value = 0;
}

/* A number of at most `most`. */
static uint64_t bounded(struct gm_codec *codec, uint64_t value, uint64_t most)
{
	gm_code_u64(codec, &value);
	if (value > most) {
		codec->bad = true;
		return 0;
	}
	return value;
}

void gm_code_u32(struct gm_codec *codec, uint32_t *value)
{
	*value = (uint32_t)bounded(codec, *value, UINT32_MAX);
}

void gm_code_bool(struct gm_codec *codec, bool *value)
{
	*value = bounded(codec, *value, 1) != 0;
}

void gm_code_enum(struct gm_codec *codec, unsigned *value, unsigned most)
{
	*value = (unsigned)bounded(codec, *value, most);
}

size_t gm_code_count(struct gm_codec *codec, size_t count, size_t most)
{
	uint64_t coded = bounded(codec, count, most);
	if (!codec->writing && coded > (uint64_t)(codec->in.end - codec->in.at)) {
		codec->bad = true;
		return 0;
	}
	return (size_t)coded;
}

void gm_code_string(struct gm_codec *codec, uint32_t *number)
{
	if (codec->writing) {
		gm_code_u32(codec, number);
		return;
	}
	uint32_t sent = 0;
	gm_code_u32(codec, &sent);
	if (sent > codec->number_count)
		codec->bad = true;
	*number = sent && !codec->bad ? codec->numbers[sent - 1] : 0;
}

static void put(struct gm_codec *codec, const void *bytes, size_t size)
{
	uint64_t length = size;
	gm_code_u64(codec, &length);
	if (codec->bad || !size)
		return;
	if (!gm_array_reserve(&codec->out, size)) {
		out_of_memory(codec);
		return;
	}
	memcpy(codec->out.items + codec->out.count, bytes, size);
	codec->out.count += size;
}

void gm_code_bytes(struct gm_codec *codec, const uint8_t **bytes, size_t *size)
{
	if (codec->writing) {
		put(codec, *bytes, *size);
		return;
	}
	*size = gm_code_count(codec, 0, SIZE_MAX);
	*bytes = codec->in.at;
	codec->in.at += *size;
}

void gm_code_text(struct gm_codec *codec, char **text)
{
	const uint8_t *bytes = (const uint8_t *)*text;
	size_t size = codec->writing ? strlen(*text) : 0;
	gm_code_bytes(codec, &bytes, &size);
	if (codec->writing)
		return;
	/* a text ends at its first 0 */
	*text = codec->bad ? NULL : strndup((const char *)bytes, size);
	if (!codec->bad && !*text)
		out_of_memory(codec);
}

void gm_code_strings(struct gm_codec *codec, struct gm_string_numbers *numbers)
{
	size_t count =
	        gm_code_count(codec, codec->writing ? codec->strings->items.count : 0, UINT32_MAX);
	for (size_t i = 0; i < count && !codec->bad; i++) {
		char *text = codec->writing ? codec->strings->items.items[i] : NULL;
		gm_code_text(codec, &text);
		if (codec->writing)
			continue;
		uint32_t number = text ? gm_strings_add(codec->strings, text) : 0;
		free(text);
		if (!codec->bad && (!number || !gm_array_push(&numbers->of, number)))
			out_of_memory(codec);
	}
	if (codec->writing)
		return;
	codec->numbers = numbers->of.items;
	codec->number_count = numbers->of.count;
}

void gm_code_difference(struct gm_codec *codec, uint64_t *value, uint64_t *before)
{
	uint64_t difference = gm_zigzag((int64_t)(*value - *before));
	gm_code_u64(codec, &difference);
	*value = *before + (uint64_t)gm_unzigzag(difference);
	*before = *value;
}
