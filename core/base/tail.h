/* The end of what a program writes to its error output, for the message about how it ended. */
#ifndef GM_BASE_TAIL_H
#define GM_BASE_TAIL_H

#include <stddef.h>

enum { GM_TAIL_MOST = 2048 };

/* All zero at first. */
struct gm_tail {
	char text[GM_TAIL_MOST + 1];
	size_t size;
};

/* Appends; what was first goes first where there is no room. */
void gm_tail_put(struct gm_tail *tail, const char *bytes, size_t size);
/* The last line that is not empty, as Python ends a traceback with what is wrong: within `tail`,
 * whose end is cut. As the program wrote it: it may have any bytes. */
char *gm_tail_last_line(struct gm_tail *tail);

#endif
