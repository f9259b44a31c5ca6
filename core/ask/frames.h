/* The question `frames`: the Python frames of a thread as it stands now. */
#ifndef GM_ASK_FRAMES_H
#define GM_ASK_FRAMES_H

#include "ask/context.h"
#include "ask/target/pause.h"
#include "cpython/cpython.h"

enum { GM_PYTHON_FRAMES_MAX = 4096 };

struct gm_frames {
	struct gm_python_frame *frames; /* innermost first; owned */
	size_t count;
	bool cut;     /* the thread has more */
	int thread;   /* whose they are */
	int selected; /* the thread that was asked about; another one if it runs no Python */
	struct gm_pause pause;
};
/*
 * Of the selected thread. Where it runs no Python, as the autograd engine's do not, of the main
 * thread. GM_TARGET: that one runs none either. Strings are the context's, until its target
 * changes.
 */
struct gm_error *gm_ask_frames(struct gm_context *context, struct gm_frames *ret_frames);
void gm_frames_deinit(struct gm_frames *frames);
/* GM_USAGE: there is no frame of this number; it counts from 0, the innermost one. */
struct gm_error *gm_frames_check(const struct gm_frames *frames, uint64_t number);

#endif
