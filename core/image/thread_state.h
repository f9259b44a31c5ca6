/*
 * Everything a thread's registers are, as ptrace has it and as a core's notes have it: what a core
 * is written with. Reading a process needs struct gm_registers only. Inside of the image room.
 */
#ifndef GM_IMAGE_THREAD_STATE_H
#define GM_IMAGE_THREAD_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "image/image.h"

struct gm_thread_state {
	pid_t id;
	struct user_regs_struct general;
	struct user_fpregs_struct floating;
	bool has_floating;
	uint8_t *extended; /* the XSAVE area (NT_X86_XSTATE), owned; NULL: none */
	size_t extended_size;
};

/* Of a thread that this very thread traces and that is stopped. errno where that is not so, 0:
 * read. */
int gm_thread_state_trace(pid_t thread, struct gm_thread_state *ret_state);
/* Of any image: where there is nothing to trace, the general registers that it knows of. */
struct gm_error *gm_thread_state_read(
        struct gm_image *image, pid_t thread, struct gm_thread_state *ret_state);
void gm_thread_state_deinit(struct gm_thread_state *state);

#endif
