/*
 * Has a process run since it was stopped and resumed? One whose threads all wait where they waited
 * has changed nothing: what was read then still holds, and reading it again finds the same.
 */
#ifndef GM_IMAGE_RAN_H
#define GM_IMAGE_RAN_H

#include "image/stop.h"

struct gm_waiting {
	pid_t thread;
	uint64_t
	        switches; /* how often it gave up its processor by itself, being stopped included */
	uint64_t stack, instruction;
};

struct gm_ran {
	pid_t pid;
	GM_ARRAY(struct gm_waiting) threads;
	bool known;
};

/* While all of them are stopped, in the thread that traces them. `image` is the process, or a copy
 * of it. */
void gm_ran_note(struct gm_ran *ran, const struct gm_stop *stop, struct gm_image *image);
/* After they were resumed, and before they are stopped again. True where that cannot be determined,
 * too. */
bool gm_ran_since(const struct gm_ran *ran);
void gm_ran_deinit(struct gm_ran *ran);

#endif
