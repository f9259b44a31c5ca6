#include "base/utf8.h"

#include <stdint.h>

/* The Unicode Standard 15, table 3-7: which bytes may follow which. */
size_t gm_utf8_length(const char *text, size_t length)
{
	if (length == 0)
		return 0;
	const unsigned char *bytes = (const unsigned char *)text;
	unsigned char first = bytes[0];
	if (first < 0x80)
		return 1;
	size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
	if (first < 0xc2 || first > 0xf4 || length < size)
		return 0;
	unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	if (bytes[1] < low || bytes[1] > high)
		return 0;
	for (size_t i = 2; i < size; i++)
		if (bytes[i] < 0x80 || bytes[i] > 0xbf)
			return 0;
	return size;
}
