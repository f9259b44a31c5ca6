/* What is being waited for. */
#ifndef GM_RENDER_PROGRESS_H
#define GM_RENDER_PROGRESS_H

#include "base/progress.h"

/* NULL: nothing any more. */
const char *gm_text_progress(enum gm_progress_kind kind);

#endif
