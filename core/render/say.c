#include "render/say.h"

#include <stdarg.h>
#include <stdio.h>

char *gm_say(const char *format, ...)
{
	char *text;
	va_list arguments;
	va_start(arguments, format);
	int length = vasprintf(&text, format, arguments);
	va_end(arguments);
	return length < 0 ? NULL : text;
}

const char *gm_say_size(struct gm_said_sizes *sizes, uint64_t bytes)
{
	return gm_text_size(bytes, sizes->text[sizes->next++ % 8]);
}
