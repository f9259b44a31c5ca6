/*
 * Values as bytes, and back: one function says the order of a struct's fields for both directions,
 * so that writer and reader cannot differ. Numbers are varints; a string is a number of a table
 * that travels along, so that a name moves once for all files that have it.
 *
 * What is read may be hostile: a kept summary is a file. Every count is bounded by the bytes that
 * are left, and the first thing that is wrong sets `bad`; values are 0 from there on.
 */
#ifndef GM_RANKS_CODEC_H
#define GM_RANKS_CODEC_H

#include <string.h>

#include "base/array.h"
#include "base/strings.h"
#include "base/varint.h"

struct gm_codec {
	bool writing, bad;
	bool no_memory; /* what was wrong is that; with `bad` */
	GM_ARRAY(uint8_t) out;
	struct gm_cursor in;
	/* Writing: the strings that the numbers mean. Reading: where they go. */
	struct gm_strings *strings;
	/* Reading: the number in `strings` of each string that was sent. */
	const uint32_t *numbers;
	size_t number_count;
};

/* The numbers of a table's strings in another table. */
struct gm_string_numbers {
	GM_ARRAY(uint32_t) of;
};

void gm_codec_write(struct gm_codec *codec, struct gm_strings *strings);
void gm_codec_read(
        struct gm_codec *codec, const uint8_t *bytes, size_t size, struct gm_strings *strings);
/* The same of a part, whose strings were sent before it. */
void gm_codec_read_part(struct gm_codec *codec, const uint8_t *bytes, size_t size,
        const struct gm_string_numbers *numbers);
void gm_codec_deinit(struct gm_codec *codec);

void gm_code_u64(struct gm_codec *codec, uint64_t *value);
void gm_code_u32(struct gm_codec *codec, uint32_t *value);
void gm_code_bool(struct gm_codec *codec, bool *value);
/* In [0, most]. */
void gm_code_enum(struct gm_codec *codec, unsigned *value, unsigned most);
/* The number of a string in `strings`; 0: none. */
void gm_code_string(struct gm_codec *codec, uint32_t *number);
/* All strings of the table, before the first that is referred to. Reading: adds them to `strings`,
 * and `numbers`, which the caller frees, are used from here on. */
void gm_code_strings(struct gm_codec *codec, struct gm_string_numbers *numbers);
/* Bytes that stay where they are: reading, `bytes` points into what is read. */
void gm_code_bytes(struct gm_codec *codec, const uint8_t **bytes, size_t *size);
/* A text that does not belong to the table. Reading: the caller frees it; NULL where it is bad. */
void gm_code_text(struct gm_codec *codec, char **text);
/* Values that follow one another: as the difference to the one before, which they become. */
void gm_code_difference(struct gm_codec *codec, uint64_t *value, uint64_t *before);
/* How many items follow, each of a byte at least. Reading: 0 where so many cannot be there. */
size_t gm_code_count(struct gm_codec *codec, size_t count, size_t most);

/* An array's items: reading, they are reserved, all 0; then `function` codes each. */
#define gm_code_reserve(codec, array, most, ret_count)                                  \
	do {                                                                            \
		ret_count = gm_code_count((codec), (array)->count, (most));             \
		if ((codec)->writing)                                                   \
			break;                                                          \
		if (ret_count && !gm_array_reserve((array), ret_count)) {               \
			(codec)->bad = (codec)->no_memory = true;                       \
			ret_count = 0;                                                  \
		}                                                                       \
		if (ret_count)                                                          \
			memset((array)->items, 0, ret_count * sizeof(*(array)->items)); \
		(array)->count = ret_count;                                             \
	} while (0)
#define gm_code_array(codec, array, most, function)                                 \
	do {                                                                        \
		size_t coded_;                                                      \
		gm_code_reserve(codec, array, most, coded_);                        \
		for (size_t index_ = 0; index_ < coded_ && !(codec)->bad; index_++) \
			function((codec), &(array)->items[index_]);                 \
	} while (0)
#define gm_code_array_with(codec, array, most, function, with)                      \
	do {                                                                        \
		size_t coded_;                                                      \
		gm_code_reserve(codec, array, most, coded_);                        \
		for (size_t index_ = 0; index_ < coded_ && !(codec)->bad; index_++) \
			function((codec), &(array)->items[index_], (with));         \
	} while (0)

#endif
