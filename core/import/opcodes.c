/* The machine's opcodes, as CPython 3.14's Lib/pickletools.py and Lib/pickle.py define them. */
#include "import/opcodes.h"

#include <string.h>

#include "import/machine.h"
#include "import/schema.h"
#include "import/schema_learn.h"
#include "log/format.h"

static inline uint64_t little(const uint8_t *bytes, size_t size)
{
	uint64_t value = 0;
	for (size_t i = 0; i < size; i++)
		value |= (uint64_t)bytes[i] << 8 * i;
	return value;
}

static inline __attribute__((always_inline)) struct gm_error *get(
        struct gm_pickle *pickle, size_t size, uint64_t *ret_value)
{
	gm_try(gm_pickle_need(pickle, size));
	*ret_value = little(pickle->buffer + pickle->at, size);
	pickle->at += size;
	return NULL;
}

/* A length that the rest of the file must have. */
static struct gm_error *get_length(struct gm_pickle *pickle, size_t size, uint64_t *ret_length)
{
	gm_try(get(pickle, size, ret_length));
	uint64_t now = gm_pickle_now(pickle),
	         rest = pickle->file_size > now ? pickle->file_size - now : 0;
	if (*ret_length > rest)
		return gm_pickle_refuse(pickle, pickle->op_at,
		        "a length of %llu bytes where the file has %llu more: it was truncated or "
		        "damaged",
		        (unsigned long long)*ret_length, (unsigned long long)rest);
	return NULL;
}

static struct gm_error *skip(struct gm_pickle *pickle, uint64_t size)
{
	while (size > 0) {
		gm_try(gm_pickle_need(pickle, 1));
		size_t here = pickle->end - pickle->at;
		here = here < size ? here : (size_t)size;
		pickle->at += here;
		size -= here;
	}
	return NULL;
}

/* A little-endian two's complement number of any length. */
static struct gm_error *push_long(struct gm_pickle *pickle, uint64_t size)
{
	if (size == 0)
		return gm_pickle_push_int(pickle, 0);
	if (size > 9) {
		gm_try(skip(pickle, size));
		return gm_pickle_push_wide(pickle, 0, false);
	}
	gm_try(gm_pickle_need(pickle, (size_t)size));
	const uint8_t *bytes = pickle->buffer + pickle->at;
	pickle->at += (size_t)size;
	bool negative = bytes[size - 1] & 0x80;
	uint64_t value = little(bytes, size < 8 ? (size_t)size : 8);
	if (negative || (size == 9 && bytes[8]))
		return gm_pickle_push_wide(pickle, 0, false);
	return value < UINT64_C(1) << 60 ? gm_pickle_push_int(pickle, (int64_t)value)
	                                 : gm_pickle_push_wide(pickle, value, true);
}

static struct gm_error *push_string(struct gm_pickle *pickle, uint64_t length)
{
	size_t kept = length < GM_LOG_STRING_MAX ? (size_t)length : GM_LOG_STRING_MAX;
	gm_try(gm_pickle_need(pickle, kept));
	uint32_t id = gm_pickle_string_id(pickle, pickle->buffer + pickle->at, kept);
	if (!id)
		return &gm_error_no_memory;
	gm_try(skip(pickle, length));
	return gm_pickle_push(pickle, gm_value_make(GM_TAG_STRING, id));
}

/* ---- opcodes -------------------------------------------------------------------------------- */

/* Opcodes that make Python import or call something, or that plain data does not use. */
static struct gm_error *refuse_opcode(const struct gm_pickle *pickle, uint8_t op)
{
	static const char *const names[256] = {
	        ['c'] = "GLOBAL",
	        [0x93] = "STACK_GLOBAL",
	        ['R'] = "REDUCE",
	        ['b'] = "BUILD",
	        ['i'] = "INST",
	        ['o'] = "OBJ",
	        [0x81] = "NEWOBJ",
	        [0x92] = "NEWOBJ_EX",
	        ['P'] = "PERSID",
	        ['Q'] = "BINPERSID",
	        [0x82] = "EXT1",
	        [0x83] = "EXT2",
	        [0x84] = "EXT4",
	        [0x97] = "NEXT_BUFFER",
	        [0x98] = "READONLY_BUFFER",
	};
	if (names[op])
		return gm_pickle_refuse(pickle, pickle->op_at,
		        "the opcode %s would run code or fetch objects, and a snapshot is plain "
		        "data: nothing was executed: do not load the file in Python either",
		        names[op]);
	if (op < 0x80 && op && strchr("ILSVFgp", op))
		return gm_pickle_refuse(pickle, pickle->op_at,
		        "the text opcode '%c' belongs to protocols 0 and 1: dump it with protocol "
		        "2 to 5",
		        op);
	return gm_pickle_refuse(
	        pickle, pickle->op_at, "0x%02x is not a pickle opcode: the file is damaged", op);
}

static struct gm_error *make_opaque(struct gm_pickle *pickle, size_t start)
{
	pickle->stack.count = start;
	return gm_pickle_push(pickle, GM_VALUE_OPAQUE);
}

static struct gm_error *step(struct gm_pickle *pickle, uint8_t op)
{
	uint64_t number;
	size_t start;
	switch (op) {
	case 0x80: /* PROTO */
		gm_try(get(pickle, 1, &number));
		if (number < 2 || number > 5)
			return gm_pickle_refuse(pickle, pickle->op_at,
			        "pickle protocol %llu: protocols 2 to 5 are known: dump it with "
			        "one",
			        (unsigned long long)number);
		return NULL;
	case 0x95: /* FRAME */
		return get_length(pickle, 8, &number);
	case 'N':
		return gm_pickle_push(pickle, GM_VALUE_NONE);
	case 0x88:
		return gm_pickle_push(pickle, GM_VALUE_TRUE);
	case 0x89:
		return gm_pickle_push(pickle, GM_VALUE_FALSE);
	case 'K': /* BININT1 */
		gm_try(get(pickle, 1, &number));
		return gm_pickle_push_int(pickle, (int64_t)number);
	case 'M': /* BININT2 */
		gm_try(get(pickle, 2, &number));
		return gm_pickle_push_int(pickle, (int64_t)number);
	case 'J': /* BININT */
		gm_try(get(pickle, 4, &number));
		return gm_pickle_push_int(pickle, (int32_t)number);
	case 0x8a: /* LONG1 */
		gm_try(get_length(pickle, 1, &number));
		return push_long(pickle, number);
	case 0x8b: /* LONG4, with a signed length: a negative one would be longer than the file */
		gm_try(get_length(pickle, 4, &number));
		return push_long(pickle, number);
	case 'G': /* BINFLOAT */
		gm_try(gm_pickle_need(pickle, 8));
		pickle->at += 8;
		return gm_pickle_push(pickle, GM_VALUE_OPAQUE);
	case 0x8c: /* SHORT_BINUNICODE */
		gm_try(get_length(pickle, 1, &number));
		return push_string(pickle, number);
	case 'X': /* BINUNICODE */
		gm_try(get_length(pickle, 4, &number));
		return push_string(pickle, number);
	case 0x8d: /* BINUNICODE8 */
		gm_try(get_length(pickle, 8, &number));
		return push_string(pickle, number);
	case 'U': /* SHORT_BINSTRING: bytes of Python 2 */
	case 'C': /* SHORT_BINBYTES */
		gm_try(get_length(pickle, 1, &number));
		gm_try(skip(pickle, number));
		return gm_pickle_push(pickle, GM_VALUE_OPAQUE);
	case 'T': /* BINSTRING */
	case 'B': /* BINBYTES */
		gm_try(get_length(pickle, 4, &number));
		gm_try(skip(pickle, number));
		return gm_pickle_push(pickle, GM_VALUE_OPAQUE);
	case 0x8e: /* BINBYTES8 */
	case 0x96: /* BYTEARRAY8 */
		gm_try(get_length(pickle, 8, &number));
		gm_try(skip(pickle, number));
		return gm_pickle_push(pickle, GM_VALUE_OPAQUE);
	case ']':
		return gm_pickle_push_object(pickle, GM_LIST);
	case '}':
		return gm_pickle_push_object(pickle, GM_DICT);
	case ')':  /* EMPTY_TUPLE */
	case 0x8f: /* EMPTY_SET */
		return gm_pickle_push(pickle, GM_VALUE_OPAQUE);
	case '(':
		return gm_pickle_mark(pickle);
	case 'a':
		gm_try(gm_pickle_require(pickle, 2));
		return gm_pickle_append_items(pickle, pickle->stack.count - 1);
	case 'e':
		gm_try(gm_pickle_pop_mark(pickle, &start));
		return gm_pickle_append_items(pickle, start);
	case 's':
		gm_try(gm_pickle_require(pickle, 3));
		return gm_pickle_set_items(pickle, pickle->stack.count - 2);
	case 'u':
		gm_try(gm_pickle_pop_mark(pickle, &start));
		return gm_pickle_set_items(pickle, start);
	case 'l': /* LIST */
	case 'd': /* DICT */
	{
		gm_try(gm_pickle_pop_mark(pickle, &start));
		size_t count = pickle->stack.count - start;
		gm_try(gm_pickle_push_object(pickle, op == 'l' ? GM_LIST : GM_DICT));
		/* The object goes below its values. */
		gm_value object = pickle->stack.items[pickle->stack.count - 1];
		memmove(pickle->stack.items + start + 1, pickle->stack.items + start,
		        count * sizeof(gm_value));
		pickle->stack.items[start] = object;
		return op == 'l' ? gm_pickle_append_items(pickle, start + 1)
		                 : gm_pickle_set_items(pickle, start + 1);
	}
	case 0x90: /* ADDITEMS */
		gm_try(gm_pickle_pop_mark(pickle, &start));
		if (start <= gm_pickle_bottom(pickle))
			return gm_pickle_wrong(
			        pickle, "values are added to something that is not a set");
		pickle->stack.count = start;
		return NULL;
	case 't':  /* TUPLE */
	case 0x91: /* FROZENSET */
		gm_try(gm_pickle_pop_mark(pickle, &start));
		return make_opaque(pickle, start);
	case 0x85:
	case 0x86:
	case 0x87: /* TUPLE1 to TUPLE3 */
		gm_try(gm_pickle_require(pickle, op - 0x84u));
		return make_opaque(pickle, pickle->stack.count - (op - 0x84u));
	case '0': /* POP: removes a mark too */
		if (pickle->stack.count == gm_pickle_bottom(pickle) && pickle->marks.count) {
			pickle->marks.count--;
			return NULL;
		}
		gm_try(gm_pickle_require(pickle, 1));
		pickle->stack.count--;
		return NULL;
	case '1':
		gm_try(gm_pickle_pop_mark(pickle, &start));
		pickle->stack.count = start;
		return NULL;
	case '2':
		gm_try(gm_pickle_require(pickle, 1));
		return gm_pickle_push(pickle, pickle->stack.items[pickle->stack.count - 1]);
	case 0x94: /* MEMOIZE */
		return gm_pickle_memo_put(pickle, pickle->memo.count);
	case 'q':
		gm_try(get(pickle, 1, &number));
		return gm_pickle_memo_put(pickle, number);
	case 'r':
		gm_try(get(pickle, 4, &number));
		return gm_pickle_memo_put(pickle, number);
	case 'h':
		gm_try(get(pickle, 1, &number));
		return gm_pickle_memo_get(pickle, number);
	case 'j':
		gm_try(get(pickle, 4, &number));
		return gm_pickle_memo_get(pickle, number);
	default:
		return refuse_opcode(pickle, op);
	}
}

/* The entry that was just read; the dictionary that began last is the entry itself. Others may be
 * like it. */
static void learn(struct gm_pickle *pickle, uint64_t began)
{
	if (pickle->stack.count && began >= pickle->before &&
	        gm_pickle_entry(pickle, pickle->stack.items[pickle->stack.count - 1]) != UINT32_MAX)
		gm_schema_learn(pickle, (size_t)(began - pickle->before));
}

struct gm_error *gm_pickle_read_opcodes(struct gm_pickle *pickle)
{
	uint64_t began = 0; /* the offset of the dictionary that began last */
	for (;;) {
		gm_try(gm_pickle_need(pickle, 1));
		if (pickle->buffer[pickle->at] == '}') {
			gm_try(gm_schema_read(pickle));
			gm_try(gm_pickle_need(pickle, 1));
			began = gm_pickle_now(pickle);
		}
		pickle->op_at = gm_pickle_now(pickle);
		uint8_t op = pickle->buffer[pickle->at++];
		if (pickle->op_at == 0 && op != 0x80)
			return gm_pickle_wrong(pickle, "it does not begin like a pickle");
		if (op == '.')
			return NULL;
		gm_try(step(pickle, op));
		if (op == 'u' && !pickle->plainly)
			learn(pickle, began);
	}
}
