#include "base/size.h"

#include <inttypes.h>
#include <stdio.h>

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
