/*
 * All threads of a live process stopped for a while, from outside: PTRACE_SEIZE and
 * PTRACE_INTERRUPT, which send no signal that the program could see. Whatever ends us, the kernel
 * lets them continue. A process that this very thread traces already (gdb's main thread, where gdb
 * stopped it) is taken as it stands.
 */
#ifndef GM_IMAGE_STOP_H
#define GM_IMAGE_STOP_H

#include <stdbool.h>

#include "base/array.h"
#include "image/image.h"

struct gm_stopped {
	pid_t thread;
	int signal; /* on its way to the thread as it was stopped: it gets it when it continues; 0:
	               none */
};

struct gm_stop {
	pid_t pid;
	double seconds;     /* for a thread that does not stop at once */
	bool traced_before; /* it was stopped by us, and stays so */
	GM_ARRAY(struct gm_stopped) threads;
};

/*
 * Stops every thread, also those that come while it does. GM_TARGET: refused, traced by another
 * debugger, ended, or a thread that does not stop. On an error everything continues.
 */
struct gm_error *gm_stop_begin(struct gm_image *image, struct gm_stop *ret_stop);
/* The same; `seconds` are for a thread that does not stop at once. */
struct gm_error *gm_stop_begin_within(
        struct gm_image *image, double seconds, struct gm_stop *ret_stop);
/* They continue; the struct may be used again. */
void gm_stop_end(struct gm_stop *stop);
/* A thread's State in /proc: 'R', 'S', 'T' (stopped), 't' (by its tracer), 'Z', ...; 0: it is
 * gone. */
char gm_stop_thread_state(pid_t pid, pid_t thread);

#endif
