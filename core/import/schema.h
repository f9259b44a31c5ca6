/*
 * What an entry looks like, and the pieces that both those read who learn it (schema_learn.c) and
 * those who read by it (schema.c). What takes a piece is given where it begins and releases where
 * it ends, NULL where it is something else; up to 16 bytes after the end may be examined.
 */
#ifndef GM_IMPORT_SCHEMA_H
#define GM_IMPORT_SCHEMA_H

#include <string.h>

#include "import/machine.h"

enum {
	GM_SCHEMAS_MAX = 4,
	GM_SCHEMA_PARTS_MAX = 40,
	GM_SCHEMA_PUTS_MAX = GM_SCHEMA_PARTS_MAX + 2,
	GM_SCHEMA_LITERAL_MAX = 16,
	GM_SCHEMA_STRING_MAX = 1 << 12, /* of a string read here */
};

enum gm_schema_part_kind {
	GM_PART_LITERAL, /* bytes that stay, and nothing after them */
	GM_PART_NUMBER,  /* this and the next two may have such bytes before them */
	GM_PART_ACTION,
	GM_PART_FRAMES,
	GM_PART_OTHER, /* the value of a key that is not asked for: the bytes that it was, or
	                  another scalar */
	GM_PART_MEMO,  /* BINPUT and LONG_BINPUT, whose number is the next */
};

enum gm_put_kind { GM_PUT_NONE, GM_PUT_ENTRY, GM_PUT_VALUE };

struct gm_schema_part {
	uint8_t kind, length; /* of the bytes; 0: none are known */
	uint8_t key;          /* of a number; GM_KEY_USER_METADATA of such a value */
	uint8_t put;          /* enum gm_put_kind: what the memo gets behind the bytes */
	uint32_t value;       /* for GM_PUT_VALUE, packed */
	uint32_t text;        /* of metadata that stays: string id, 0: none */
	uint64_t bytes[2], mask[2];
};

struct gm_schema {
	size_t count;
	struct gm_schema_part parts[GM_SCHEMA_PARTS_MAX];
};

struct gm_schemas {
	struct gm_schema items[GM_SCHEMAS_MAX];
	size_t count, last, oldest; /* last: that fitted */
	uint32_t stack;             /* id of the last stack, 0: none */
};

static inline uint64_t gm_load64(const uint8_t *bytes)
{
	uint64_t value;
	memcpy(&value, bytes, sizeof(value));
	return value; /* little-endian, as the file: the core runs on x86-64 and AArch64 */
}

static inline uint32_t gm_load32(const uint8_t *bytes)
{
	uint32_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* ---- pieces --------------------------------------------------------------------------------- */

static const uint8_t gm_number_sizes[256] = {['K'] = 1, ['M'] = 2, ['J'] = 4};

/* A number that is not negative and below 2^63. Bytes after the end may be examined. */
static inline const uint8_t *gm_take_number(const uint8_t *at, uint64_t *ret_value)
{
	bool is_long = at[0] == 0x8a; /* LONG1 */
	unsigned size = is_long ? at[1] : gm_number_sizes[at[0]];
	if (size - 1 > 7)
		return NULL;
	at += 1 + is_long;
	uint64_t value = gm_load64(at) & UINT64_MAX >> (64 - 8 * size);
	if ((is_long || size == 4) && value >> (8 * size - 1))
		return NULL;
	*ret_value = value;
	return at + size;
}

/* BINGET or LONG_BINGET of a memo number that is there. */
static inline const uint8_t *gm_take_reference(
        const struct gm_pickle *pickle, const uint8_t *at, uint32_t *ret_index)
{
	bool is_long = at[0] == 'j';
	if (!is_long && at[0] != 'h')
		return NULL;
	*ret_index = is_long ? gm_load32(at + 1) : at[1];
	if (*ret_index >= pickle->memo.count || pickle->memo.items[*ret_index] == GM_MEMO_EMPTY)
		return NULL;
	return at + (is_long ? 5 : 2);
}

/* A string that is not too long. */
static inline const uint8_t *gm_take_string(
        const uint8_t *at, const uint8_t *end, const uint8_t **ret_bytes, size_t *ret_length)
{
	size_t head = at[0] == 0x8c ? 2 : at[0] == 'X' ? 5 : 0;
	if (!head)
		return NULL;
	*ret_length = head == 2 ? at[1] : gm_load32(at + 1);
	if (*ret_length > GM_SCHEMA_STRING_MAX || end - at < (ptrdiff_t)(head + *ret_length))
		return NULL;
	*ret_bytes = at + head;
	return at + head + *ret_length;
}

/* Behind the references to frames and the APPENDS that ends them; NULL: something else is among
 * them. */
const uint8_t *gm_references_end(const uint8_t *at, const uint8_t *end);
/* The id of a string that is the value of metadata; 0: none. */
uint32_t gm_metadata_text(const struct gm_pickle *pickle, gm_value value);

/*
 * Reads the entries from here on that are like one seen before; what it does not know is left where
 * it stands, and read by the opcodes.
 */
struct gm_error *gm_schema_read(struct gm_pickle *pickle);

#endif
