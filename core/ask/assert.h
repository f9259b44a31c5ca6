/* The question `assert`: does a recording keep to limits? What a test or a CI job asks. */
#ifndef GM_ASK_ASSERT_H
#define GM_ASK_ASSERT_H

#include <stddef.h>
#include <stdint.h>

#include "ask/context.h"

enum gm_assert_kind {
	GM_ASSERT_PEAK,   /* the most bytes that were allocated at a time, of each device */
	GM_ASSERT_GROWTH, /* the same, beyond that of another recording */
	/* bytes that lines leave behind in each iteration, in all, of each device (ask/leaks.h) */
	GM_ASSERT_LEAKS,
	/* by how much peaks, or ends, of steps from the second on differ, of each device */
	GM_ASSERT_STEPS,
	GM_ASSERT_OOM, /* out-of-memory errors */
	GM_ASSERT_KINDS
};

struct gm_assert_limit {
	bool set, strict; /* strict: less than `bytes`, else at most */
	bool percent;     /* of growth: `bytes` is a hundredth of a percent */
	uint64_t bytes;
};

struct gm_assert_limits {
	struct gm_assert_limit of[GM_ASSERT_KINDS]; /* of errors: `bytes` is their number */
	int device;        /* an accelerator's index; -1: each that has events */
	bool gaps_allowed; /* what is not recorded is taken to be within */
};

enum gm_assert_verdict { GM_ASSERT_HOLDS, GM_ASSERT_FAILS, GM_ASSERT_UNKNOWN };

enum gm_assert_reason {
	GM_ASSERT_MEASURED,
	GM_ASSERT_INCOMPLETE, /* what was recorded is within the limit, but something is missing */
	GM_ASSERT_NOT_CLOSED, /* the same, and it is only that the recording is not closed: it still
	                         runs, or the recorder was killed */
	GM_ASSERT_TOO_FEW_STEPS, /* fewer than three, or no loop */
	GM_ASSERT_NO_EVENTS,     /* of such a device */
	GM_ASSERT_NOT_EXAMINED,  /* of leaks: `not_examined` bytes beyond the loops may be some */
	GM_ASSERT_NO_BASELINE,   /* the other recording has no events of it, or is incomplete */
};

struct gm_assert_check {
	enum gm_assert_kind kind;
	enum gm_assert_verdict verdict;
	enum gm_assert_reason reason;
	struct gm_assert_limit limit; /* of growth in bytes, whatever it was given in */
	uint8_t device_type;          /* c10::DeviceType; with `device` */
	int device;                   /* -1: of no single device */
	bool aside;                   /* `gpumem leaks` and `steps` show it only with --device */
	uint64_t actual;
	uint64_t reserved;     /* of peak: the most that was reserved at a time */
	uint64_t baseline;     /* of growth */
	uint64_t lines;        /* of leaks */
	uint64_t not_examined; /* of leaks: allocated after the steps, in no loop */
	/* Of leaks and steps: the device has too few steps, or, without a line that leaks, was
	 * first used after them. */
	bool outside;
	uint64_t from, to; /* of steps: the two that differ most */
};

struct gm_assert_answer {
	bool complete;                 /* the recording: as in struct gm_info */
	struct gm_assert_check *items; /* owned */
	size_t count;
};

/* What other recordings are compared with. */
struct gm_assert_baseline {
	struct gm_assert_peak {
		uint8_t type;
		int index;
		uint64_t allocated;
	} * items; /* owned */
	size_t count;
	bool complete;
};

/* The peaks of the context's log. */
struct gm_error *gm_assert_baseline(
        struct gm_context *context, struct gm_assert_baseline *ret_baseline);
void gm_assert_baseline_deinit(struct gm_assert_baseline *baseline);
/* Of the context's log. baseline: NULL, unless there is a limit of growth. */
struct gm_error *gm_ask_assert(struct gm_context *context, const struct gm_assert_limits *limits,
        const struct gm_assert_baseline *baseline, struct gm_assert_answer *ret_answer);
bool gm_assert_all_hold(const struct gm_assert_answer *answer);
void gm_assert_answer_deinit(struct gm_assert_answer *answer);

#endif
