/* What a path or name tells by its text. */
#ifndef GM_BASE_TEXT_H
#define GM_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool gm_bytes_end_with(const char *bytes, size_t length, const char *end)
{
	size_t size = strlen(end);
	return length >= size && memcmp(bytes + length - size, end, size) == 0;
}

static inline bool gm_text_ends_with(const char *text, const char *end)
{
	return gm_bytes_end_with(text, strlen(text), end);
}

#endif
