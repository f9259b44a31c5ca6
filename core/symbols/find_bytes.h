/*
 * Some bytes in very many: the strings of torch's libraries are 80 MB, and a name is sought in them
 * when a question is asked. memmem() looks at each byte; this looks at a vector of them at a time,
 * for two bytes of what is sought that are rare in names. Internal to core/symbols.
 */
#ifndef GM_SYMBOLS_FIND_BYTES_H
#define GM_SYMBOLS_FIND_BYTES_H

#include <stddef.h>

/* Where `wanted` (at least one byte) next stands in `bytes`, from the offset `from` on; SIZE_MAX:
 * nowhere. */
size_t gm_find_bytes(
        const char *bytes, size_t size, const char *wanted, size_t length, size_t from);

#endif
