/* The machine's opcodes, as CPython 3.14's Lib/pickletools.py and Lib/pickle.py define them. */
#include "import/pickle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "log/format.h"

enum {
	BUFFER_SIZE = 1 << 18, /* more than the longest string that is kept */
	DEPTH_MAX = 1000,      /* marks at once; a snapshot has six */
};

struct gm_error *gm_pickle_refuse(
        const struct gm_pickle *pickle, uint64_t offset, const char *format, ...)
{
	char *reason = NULL;
	va_list args;
	va_start(args, format);
	int length = vasprintf(&reason, format, args);
	va_end(args);
	if (length < 0)
		return &gm_error_no_memory;
	struct gm_error *error =
	        gm_error_create(GM_CORRUPT, "%s: cannot be read as a snapshot: at byte %llu: %s",
	                pickle->path, (unsigned long long)offset, reason);
	free(reason);
	return error;
}

static struct gm_error *refuse(const struct gm_pickle *pickle, const char *reason)
{
	return gm_pickle_refuse(pickle, pickle->op_at, "%s", reason);
}

static uint64_t offset_now(const struct gm_pickle *pickle)
{
	return pickle->before + pickle->at;
}

/* Makes `size` (at most BUFFER_SIZE) bytes lie at `at`. */
static struct gm_error *need_slow(struct gm_pickle *pickle, size_t size)
{
	memmove(pickle->buffer, pickle->buffer + pickle->at, pickle->end - pickle->at);
	pickle->before += pickle->at;
	pickle->end -= pickle->at;
	pickle->at = 0;
	while (pickle->end < size) {
		ssize_t got =
		        read(pickle->fd, pickle->buffer + pickle->end, BUFFER_SIZE - pickle->end);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return gm_error_os(GM_CORRUPT, errno, "%s: cannot be read", pickle->path);
		if (got == 0)
			return gm_pickle_refuse(pickle, pickle->before + pickle->end,
			        "the file ends in the midst of it: it was cut: copy or dump it "
			        "again");
		pickle->end += (size_t)got;
	}
	return NULL;
}

static inline struct gm_error *need(struct gm_pickle *pickle, size_t size)
{
	return pickle->end - pickle->at >= size ? NULL : need_slow(pickle, size);
}

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
	gm_try(need(pickle, size));
	*ret_value = little(pickle->buffer + pickle->at, size);
	pickle->at += size;
	return NULL;
}

/* A length that the rest of the file must hold. */
static struct gm_error *get_length(struct gm_pickle *pickle, size_t size, uint64_t *ret_length)
{
	gm_try(get(pickle, size, ret_length));
	uint64_t now = offset_now(pickle),
	         rest = pickle->file_size > now ? pickle->file_size - now : 0;
	if (*ret_length > rest)
		return gm_pickle_refuse(pickle, pickle->op_at,
		        "a length of %llu bytes where the file has %llu more: it was cut or "
		        "damaged",
		        (unsigned long long)*ret_length, (unsigned long long)rest);
	return NULL;
}

static struct gm_error *skip(struct gm_pickle *pickle, uint64_t size)
{
	while (size > 0) {
		gm_try(need(pickle, 1));
		size_t here = pickle->end - pickle->at;
		here = here < size ? here : (size_t)size;
		pickle->at += here;
		size -= here;
	}
	return NULL;
}

static inline struct gm_error *push(struct gm_pickle *pickle, gm_value value)
{
	return gm_array_push(&pickle->stack, value) ? NULL : &gm_error_no_memory;
}

static size_t bottom(const struct gm_pickle *pickle)
{
	return pickle->marks.count ? pickle->marks.items[pickle->marks.count - 1] : 0;
}

/* The values above the last mark, which is taken away. */
static struct gm_error *pop_mark(struct gm_pickle *pickle, size_t *ret_start)
{
	if (!pickle->marks.count)
		return refuse(pickle, "values end that have not begun");
	*ret_start = pickle->marks.items[--pickle->marks.count];
	return NULL;
}

static struct gm_error *require(const struct gm_pickle *pickle, size_t count)
{
	if (pickle->stack.count - bottom(pickle) < count)
		return refuse(pickle, "an operation lacks its values");
	return NULL;
}

/* ---- scalars -------------------------------------------------------------------------------- */

static struct gm_error *push_wide(struct gm_pickle *pickle, uint64_t value, bool unsigned_64)
{
	const struct gm_wide wide = {value, unsigned_64};
	if (!gm_array_push(&pickle->wides, wide))
		return &gm_error_no_memory;
	return push(pickle, gm_value_make(GM_TAG_WIDE, pickle->wides.count - 1));
}

static inline struct gm_error *push_int(struct gm_pickle *pickle, int64_t value)
{
	if (value >= 0 && value < INT64_C(1) << 60)
		return push(pickle, gm_value_make(GM_TAG_INT, (uint64_t)value));
	return push_wide(pickle, (uint64_t)value, value >= 0);
}

/* A little-endian two's complement number of any length. */
static struct gm_error *push_long(struct gm_pickle *pickle, uint64_t size)
{
	if (size == 0)
		return push_int(pickle, 0);
	if (size > 9) {
		gm_try(skip(pickle, size));
		return push_wide(pickle, 0, false);
	}
	gm_try(need(pickle, (size_t)size));
	const uint8_t *bytes = pickle->buffer + pickle->at;
	pickle->at += (size_t)size;
	bool negative = bytes[size - 1] & 0x80;
	uint64_t value = little(bytes, size < 8 ? (size_t)size : 8);
	if (negative || (size == 9 && bytes[8]))
		return push_wide(pickle, 0, false);
	return value < UINT64_C(1) << 60 ? push_int(pickle, (int64_t)value)
	                                 : push_wide(pickle, value, true);
}

static struct gm_error *push_string(struct gm_pickle *pickle, uint64_t length)
{
	size_t kept = length < GM_LOG_STRING_MAX ? (size_t)length : GM_LOG_STRING_MAX;
	gm_try(need(pickle, kept));
	const uint8_t *bytes = pickle->buffer + pickle->at;
	/* One byte stands before it, as an empty string has a number too. */
	size_t known = pickle->strings.count;
	uint8_t *text = pickle->buffer + BUFFER_SIZE;
	text[0] = 's';
	memcpy(text + 1, bytes, kept);
	uint32_t id = gm_intern_add(&pickle->strings, text, kept + 1);
	if (!id)
		return &gm_error_no_memory;
	if (id > known && !gm_array_push(&pickle->keys, (uint8_t)gm_pickle_key(bytes, kept)))
		return &gm_error_no_memory;
	gm_try(skip(pickle, length));
	return push(pickle, gm_value_make(GM_TAG_STRING, id));
}

/* ---- containers ----------------------------------------------------------------------------- */

static struct gm_error *push_object(struct gm_pickle *pickle, enum gm_object_kind kind)
{
	const struct gm_object object = {.kind = (uint8_t)kind};
	if (pickle->objects.count >= UINT32_MAX || !gm_array_push(&pickle->objects, object))
		return &gm_error_no_memory;
	return push(pickle, gm_value_make(GM_TAG_OBJECT, pickle->objects.count - 1));
}

static struct gm_error *append(
        struct gm_pickle *pickle, struct gm_object *object, const gm_value *values, size_t count)
{
	if (!count)
		return NULL;
	size_t piece = pickle->arena.count;
	if (count > UINT32_MAX || piece + count + 1 >= UINT32_MAX)
		return refuse(pickle, "it holds more than 4,294,967,295 values");
	if (!gm_array_reserve(&pickle->arena, count + 1))
		return &gm_error_no_memory;
	pickle->arena.items[piece] = (uint64_t)count << 32;
	memcpy(pickle->arena.items + piece + 1, values, count * sizeof(*values));
	pickle->arena.count += count + 1;
	if (object->last)
		pickle->arena.items[object->last - 1] |= piece + 1;
	else
		object->first = (uint32_t)piece + 1;
	object->last = (uint32_t)piece + 1;
	return NULL;
}

static struct gm_error *append_items(struct gm_pickle *pickle, size_t start)
{
	gm_value *values = pickle->stack.items + start;
	size_t count = pickle->stack.count - start;
	struct gm_object *object =
	        start > bottom(pickle) ? gm_pickle_object(pickle, values[-1]) : NULL;
	if (!object || object->kind != GM_LIST)
		return refuse(pickle, "values are appended to what is no list");
	pickle->stack.count = start;
	return append(pickle, object, values, count);
}

static struct gm_error *set_items(struct gm_pickle *pickle, size_t start)
{
	gm_value *values = pickle->stack.items + start;
	size_t count = pickle->stack.count - start;
	struct gm_object *object =
	        start > bottom(pickle) ? gm_pickle_object(pickle, values[-1]) : NULL;
	if (!object || object->kind == GM_LIST || count % 2)
		return refuse(pickle, "items are set in what is no dictionary");
	pickle->stack.count = start;
	if (object->kind == GM_DICT && !object->first) {
		object->kind = (uint8_t)gm_pickle_kind(pickle, values, count);
		if (object->kind == GM_ENTRY) {
			object->first = (uint32_t)pickle->entries.count;
			if (!gm_array_push(&pickle->entries, ((struct gm_entry){0})))
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

static struct gm_error *memo_put(struct gm_pickle *pickle, uint64_t index)
{
	gm_try(require(pickle, 1));
	/* Each number is written by an opcode of its own, so none is beyond the file's bytes. */
	if (index > pickle->op_at)
		return refuse(pickle, "a memo number is greater than the file could have made");
	while (pickle->memo.count <= index)
		if (!gm_array_push(&pickle->memo, UINT64_MAX))
			return &gm_error_no_memory;
	pickle->memo.items[index] = pickle->stack.items[pickle->stack.count - 1];
	return NULL;
}

static struct gm_error *memo_get(struct gm_pickle *pickle, uint64_t index)
{
	if (index >= pickle->memo.count || pickle->memo.items[index] == UINT64_MAX)
		return refuse(pickle, "a memo number refers to nothing");
	return push(pickle, pickle->memo.items[index]);
}

/* ---- opcodes -------------------------------------------------------------------------------- */

/* Those that make Python import or call something, or that plain data does not use. */
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
		        "the opcode %s would run code or fetch objects: a snapshot is plain data "
		        "and "
		        "has none: nothing was executed: do not load the file in Python either",
		        names[op]);
	if (op < 0x80 && op && strchr("ILSVFgp", op))
		return gm_pickle_refuse(pickle, pickle->op_at,
		        "the text opcode '%c' belongs to protocols 0 and 1: dump it with protocol "
		        "2 to 5",
		        op);
	return gm_pickle_refuse(
	        pickle, pickle->op_at, "0x%02x is no opcode of a pickle: it is damaged", op);
}

static struct gm_error *make_opaque(struct gm_pickle *pickle, size_t start)
{
	pickle->stack.count = start;
	return push(pickle, GM_VALUE_OPAQUE);
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
		return push(pickle, GM_VALUE_NONE);
	case 0x88:
		return push(pickle, GM_VALUE_TRUE);
	case 0x89:
		return push(pickle, GM_VALUE_FALSE);
	case 'K': /* BININT1 */
		gm_try(get(pickle, 1, &number));
		return push_int(pickle, (int64_t)number);
	case 'M': /* BININT2 */
		gm_try(get(pickle, 2, &number));
		return push_int(pickle, (int64_t)number);
	case 'J': /* BININT */
		gm_try(get(pickle, 4, &number));
		return push_int(pickle, (int32_t)number);
	case 0x8a: /* LONG1 */
		gm_try(get_length(pickle, 1, &number));
		return push_long(pickle, number);
	case 0x8b: /* LONG4, of a signed length: a negative one is longer than the file */
		gm_try(get_length(pickle, 4, &number));
		return push_long(pickle, number);
	case 'G': /* BINFLOAT */
		gm_try(need(pickle, 8));
		pickle->at += 8;
		return push(pickle, GM_VALUE_OPAQUE);
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
		return push(pickle, GM_VALUE_OPAQUE);
	case 'T': /* BINSTRING */
	case 'B': /* BINBYTES */
		gm_try(get_length(pickle, 4, &number));
		gm_try(skip(pickle, number));
		return push(pickle, GM_VALUE_OPAQUE);
	case 0x8e: /* BINBYTES8 */
	case 0x96: /* BYTEARRAY8 */
		gm_try(get_length(pickle, 8, &number));
		gm_try(skip(pickle, number));
		return push(pickle, GM_VALUE_OPAQUE);
	case ']':
		return push_object(pickle, GM_LIST);
	case '}':
		return push_object(pickle, GM_DICT);
	case ')':  /* EMPTY_TUPLE */
	case 0x8f: /* EMPTY_SET */
		return push(pickle, GM_VALUE_OPAQUE);
	case '(':
		if (pickle->marks.count == DEPTH_MAX)
			return refuse(
			        pickle, "values within values, a thousand deep: no snapshot is so");
		return gm_array_push(&pickle->marks, pickle->stack.count) ? NULL
		                                                          : &gm_error_no_memory;
	case 'a':
		gm_try(require(pickle, 2));
		return append_items(pickle, pickle->stack.count - 1);
	case 'e':
		gm_try(pop_mark(pickle, &start));
		return append_items(pickle, start);
	case 's':
		gm_try(require(pickle, 3));
		return set_items(pickle, pickle->stack.count - 2);
	case 'u':
		gm_try(pop_mark(pickle, &start));
		return set_items(pickle, start);
	case 'l': /* LIST */
	case 'd': /* DICT */
	{
		gm_try(pop_mark(pickle, &start));
		size_t count = pickle->stack.count - start;
		gm_try(push_object(pickle, op == 'l' ? GM_LIST : GM_DICT));
		/* The object goes below its values. */
		gm_value object = pickle->stack.items[pickle->stack.count - 1];
		memmove(pickle->stack.items + start + 1, pickle->stack.items + start,
		        count * sizeof(gm_value));
		pickle->stack.items[start] = object;
		return op == 'l' ? append_items(pickle, start + 1) : set_items(pickle, start + 1);
	}
	case 0x90: /* ADDITEMS */
		gm_try(pop_mark(pickle, &start));
		if (start <= bottom(pickle))
			return refuse(pickle, "values are added to no set");
		pickle->stack.count = start;
		return NULL;
	case 't':  /* TUPLE */
	case 0x91: /* FROZENSET */
		gm_try(pop_mark(pickle, &start));
		return make_opaque(pickle, start);
	case 0x85:
	case 0x86:
	case 0x87: /* TUPLE1 to TUPLE3 */
		gm_try(require(pickle, op - 0x84u));
		return make_opaque(pickle, pickle->stack.count - (op - 0x84u));
	case '0': /* POP: of a mark too */
		if (pickle->stack.count == bottom(pickle) && pickle->marks.count) {
			pickle->marks.count--;
			return NULL;
		}
		gm_try(require(pickle, 1));
		pickle->stack.count--;
		return NULL;
	case '1':
		gm_try(pop_mark(pickle, &start));
		pickle->stack.count = start;
		return NULL;
	case '2':
		gm_try(require(pickle, 1));
		return push(pickle, pickle->stack.items[pickle->stack.count - 1]);
	case 0x94: /* MEMOIZE */
		return memo_put(pickle, pickle->memo.count);
	case 'q':
		gm_try(get(pickle, 1, &number));
		return memo_put(pickle, number);
	case 'r':
		gm_try(get(pickle, 4, &number));
		return memo_put(pickle, number);
	case 'h':
		gm_try(get(pickle, 1, &number));
		return memo_get(pickle, number);
	case 'j':
		gm_try(get(pickle, 4, &number));
		return memo_get(pickle, number);
	default:
		return refuse_opcode(pickle, op);
	}
}

struct gm_error *gm_pickle_read(struct gm_pickle *pickle, const char *path, gm_value *ret_root)
{
	*pickle = (struct gm_pickle){.path = path};
	/* O_NONBLOCK: opening a FIFO by mistake must not hang. */
	pickle->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat status;
	if (pickle->fd < 0 || fstat(pickle->fd, &status) != 0)
		return gm_error_os(GM_CORRUPT, errno, "%s: cannot open the snapshot", path);
	if (!S_ISREG(status.st_mode))
		return gm_error_create(GM_CORRUPT, "%s: is no regular file: name a snapshot", path);
	pickle->file_size = (uint64_t)status.st_size;
	pickle->buffer = malloc(BUFFER_SIZE + GM_LOG_STRING_MAX + 1);
	/* The stack is there from the start: places in it are reckoned before anything was pushed. */
	if (!pickle->buffer || !gm_array_reserve(&pickle->stack, 64))
		return &gm_error_no_memory;
	for (;;) {
		pickle->op_at = offset_now(pickle);
		gm_try(need(pickle, 1));
		uint8_t op = pickle->buffer[pickle->at++];
		if (pickle->op_at == 0 && op != 0x80)
			return refuse(pickle, "no pickle begins so");
		if (op == '.')
			break;
		gm_try(step(pickle, op));
	}
	if (pickle->stack.count != 1 || pickle->marks.count)
		return refuse(pickle, "it ends with other than one value");
	*ret_root = pickle->stack.items[0];
	gm_array_deinit(&pickle->memo);
	return NULL;
}

void gm_pickle_deinit(struct gm_pickle *pickle)
{
	if (pickle->fd >= 0)
		close(pickle->fd);
	free(pickle->buffer);
	gm_array_deinit(&pickle->stack);
	gm_array_deinit(&pickle->marks);
	gm_array_deinit(&pickle->memo);
	gm_array_deinit(&pickle->arena);
	gm_array_deinit(&pickle->objects);
	gm_array_deinit(&pickle->wides);
	gm_array_deinit(&pickle->entries);
	gm_array_deinit(&pickle->frames);
	gm_array_deinit(&pickle->keys);
	gm_intern_deinit(&pickle->strings);
}
