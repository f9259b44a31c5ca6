/*
 * What is known of one out-of-memory error, and the verdict on it. Facts come from the error's own
 * text (oom_text.h), from a process, a core or a recording (oom.h); the verdict is arithmetic on
 * them alone, so that a pasted message and a core of the same failure are evaluated alike.
 */
#ifndef GM_ASK_OOM_FACTS_H
#define GM_ASK_OOM_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "torch/torch.h" /* GM_NOT_KNOWN */

enum { GM_OOM_PROCESSES_MAX = 16 };

struct gm_oom_place {
	char *file, *function; /* owned by what has it; NULL: not known */
	uint32_t line;
};

/* What grew with each iteration of a loop that the failing request was in (oom_growth.h). */
struct gm_oom_growth {
	size_t lines;                 /* that grew; 0: none, or it is not known */
	struct gm_oom_place at, loop; /* of the lines the one that grew most */
	uint64_t bytes, blocks;       /* of all these lines, still there at the error */
	uint32_t *indices;            /* of the blocks, in the model, in order; owned */
	uint32_t iterations;          /* of the loop, that were completed */
	uint64_t each;                /* bytes by which an iteration grows */
	uint64_t each_needs;          /* and by which what it needs grows: at least as much */
	bool joined;                  /* some line replaces its block by a larger one */
	bool enough;                  /* without all of it the request would have been served */
};
void gm_oom_growth_deinit(struct gm_oom_growth *growth);

/* Tensors without which the request would have been served (oom_release.h). */
struct gm_oom_release {
	bool known;              /* false: the places of blocks are not */
	bool possible;           /* false: without any tensors it would not be served either */
	uint64_t bytes;          /* of the blocks */
	size_t blocks, segments; /* `segments`: those that are then wholly free; 0: see `within` */
	bool within;             /* the blocks lie between free parts of one segment */
	uint64_t *addresses;     /* of the blocks; owned */
	uint32_t *indices;       /* in the model, GM_NO_BLOCK: none; owned */
	struct gm_oom_place at;  /* the line that allocated most of them */
	size_t at_blocks;
};
void gm_oom_release_deinit(struct gm_oom_release *release);

/* Bytes; GM_NOT_KNOWN if not known. */
struct gm_oom_facts {
	char platform[8];   /* "CUDA", "HIP", "XPU", "MPS" */
	int device;         /* -1: not known */
	bool rounded;       /* the figures are of a text, with two digits */
	uint64_t requested; /* as told: the block's size, or (in PyTorch's text) the segment's */
	uint64_t needed;    /* of the device: the segment that PyTorch would have got */
	uint64_t total, free;
	uint64_t limit;       /* set for this process; 0: none */
	uint64_t allocated;   /* in tensors, and in private pools */
	uint64_t reserved;    /* all that PyTorch's allocator has got */
	uint64_t unallocated; /* reserved, and neither in tensors nor kept by private pools */
	uint64_t private_pools;
	uint64_t pending; /* released, waiting for a stream */
	/* Once these are there: of wholly free segments, and the largest free piece. */
	uint64_t waited_whole, waited_largest;
	uint64_t largest_hole; /* of the free memory in PyTorch's segments */
	uint64_t rounding;     /* in tensors' blocks beyond what was asked for */
	uint64_t movable;      /* of them, what expandable segments would use elsewhere */
	uint64_t whole_free;   /* of them, in wholly free segments */
	bool expandable;       /* segments are expandable already */
	uint64_t process;      /* all that this process has on the device */
	struct {
		uint64_t pid, bytes; /* pid 0: several */
		char name[24];
	} others[GM_OOM_PROCESSES_MAX]; /* other processes, as far as known */
	size_t other_count;
	const struct gm_oom_growth *growth;   /* NULL: nothing grew, or it is not known */
	const struct gm_oom_release *release; /* NULL: not known */
};

enum gm_oom_verdict {
	GM_OOM_CAPACITY = 1,
	GM_OOM_FRAGMENTATION,
	GM_OOM_PENDING,
	GM_OOM_OUTSIDE,
	GM_OOM_UNKNOWN,
};

/* What a verdict rests on: which sentence a renderer makes of it. */
enum gm_oom_reason {
	GM_OOM_REASON_NONE,
	GM_OOM_MPS_OTHERS,       /* outside: other Metal allocations */
	GM_OOM_MPS_TENSORS,      /* capacity: PyTorch's own tensors */
	GM_OOM_LIMIT_FRAGMENTED, /* fragmentation, below a limit set for the process */
	GM_OOM_LIMIT_REACHED,    /* capacity: that limit */
	GM_OOM_FREE_WAS_ENOUGH,  /* unknown: the device had more free than was needed */
	GM_OOM_FEW_FIGURES,      /* unknown: too few of them are known */
	GM_OOM_FRAGMENTED,       /* fragmentation */
	GM_OOM_WAITS_FOR_STREAM, /* pending */
	GM_OOM_OTHER_PROCESSES,  /* outside: theirs alone is enough */
	GM_OOM_NOT_PYTORCH,      /* outside */
	GM_OOM_OVER_DEVICE,      /* capacity: the request is larger than the device */
	GM_OOM_TENSORS,          /* capacity */
	GM_OOM_GREW, /* capacity: free parts would do, but only for a few iterations of a loop */
};

/* What is made of the facts: bytes; GM_NOT_KNOWN where that is said. */
struct gm_oom_sums {
	uint64_t missing;         /* that the device was short of; GM_NOT_KNOWN */
	uint64_t fragments_bytes; /* free within PyTorch's segments */
	uint64_t outside;         /* in use and not PyTorch's; GM_NOT_KNOWN */
	uint64_t others;          /* of that, other processes'; GM_NOT_KNOWN */
	uint64_t avoidable;       /* of `outside`: more than a context's own */
	uint64_t significant;     /* bytes that are worth a verdict */
	bool limited;             /* the process's limit refused, not the device */
	/* Of what grows: how many iterations more there would have been, had all free memory been
	 * in one piece. */
	uint64_t more_iterations;
};

/* Of what a line of the arithmetic tells the bytes. */
enum gm_oom_part {
	GM_OOM_PART_DEVICE,
	GM_OOM_PART_TENSORS,
	GM_OOM_PART_PENDING,
	GM_OOM_PART_PRIVATE_POOLS,
	GM_OOM_PART_FRAGMENTS,
	GM_OOM_PART_OWN_OUTSIDE,  /* not PyTorch's, and this process's */
	GM_OOM_PART_PROCESS,      /* one of the other processes: `process` */
	GM_OOM_PART_PROCESSES,    /* all other processes */
	GM_OOM_PART_REST_OUTSIDE, /* not PyTorch's, nor one of the processes that are listed before
	                           */
	GM_OOM_PART_OUTSIDE,      /* not PyTorch's; whose is not known */
	GM_OOM_PART_FREE,
	GM_OOM_PART_NEEDED,
	GM_OOM_PART_MPS_LIMIT,
	GM_OOM_PART_MPS_OTHERS,
	GM_OOM_PART_MPS_REQUEST,
};

/* A line of the arithmetic: a sum is begun by ' ', changed by '+' and '-', and closed by '='. */
struct gm_oom_line {
	char sign;
	enum gm_oom_part part;
	uint64_t bytes;
	size_t process; /* index into facts.others */
};

enum gm_oom_answer { GM_OOM_NO, GM_OOM_YES, GM_OOM_MAYBE };
enum gm_oom_remedy_kind {
	GM_OOM_STOP_GROWTH,
	GM_OOM_SMALLER_REQUEST,
	GM_OOM_LESS_OUTSIDE,
	GM_OOM_WAIT_FOR_STREAM,
	GM_OOM_HIGHER_LIMIT,
	GM_OOM_FREE_MEMORY,
	GM_OOM_EXPANDABLE_SEGMENTS,
	GM_OOM_EMPTY_CACHE,
	GM_OOM_FEWER_POOLS,
};
/* What might have been enough. */
struct gm_oom_remedy {
	enum gm_oom_remedy_kind kind;
	enum gm_oom_answer sufficient;
	uint64_t bytes; /* that it gains, or that are asked of it: at least */
	uint64_t most;  /* of expandable segments: that they may gain */
	/* The memory grows on: the error comes back after so many iterations, at most. 0: it does
	 * not, or that is not known. */
	uint64_t delays;
};

enum { GM_OOM_LINES_MAX = 8 + GM_OOM_PROCESSES_MAX, GM_OOM_REMEDIES_MAX = 10 };

/* Refers to nothing: it may be copied. Its sentences are made of it and of the facts
 * (core/render/oom_verdict.h). */
struct gm_oom_judgement {
	enum gm_oom_verdict verdict;
	enum gm_oom_reason reason;
	struct gm_oom_sums sums;
	struct gm_oom_line lines[GM_OOM_LINES_MAX];
	size_t line_count;
	struct gm_oom_remedy remedies[GM_OOM_REMEDIES_MAX];
	size_t remedy_count;
};

void gm_oom_facts_init(struct gm_oom_facts *facts); /* nothing known */
void gm_oom_judge(const struct gm_oom_facts *facts, struct gm_oom_judgement *ret_judgement);
/* As in the JSON: "capacity", "expandable_segments". */
const char *gm_oom_verdict_name(enum gm_oom_verdict verdict);
const char *gm_oom_remedy_name(enum gm_oom_remedy_kind kind);

static inline bool gm_oom_known(uint64_t bytes)
{
	return bytes != GM_NOT_KNOWN;
}

static inline uint64_t gm_oom_or_zero(uint64_t bytes)
{
	return gm_oom_known(bytes) ? bytes : 0;
}

/* What more would have been needed: of the device, else (where it is not known how much that had)
 * in all. */
static inline uint64_t gm_oom_missing(
        const struct gm_oom_facts *facts, const struct gm_oom_sums *sums)
{
	return gm_oom_known(sums->missing) ? sums->missing : facts->needed;
}

#endif
