/* Opcodes: Lib/pickletools.py of CPython 3.11. */
#include "export/pickle.h"

#include <string.h>

#include "base/utf8.h"

static void put(struct gm_pickler *pickler, int byte)
{
	putc_unlocked(byte, pickler->out);
}

static void put_little(struct gm_pickler *pickler, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		put(pickler, (int)(value >> (8 * i) & 0xff));
}

void gm_pickler_begin(struct gm_pickler *pickler, FILE *out)
{
	*pickler = (struct gm_pickler){.out = out};
	put(pickler, 0x80); /* PROTO */
	put(pickler, 4);
}

void gm_pickler_end(struct gm_pickler *pickler)
{
	put(pickler, '.');
}

uint32_t gm_pickler_remember(struct gm_pickler *pickler)
{
	put(pickler, 0x94); /* MEMOIZE */
	return pickler->memo++;
}

void gm_pickler_again(struct gm_pickler *pickler, uint32_t number)
{
	put(pickler, number < 256 ? 'h' : 'j'); /* BINGET, LONG_BINGET */
	put_little(pickler, number, number < 256 ? 1 : 4);
}

void gm_pickler_number(struct gm_pickler *pickler, uint64_t number)
{
	if (number <= INT32_MAX) {
		put(pickler, 'J'); /* BININT */
		put_little(pickler, number, 4);
		return;
	}
	int bytes = 4;
	while (bytes < 8 && number >> (8 * bytes))
		bytes++;
	/* LONG1 is signed: its highest bit must be free */
	if (bytes == 8 ? number >> 63 : number >> (8 * bytes - 1))
		bytes++;
	put(pickler, 0x8a);
	put(pickler, bytes);
	put_little(pickler, number, bytes < 8 ? bytes : 8);
	if (bytes == 9)
		put(pickler, 0);
}

void gm_pickler_negative(struct gm_pickler *pickler, int32_t number)
{
	put(pickler, 'J'); /* BININT */
	put_little(pickler, (uint32_t)number, 4);
}

void gm_pickler_bool(struct gm_pickler *pickler, bool value)
{
	put(pickler, value ? 0x88 : 0x89);
}

void gm_pickler_string(struct gm_pickler *pickler, const char *text)
{
	size_t length = strlen(text);
	put(pickler, length < 256 ? 0x8c : 'X'); /* SHORT_BINUNICODE, BINUNICODE */
	put_little(pickler, length, length < 256 ? 1 : 4);
	for (size_t i = 0; i < length;) {
		size_t valid = gm_utf8_length(text + i, length - i);
		for (size_t j = 0; j < valid; j++)
			put(pickler, (unsigned char)text[i + j]);
		if (!valid)
			put(pickler, '?');
		i += valid ? valid : 1;
	}
}

void gm_pickler_dict_begin(struct gm_pickler *pickler)
{
	put(pickler, '}');
	put(pickler, '(');
}

void gm_pickler_dict_end(struct gm_pickler *pickler)
{
	put(pickler, 'u');
}

void gm_pickler_list_begin(struct gm_pickler *pickler)
{
	put(pickler, ']');
	put(pickler, '(');
}

void gm_pickler_list_end(struct gm_pickler *pickler)
{
	put(pickler, 'e');
}
