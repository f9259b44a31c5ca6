#include "base/tail.h"

#include <ctype.h>
#include <string.h>

void gm_tail_put(struct gm_tail *tail, const char *bytes, size_t size)
{
	if (size > GM_TAIL_MOST) {
		bytes += size - GM_TAIL_MOST;
		size = GM_TAIL_MOST;
	}
	size_t drop = tail->size + size > GM_TAIL_MOST ? tail->size + size - GM_TAIL_MOST : 0;
	memmove(tail->text, tail->text + drop, tail->size - drop);
	tail->size -= drop;
	memcpy(tail->text + tail->size, bytes, size);
	tail->size += size;
}

char *gm_tail_last_line(struct gm_tail *tail)
{
	size_t size = tail->size;
	while (size > 0 && isspace((unsigned char)tail->text[size - 1]))
		size--;
	tail->text[size] = 0;
	char *line = strrchr(tail->text, '\n');
	return line ? line + 1 : tail->text;
}
