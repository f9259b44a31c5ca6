/* The answer to `oom`. */
#ifndef GM_ASK_OOM_ANSWER_H
#define GM_ASK_OOM_ANSWER_H

#include "ask/blocks.h"
#include "ask/oom/oom_facts.h"
#include "ask/retained.h"
#include "ask/target/memory.h"

/* Where the error was found. */
enum gm_oom_found {
	GM_OOM_FOUND_NOWHERE, /* the allocator counted one, and nothing of it is left */
	GM_OOM_FOUND_REPORT,  /* a thread stands where the allocator reports it */
	GM_OOM_FOUND_RAISED,  /* an exception that is being raised or handled */
	GM_OOM_FOUND_HELD,    /* an exception that a running function has: a hook, a handler */
	GM_OOM_FOUND_LAST,    /* the exception that ended the program (sys.last_value) */
	GM_OOM_FOUND_KEPT,  /* an exception that was handled, and that something still refers to */
	GM_OOM_FOUND_TEXT,  /* its text in memory: an exception of C++, or what is left of one */
	GM_OOM_FOUND_EVENT, /* an event of a recording */
};

/* One of those who fill the device. Of a recording a line; of a process or core a group of
 * `retained` with one of its parts, where the parts tell more. */
struct gm_oom_holder {
	enum gm_group_kind kind;                    /* of `line` */
	char *line;                                 /* owned; "train.py:12 in train" */
	const struct gm_retained_node *node, *part; /* in gm_oom.retained; NULL: none */
	size_t smaller; /* so many smaller ones together; 0: it is one */
	uint64_t bytes, blocks;
};

struct gm_oom {
	enum gm_oom_found found;
	struct gm_oom_facts facts;
	struct gm_oom_judgement judgement;  /* verdict 0: nothing is known of the request */
	struct gm_memory memory;            /* at the event, or now */
	bool memory_is_then;                /* nothing was released since */
	uint64_t ooms, retries;             /* GM_NOT_KNOWN */
	size_t exceptions;                  /* OutOfMemoryError objects that are there */
	pid_t thread;                       /* 0: not known */
	char *message;                      /* PyTorch's own; NULL */
	struct gm_retained_answer retained; /* of a process or core: what `top` refers to */
	struct gm_oom_place *frames;        /* where it was raised, innermost first */
	size_t frame_count;
	struct gm_oom_holder
	        *top; /* who fills the device, biggest first; all add up to memory.allocated */
	size_t top_count;
	struct gm_oom_growth growth;   /* what the facts refer to */
	struct gm_oom_release release; /* the same */
};

#endif
