/*
 * The question `advise`: what would lower the peak of a recording? Each measure is put on the
 * recorded blocks, and the allocated bytes are added up again (advise/whatif.h).
 */
#ifndef GM_ASK_ADVISE_H
#define GM_ASK_ADVISE_H

#include "ask/advise/measures.h"
#include "ask/context.h"

struct gm_advise_options {
	bool has_device; /* else the main one */
	uint64_t device;
	uint32_t world;  /* ranks that share what can be shared */
	uint32_t parts;  /* of a batch */
	uint32_t chunks; /* of the tokens, where the loss is made in chunks */
};

enum gm_advice_verdict {
	GM_ADVICE_HELPS,
	GM_ADVICE_PEAK_ELSEWHERE, /* it lowers the bytes at some events, and not the peak */
	GM_ADVICE_NOT_LOWER,      /* it adds as much as it takes away, or more */
	GM_ADVICE_NOTHING_THERE,  /* the recording has nothing that it would change */
	GM_ADVICE_UNKNOWN,        /* the recording lacks what it takes: `lacks` */
	GM_ADVICE_VERDICTS,
};
const char *gm_advice_verdict_name(enum gm_advice_verdict verdict);

/* The highest moment after a measure. */
struct gm_advice_peak {
	uint64_t bytes;
	uint32_t event, step;
	enum gm_phase phase;
	uint64_t by_category[GM_CATEGORY_COUNT], added; /* added: by measures */
	uint32_t largest;                               /* block; GM_NO_BLOCK: none */
};

struct gm_advice {
	struct gm_candidate of;
	bool exact;
	enum gm_measure_cost cost;
	enum gm_advice_verdict verdict;
	unsigned lacks;             /* enum gm_advise_need, as bits */
	struct gm_advice_peak peak; /* after it; of UNKNOWN and NOTHING_THERE: as recorded */
	uint64_t saved;             /* bytes; 0 unless it helps */
	uint64_t least, most;       /* the range of `saved` */
};

enum { GM_ADVISE_TOGETHER = 4 };

struct gm_advise {
	const struct gm_model *model;
	size_t device; /* SIZE_MAX: no events at all */
	struct gm_advise_options options;
	struct gm_advice_peak peak; /* as recorded */
	struct gm_advice *items;    /* what helps by saving, then the others; owned */
	size_t count;
	size_t helps; /* so many of them do */
	/* The best few that leave the results as they are and take one device, each on top of those
	 * before it: `saved` is what it adds to them, so these savings add up. */
	struct gm_advice together[GM_ADVISE_TOGETHER];
	size_t together_count;
};

struct gm_error *gm_ask_advise(struct gm_context *context, const struct gm_advise_options *options,
        struct gm_advise *ret_advise);
void gm_advise_deinit(struct gm_advise *advise);

#endif
