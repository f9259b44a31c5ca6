/*
 * PyTorch's out-of-memory messages, found in any text: a pasted traceback, a log of many ranks. Old
 * and new wordings of the CUDA, HIP and XPU allocators, and that of MPS. Colours, line prefixes and
 * line breaks within a message do no harm.
 */
#ifndef GM_ASK_OOM_TEXT_H
#define GM_ASK_OOM_TEXT_H

#include "ask/oom/oom_facts.h"

struct gm_oom_message {
	struct gm_oom_facts facts;
	char label[40];   /* "rank 3", "Worker_TP0": what the line begins with; "" */
	uint32_t line;    /* of the text, from 1 */
	uint32_t repeats; /* how often the same message of the same rank stands there */
};

/* In the order in which they first stand there. */
struct gm_oom_messages {
	struct gm_oom_message *items; /* the caller frees them */
	size_t count;
	size_t left_out; /* further ones in the text, which are not among them */
};
/* False: no memory. */
bool gm_oom_parse(const char *text, size_t length, struct gm_oom_messages *ret_messages);

#endif
