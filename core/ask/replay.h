/* replay: what a recording's requests reserve under other settings of the allocator. */
#ifndef GM_ASK_REPLAY_H
#define GM_ASK_REPLAY_H

#include "ask/context.h"
#include "replay/replay.h"

enum { GM_REPLAY_SETTINGS_MAX = 64 };

struct gm_replay_options {
	const char *settings[GM_REPLAY_SETTINGS_MAX];
	size_t count;        /* 0: the usual ones */
	const char *profile; /* NULL: as gm_replay_choose_profile() */
	const char *python;  /* NULL: the recording's, where it is still there; else python3 */
	int device;          /* index; below 0: the main one */
	void (*progress)(void *data, size_t done, size_t count); /* NULL: nobody */
	void *data;
};

struct gm_replay {
	const char *path; /* of the recording; the context's */
	int device;       /* index */
	struct gm_replay_requests requests;
	struct gm_replay_profile profile;
	char torch[64]; /* version */
	const char *settings[GM_REPLAY_SETTINGS_MAX];
	struct gm_replay_result results[GM_REPLAY_SETTINGS_MAX];
	size_t count;
	size_t best; /* which result is the best: it gets most of what the run was refused, and of
	                 these reserves least; SIZE_MAX: none completes */
	bool none_refused; /* with one of them nothing is refused */
};

/* The answer has the strings of `options`, which the caller keeps as long as it. GM_TARGET: the
 * recording has no event of a device. GM_USAGE: no such device, or a Python that must not be run.
 */
struct gm_error *gm_ask_replay(struct gm_context *context, const struct gm_replay_options *options,
        struct gm_replay *ret_replay);
void gm_replay_deinit(struct gm_replay *replay);

#endif
