/* Helpers that make sentences. Names from the target are not escaped here: the code that prints the
 * sentence does that (base/put.h). */
#ifndef GM_RENDER_SAY_H
#define GM_RENDER_SAY_H

#include <stdint.h>

#include "base/size.h"

/* A new text, which the caller frees; NULL: no memory. */
char *gm_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The buffers of the sizes in one sentence: eight at most. */
struct gm_said_sizes {
	char text[8][GM_SIZE_TEXT];
	unsigned next;
};
/* "1.50 GiB" */
const char *gm_say_size(struct gm_said_sizes *sizes, uint64_t bytes);

#endif
