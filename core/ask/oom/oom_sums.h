/*
 * What the verdict on an out-of-memory error and the lines below it share: the sums that both are read off, and the making
 * of their sentences. For oom_verdict.c and oom_remedies.c alone.
 */
#ifndef GM_ASK_OOM_SUMS_H
#define GM_ASK_OOM_SUMS_H

#include "ask/oom/oom_facts.h"
#include "base/size.h"

/* Bytes; GM_NOT_KNOWN where that is said. */
struct gm_oom_sums {
	const struct gm_oom_facts *facts;
	uint64_t missing;     /* that the device was short of; GM_NOT_KNOWN */
	uint64_t pieces;      /* free within PyTorch's segments */
	uint64_t outside;     /* in use and not PyTorch's; GM_NOT_KNOWN */
	uint64_t others;      /* of that, other processes'; GM_NOT_KNOWN */
	uint64_t avoidable;   /* of `outside`: more than a context's own */
	uint64_t significant; /* bytes that are worth a verdict */
	bool limited;         /* the process's limit refused, not the device */
};

static inline bool gm_oom_known(uint64_t bytes)
{
	return bytes != GM_NOT_KNOWN;
}

static inline uint64_t gm_oom_or_zero(uint64_t bytes)
{
	return gm_oom_known(bytes) ? bytes : 0;
}

/* Room for the sizes of one sentence: eight at most. */
struct gm_oom_words {
	char text[8][GM_SIZE_TEXT];
	unsigned next;
};

static inline const char *gm_oom_size(struct gm_oom_words *words, uint64_t bytes)
{
	return gm_text_size(bytes, words->text[words->next++ % 8]);
}

/* A new text, the caller's; NULL: no memory. */
char *gm_oom_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Take `text` (NULL: no memory, which the end of the judgement finds). What is beyond the room there is is left out. */
void gm_oom_add_line(struct gm_oom_judgement *judgement, char sign, uint64_t bytes, char *text);
/* Would the request have been served with so many bytes more? */
bool gm_oom_would_do(const struct gm_oom_sums *sums, uint64_t bytes);

/* oom_remedies.c: the arithmetic of the device, and what would have been enough, to a verdict that stands. */
void gm_oom_add_arithmetic(const struct gm_oom_sums *sums, struct gm_oom_judgement *judgement);
void gm_oom_add_remedies(const struct gm_oom_sums *sums, struct gm_oom_judgement *judgement);

#endif
