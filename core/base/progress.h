/* How far something slow is, for who waits for it. */
#ifndef GM_BASE_PROGRESS_H
#define GM_BASE_PROGRESS_H

#include <stdint.h>

enum gm_progress_kind {
	GM_PROGRESS_DONE, /* nothing is being waited for any more */
	GM_PROGRESS_UNPACKING_CORE,
	GM_PROGRESS_READING_REMOTE, /* a process, through the debugger */
	GM_PROGRESS_WRITING_CORE,
	GM_PROGRESS_LEARNING_TORCH,
	GM_PROGRESS_LEARNING_PYTHON,
	GM_PROGRESS_REPLAYING, /* settings, not bytes */
	GM_PROGRESS_TRYING,    /* searches, not bytes */
};

/* `done` of `all` bytes, or of what the kind counts; `all` is 0 where it is not known, and both
 * where nothing is counted. */
typedef void gm_show_progress(
        void *context, enum gm_progress_kind kind, uint64_t done, uint64_t all);

struct gm_progress {
	gm_show_progress *show;
	void *context;
};

#endif
