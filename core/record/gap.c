#include "record/gap.h"

#include <stdarg.h>
#include <stdio.h>

/* events between two looks for an interpreter that cannot be read yet */

void gm_record_gap(struct gm_recorder *recorder, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	gm_log_writer_gap(recorder->writer, text);
	recorder->gap_count++;
}
