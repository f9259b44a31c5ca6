#include "ranks/sections/section.h"

#include <stdio.h>
#include <stdlib.h>

uint32_t gm_section_place(
        struct gm_strings *strings, const char *file, uint32_t line, const char *function)
{
	char *text;
	if (asprintf(&text, "%s:%u in %s", file, line, function) < 0)
		return 0;
	uint32_t number = gm_strings_add(strings, text);
	free(text);
	return number;
}
