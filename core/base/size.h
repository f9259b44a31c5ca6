/* Sizes in words: "1.00 GiB" and "1,073,741,824". */
#ifndef GM_BASE_SIZE_H
#define GM_BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { GM_SIZE_TEXT = 24, GM_SIZE_GROUPED = 32 };
/* "1.00 GiB", "512 B"; as PyTorch's out-of-memory errors have it. Returns `buffer`. */
const char *gm_text_size(uint64_t bytes, char buffer[GM_SIZE_TEXT]);
/* "1,000,341,504" */
const char *gm_text_grouped(uint64_t number, char buffer[GM_SIZE_GROUPED]);
/* Bytes: "64MiB", "1.5 GiB", "64mb", "4096"; powers of 1024. GM_USAGE: the text is none of these.
 */
struct gm_error *gm_parse_bytes(const char *text, uint64_t *ret_bytes);
/* The whole text as a number: digits of the base, 10 or 16, and nothing else. False: it is none, or
 * does not fit. */
bool gm_parse_digits(const char *text, int base, uint64_t *ret_number);
/* What makes a noun behind a number a plural: "1 step", "2 steps". */
static inline const char *gm_text_s(uint64_t number)
{
	return number == 1 ? "" : "s";
}

#endif
