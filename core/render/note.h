/* A short note about the live tensor in a block, for lists of blocks. */
#ifndef GM_RENDER_NOTE_H
#define GM_RENDER_NOTE_H

#include <jansson.h>

#include "holders/holders.h"

/* "(5000, 50000) float32 requires_grad"; "" where nothing is known. */
void gm_text_note(const struct gm_block_note *note, char *text, size_t size);
/* null where nothing is known. */
json_t *gm_json_note(const struct gm_block_note *note);

#endif
