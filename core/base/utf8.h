/* Is it UTF-8? What a program names its files and functions need not be. */
#ifndef GM_BASE_UTF8_H
#define GM_BASE_UTF8_H

#include <stddef.h>

/* The bytes of the whole, shortest-form character that `text` begins with; 0: it begins with
 * none. */
size_t gm_utf8_length(const char *text, size_t length);

#endif
