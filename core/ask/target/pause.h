/*
 * Stops a process for a question. The memory is read in many small steps; if the program kept
 * running, the result would mix several states.
 *
 * In a shell a question stops all threads of its process (image/stop.h), copies what they can write
 * to (image/capture.h), lets them continue, and reads the copy. If it reads little, or there is no
 * memory for a copy, they continue when everything has been read. Libraries, symbols and layouts do
 * not change and are read before. A core, and a process that gdb or SIGSTOP has stopped, need no
 * stop. If gpumem is killed, the kernel lets the threads continue.
 */
#ifndef GM_ASK_PAUSE_H
#define GM_ASK_PAUSE_H

#include <stdint.h>

#include "ask/context.h"

enum gm_stillness {
	GM_STILL,         /* it was stopped by itself */
	GM_PAUSED,        /* it was stopped for the question */
	GM_NOT_PAUSED,    /* it ran on: --no-pause */
	GM_NOT_STOPPABLE, /* it ran on: it could not be stopped (a debugger traces it, no
	                     permission) */
	GM_INCONSISTENT,  /* it was stopped, each time in the midst of a change of the allocator */
};

/* What a question reads while its process is stopped. Of the outermost one. */
enum gm_reading {
	GM_READS_LITTLE, /* the allocator's tables: read where they are */
	GM_READS_MUCH,   /* objects: all that the program can write to is copied first */
	/* The same without what has no address in it, of which a tensor's numbers are most: who
	 * reads some of it all the same may find that it has changed (`lost`), and must ask
	 * again; then all is copied. */
	GM_READS_REFERENCES,
};

struct gm_pause {
	enum gm_stillness state;
	double seconds; /* for how long it was stopped; the longest, where that took several tries
	                 */
	unsigned tries;
	bool lost; /* something that was read had changed: the answer does not count, and the next
	              one reads a whole copy */
	uint64_t copied; /* bytes of its memory that were copied, and then read; 0: it was stopped
	                    until all was read */
};

/* Whether what was read is of one moment. */
static inline bool gm_pause_is_still(const struct gm_pause *pause)
{
	return pause->state == GM_STILL || pause->state == GM_PAUSED;
}

/*
 * To be called before a question reads a process, and gm_context_resume() once all is read; they
 * nest. What keeps the process from being stopped is not an error: *ret_pause of the end reports
 * it, and the answer has to. Errors: those of opening the process.
 */
struct gm_error *gm_context_pause(struct gm_context *context, enum gm_reading reading);
/* ret_pause: may be NULL. Of an inner call `seconds` is 0. */
void gm_context_resume(struct gm_context *context, struct gm_pause *ret_pause);
/*
 * Of a running process: references of a call that is in progress may be in registers and among the
 * temporaries of its C++ frames, and then not all are found. Whether the question is to be asked
 * again, at another moment; it waits a little then. Not of a program that has not run since: it
 * would be told the same. `moments` begins as {0}, and counts; `pause` and `complete` are those of
 * the answer that was made last.
 */
struct gm_moments {
	unsigned asked;        /* answers made so far */
	double began;          /* when the first was made */
	struct gm_pause pause; /* of all: how often it was stopped, and the longest time */
};
bool gm_context_ask_again(const struct gm_context *context, const struct gm_pause *pause,
        bool complete, struct gm_moments *moments);
void gm_pausing_destroy(struct gm_pausing *pausing);
/* The latest one; all zero where no question has paused anything. */
struct gm_pause gm_context_last_pause(const struct gm_context *context);

#endif
