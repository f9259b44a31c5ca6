/* What is known of mixed precision in a recording: see ask/amp.h. */
#ifndef GM_ASK_AMP_FACTS_H
#define GM_ASK_AMP_FACTS_H

#include "ask/recording/cause.h"
#include "ask/recording/operator.h"
#include "model/scaling.h"

enum gm_amp_outcome {
	GM_AMP_STEP_UNKNOWN = 0,
	GM_AMP_STEP_TAKEN,     /* every optimizer that was asked stepped */
	GM_AMP_STEP_SKIPPED,   /* none did: no parameter and no moment changed */
	GM_AMP_STEP_PARTLY,    /* some did and others were skipped */
	GM_AMP_STEP_NOT_ASKED, /* no optimizer was asked to step */
	GM_AMP_OUTCOME_COUNT,
};

/* A training step. */
struct gm_amp_step {
	uint32_t step;
	enum gm_amp_outcome outcome;
	enum gm_scaled_evidence evidence; /* of the first of its calls that decided */
	uint32_t calls, skipped;          /* of GradScaler.step() */
	uint32_t first_call; /* in gm_amp.scaling.steps; calls of a step follow one another */
	const struct gm_scale_update *update; /* the last of the step; NULL: none */
};

/* How the memory of a tensor ended. */
enum gm_amp_end {
	GM_AMP_KEPT = 0,  /* it did not, in the recording */
	GM_AMP_BY_CACHE,  /* autocast was left, and its cache was cleared */
	GM_AMP_BY_GRAPH,  /* backward had used what the graph had saved */
	GM_AMP_BY_OTHERS, /* anything else */
	GM_AMP_END_COUNT,
};

/* A parameter that autocast copied. */
struct gm_amp_parameter {
	uint32_t block;
	uint32_t first_copy, last_copy; /* blocks */
	uint32_t copies;
	uint64_t copy_bytes; /* of one */
	uint32_t ends[GM_AMP_END_COUNT];
};

/* Gradients of one shape that backward made in half precision, and converted. */
struct gm_amp_gradients {
	uint32_t tensor; /* the log's description of the float32 gradient */
	uint32_t count;
	uint32_t first_half, first_full; /* blocks; the half may be GM_NO_BLOCK: not found */
	char operator[GM_OPERATOR_MAX], node[GM_OPERATOR_MAX]; /* of the half; "": not known */
	char full_operator[GM_OPERATOR_MAX], full_node[GM_OPERATOR_MAX];
};

/* Gradients that one step kept and that one statement released. */
struct gm_amp_release {
	uint32_t step;        /* whose backward made them */
	uint32_t released;    /* step; 0: in none */
	bool never;           /* they are there at the end of the recording */
	uint32_t first, last; /* events of their release */
	uint64_t blocks, bytes;
	enum gm_cause_kind cause;
	struct gm_frame_place statement; /* of the user's; code 0: not known */
	bool by_zero_grad; /* Optimizer.zero_grad() or Module.zero_grad() is on the stack */
	enum gm_phase before, after; /* phases around the release in its step */
};

/* A gradient that was not finite when it was checked. */
struct gm_amp_gradient {
	uint32_t check;        /* number */
	uint32_t index, count; /* its place in the list of the check, from 0; of how many */
	uint32_t dtype;        /* c10::ScalarType */
	uint64_t address;      /* of its data */
	uint64_t elements, not_finite, nan;
	uint32_t block;   /* that begins there; GM_NO_BLOCK: it is within one, or that is not known
	                   */
	const char *name; /* NULL: not known; the log's */
};

/* What is known of the gradients of a call of GradScaler.step(). */
struct gm_amp_looked {
	bool looked; /* the values of some could be read; false: of none */
	uint64_t gradients, read, not_finite;
	size_t first, count; /* in gm_amp.not_finite */
	bool ordered; /* they are in the order in which backward made them; else in the scaler's */
};

struct gm_amp_bytes {
	uint32_t event; /* the device's peak */
	uint64_t allocated;
	uint64_t half;    /* float16 and bfloat16 */
	uint64_t copies;  /* of it autocast's copies of parameters */
	uint64_t unknown; /* whose dtype is not known */
	uint64_t full;    /* estimate of `allocated` in float32 */
};

struct gm_amp {
	const struct gm_model *model;
	size_t device;  /* SIZE_MAX: no events */
	bool truncated; /* not all gradients' releases are listed */
	struct gm_scaling scaling;
	bool autocast; /* autocast cast something */
	bool has_tensors, has_casts;
	uint64_t casts[2]; /* by autocast, to float16 and to bfloat16 */
	uint8_t *copies;   /* by block: it is autocast's copy of a parameter; owned, as all arrays
	                      here */
	struct gm_amp_step *steps;
	size_t step_count;
	/* the optimizer's state: `state_blocks` 0: none was made */
	uint64_t state_bytes, state_blocks;
	uint32_t state_first, state_last, state_step; /* events; step of the first */
	uint64_t parameter_bytes, parameter_blocks;
	struct gm_amp_parameter *parameters;
	size_t parameter_count;
	struct gm_amp_gradients *gradients;
	size_t gradient_count;
	struct gm_amp_release *releases;
	size_t release_count;
	struct gm_amp_bytes bytes;
	struct gm_amp_looked *looked; /* of each of scaling.steps */
	struct gm_amp_gradient *not_finite;
};

#endif
