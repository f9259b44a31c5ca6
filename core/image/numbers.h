/*
 * How threads are numbered: a process in a container has other numbers for its threads than the
 * /proc that we look at. Inside of the image room.
 */
#ifndef GM_IMAGE_NUMBERS_H
#define GM_IMAGE_NUMBERS_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/array.h"

/* Whether the process is in another PID namespace than we are. */
bool gm_numbers_differ(pid_t pid);
/* What a thread is called in its own namespace; its number here where that cannot be determined. */
pid_t gm_number_inside(pid_t pid, pid_t thread);

struct gm_number {
	pid_t inside, here;
};

/* The threads of one process, looked at again where one is asked for that is not known. */
struct gm_numbers {
	pid_t pid;
	bool differ;
	GM_ARRAY(struct gm_number) known;
	pthread_mutex_t lock;
};

void gm_numbers_init(struct gm_numbers *numbers, pid_t pid);
void gm_numbers_deinit(struct gm_numbers *numbers);
/* The number here of a thread that calls itself `inside`; 0: there is none. */
pid_t gm_numbers_here(struct gm_numbers *numbers, pid_t inside);

#endif
