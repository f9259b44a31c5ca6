/*
 * What is known of one out-of-memory error, and the verdict on it. Facts come from the error's own text (oom_text.h), from
 * a process, a core or a recording (oom.h); the verdict is arithmetic on them alone, so that a pasted message
 * and a core of the same failure are judged alike.
 */
#ifndef GM_ASK_OOM_FACTS_H
#define GM_ASK_OOM_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "torch/torch.h" /* GM_NOT_KNOWN */

enum { GM_OOM_PROCESSES_MAX = 16 };

/* Bytes; GM_NOT_KNOWN where nobody told. */
struct gm_oom_facts {
	char platform[8];   /* "CUDA", "HIP", "XPU", "MPS" */
	int device;         /* -1: not told */
	bool rounded;       /* the figures are of a text, with two digits */
	uint64_t requested; /* as told: the block's size, or (in PyTorch's text) the segment's */
	uint64_t needed;    /* of the device: the segment that PyTorch would have got */
	uint64_t total, free;
	uint64_t limit;       /* set for this process; 0: none */
	uint64_t allocated;   /* in tensors, and in private pools */
	uint64_t reserved;    /* all that PyTorch's allocator has got */
	uint64_t unallocated; /* reserved, and neither in tensors nor kept by private pools */
	uint64_t private_pools;
	uint64_t pending; /* let go, waiting for a stream */
	/* Once these are there: of wholly free segments, and the largest free piece. */
	uint64_t waited_whole, waited_largest;
	uint64_t largest_hole; /* of PyTorch's free pieces */
	uint64_t rounding;     /* in tensors' blocks beyond what was asked for */
	uint64_t movable;      /* of them, what expandable segments would use elsewhere */
	uint64_t whole_free;   /* of them, in wholly free segments */
	bool expandable;       /* segments are expandable already */
	uint64_t process;      /* all that this process has on the device */
	struct {
		uint64_t pid, bytes; /* pid 0: several */
		char name[24];
	} others[GM_OOM_PROCESSES_MAX]; /* other processes, as far as told */
	size_t other_count;
};

enum gm_oom_verdict {
	GM_OOM_CAPACITY = 1,
	GM_OOM_FRAGMENTATION,
	GM_OOM_PENDING,
	GM_OOM_OUTSIDE,
	GM_OOM_UNKNOWN,
};

/* A line of the arithmetic: a sum is begun by ' ', changed by '+' and '-', and closed by '='. */
struct gm_oom_line {
	char sign;
	uint64_t bytes;
	char *text;
};

enum gm_oom_answer { GM_OOM_NO, GM_OOM_YES, GM_OOM_MAYBE };
/* What might have been enough. */
struct gm_oom_remedy {
	const char *name; /* "expandable_segments", "empty_cache", "free_memory", ... */
	enum gm_oom_answer sufficient;
	char *text;
};

enum { GM_OOM_LINES_MAX = 8 + GM_OOM_PROCESSES_MAX, GM_OOM_REMEDIES_MAX = 8 };

struct gm_oom_judgement {
	enum gm_oom_verdict verdict;
	char *sentence;
	uint64_t missing; /* bytes that the device was short of; GM_NOT_KNOWN */
	uint64_t outside; /* bytes that are in use and not PyTorch's; GM_NOT_KNOWN */
	struct gm_oom_line lines[GM_OOM_LINES_MAX];
	size_t line_count;
	struct gm_oom_remedy remedies[GM_OOM_REMEDIES_MAX];
	size_t remedy_count;
};

void gm_oom_facts_init(struct gm_oom_facts *facts); /* nothing known */
/* False: no memory. */
bool gm_oom_judge(const struct gm_oom_facts *facts, struct gm_oom_judgement *ret_judgement);
void gm_oom_judgement_deinit(struct gm_oom_judgement *judgement);
const char *gm_oom_verdict_name(enum gm_oom_verdict verdict);

#endif
