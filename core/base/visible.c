#include "base/visible.h"

#include "base/size.h"
#include "base/utf8.h"

/* --- characters ------------------------------------------------------------------------------- */

/* Characters that act on a terminal or are invisible, in order: of Unicode 15 the categories Cc, Zl
 * and Zp, and Cf without the signs used in Arabic, Syriac, Kaithi and Egyptian numbers and texts.
 * */
static const struct {
	uint32_t first, last;
} hidden[] = {
        {0x00, 0x1f},
        {0x7f, 0x9f},
        {0xad, 0xad},
        {0x61c, 0x61c},
        {0x180e, 0x180e},
        {0x200b, 0x200f},
        {0x2028, 0x202e},
        {0x2060, 0x206f},
        {0xfeff, 0xfeff},
        {0xfff9, 0xfffb},
        {0x1bca0, 0x1bca3},
        {0x1d173, 0x1d17a},
        {0xe0000, 0xe007f},
};

static bool is_hidden(uint32_t character)
{
	for (size_t i = 0; i < sizeof(hidden) / sizeof(*hidden) && character >= hidden[i].first;
	        i++)
		if (character <= hidden[i].last)
			return true;
	return false;
}

/* For a complete one, as gm_utf8_length() recognizes it. */
static uint32_t decode(const unsigned char *bytes, size_t length)
{
	static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t character = bytes[0] & first[length];
	for (size_t i = 1; i < length; i++)
		character = character << 6 | (bytes[i] & 0x3f);
	return character;
}

static void escape_character(uint32_t character, char escape[GM_ESCAPE_TEXT])
{
	static const char letters[] = "\nn\tt\rr";
	for (const char *letter = letters; *letter; letter += 2)
		if ((uint32_t)*letter == character) {
			snprintf(escape, GM_ESCAPE_TEXT, "\\%c", letter[1]);
			return;
		}
	snprintf(escape, GM_ESCAPE_TEXT,
	        character < 0x80      ? "\\x%02x"
	        : character < 0x10000 ? "\\u%04x"
	                              : "\\U%08x",
	        character);
}

size_t gm_visible_next(const char *text, size_t length, bool *ret_acts, char escape[GM_ESCAPE_TEXT])
{
	const unsigned char *bytes = (const unsigned char *)text;
	size_t size = gm_utf8_length(text, length);
	*ret_acts = true;
	if (!size) {
		snprintf(escape, GM_ESCAPE_TEXT, "\\x%02x", bytes[0]);
		return 1;
	}
	uint32_t character = decode(bytes, size);
	if (is_hidden(character))
		escape_character(character, escape);
	else
		*ret_acts = false;
	return size;
}

/* --- a text ----------------------------------------------------------------------------------- */

bool gm_is_visible(const char *text, size_t length)
{
	char escape[GM_ESCAPE_TEXT];
	bool acts = length > GM_VISIBLE_MOST;
	for (size_t i = 0; i < length && !acts;) {
		unsigned char byte = (unsigned char)text[i];
		if (byte >= 0x20 && byte < 0x7f)
			i++;
		else
			i += gm_visible_next(text + i, length - i, &acts, escape);
	}
	return !acts;
}

static void put_escaped(const char *text, size_t length, FILE *out)
{
	char escape[GM_ESCAPE_TEXT];
	bool acts;
	for (size_t i = 0, size; i < length; i += size) {
		size = gm_visible_next(text + i, length - i, &acts, escape);
		if (acts)
			fputs(escape, out);
		else
			fwrite(text + i, 1, size, out);
	}
}

/* Whether a character begins before this byte and includes it. */
static bool continues(const char *text, size_t at)
{
	return ((unsigned char)text[at] & 0xc0) == 0x80;
}

void gm_put_visible(const char *text, size_t length, FILE *out)
{
	if (length <= GM_VISIBLE_MOST) {
		put_escaped(text, length, out);
		return;
	}
	/* Keeps the beginning and more of the end, which is the most significant part of a path or
	 * a sentence. No character is split. */
	size_t head = GM_VISIBLE_MOST / 2, tail = length - GM_VISIBLE_MOST / 4;
	for (int i = 0; i < 3 && continues(text, head); i++)
		head--;
	for (int i = 0; i < 3 && continues(text, tail); i++)
		tail++;
	char left_out[GM_SIZE_GROUPED];
	put_escaped(text, head, out);
	fprintf(out, "[... %s bytes ...]", gm_text_grouped(tail - head, left_out));
	put_escaped(text + tail, length - tail, out);
}
