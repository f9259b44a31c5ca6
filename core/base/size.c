#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *gm_text_size(uint64_t bytes, char buffer[GM_SIZE_TEXT])
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	if (bytes < 1024) {
		snprintf(buffer, GM_SIZE_TEXT, "%" PRIu64 " B", bytes);
		return buffer;
	}
	double value = (double)bytes / 1024;
	size_t unit = 0;
	for (; value >= 1023.995 && unit + 1 < sizeof(units) / sizeof(*units); unit++)
		value /= 1024;
	snprintf(buffer, GM_SIZE_TEXT, "%.2f %s", value, units[unit]);
	return buffer;
}

const char *gm_text_grouped(uint64_t number, char buffer[GM_SIZE_GROUPED])
{
	char digits[GM_SIZE_TEXT];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, number);
	char *at = buffer;
	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*at++ = ',';
		*at++ = digits[i];
	}
	*at = '\0';
	return buffer;
}

struct gm_error *gm_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	static const char units[] = "KMGT";
	char *end = NULL;
	bool digit = text[0] >= '0' && text[0] <= '9';
	double value = digit ? strtod(text, &end) : 0;
	if (!digit || text[1] == 'x' || text[1] == 'X')
		return gm_error_create(
		        GM_USAGE, "'%s' is not a size: write it like 64MiB or 4096", text);
	while (*end == ' ')
		end++;
	const char *unit = *end ? strchr(units, *end & ~0x20) : NULL;
	for (int i = 0; unit && i <= unit - units; i++)
		value *= 1024;
	const char *rest = unit ? end + 1 : end;
	bool known = !*rest || strcasecmp(rest, "B") == 0 || (unit && strcasecmp(rest, "iB") == 0);
	if (!known || value >= (double)(UINT64_C(1) << 50))
		return gm_error_create(
		        GM_USAGE, "'%s' is not a size: write it like 64MiB or 4096", text);
	*ret_bytes = (uint64_t)value;
	return NULL;
}

bool gm_parse_digits(const char *text, int base, uint64_t *ret_number)
{
	/* strtoull() skips spaces, and takes a sign and "0x" */
	for (const char *at = text; *at; at++)
		if (base == 16 ? !isxdigit((unsigned char)*at) : !isdigit((unsigned char)*at))
			return false;
	errno = 0;
	unsigned long long number = strtoull(text, NULL, base);
	if (!*text || errno)
		return false;
	*ret_number = number;
	return true;
}
