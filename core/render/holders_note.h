/* What `who-holds` notes of its answer, in words. */
#ifndef GM_RENDER_HOLDERS_NOTE_H
#define GM_RENDER_HOLDERS_NOTE_H

#include "holders/holders.h"

/* The caller frees; NULL: no memory. */
char *gm_holders_note_text(const struct gm_holders_note *note);

#endif
