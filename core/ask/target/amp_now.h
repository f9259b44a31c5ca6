/*
 * Mixed precision of a process or a core: its GradScalers and what its optimizers hold, from
 * Python's objects. Values of tensors are read where their memory is the host's and nothing writes
 * to it behind the host's back: on the CPU, and on a simulated device. Of another device they are
 * unknown.
 */
#ifndef GM_ASK_AMP_NOW_H
#define GM_ASK_AMP_NOW_H

#include <stddef.h>
#include <stdint.h>

#include "ask/context.h"

enum { GM_AMP_NOW_MAX = 16, GM_AMP_NOW_DTYPES = 8 };

struct gm_amp_value {
	bool known;
	double value;
};

struct gm_amp_scaler {
	uint64_t object;
	struct gm_amp_value enabled, growth_factor, backoff_factor, growth_interval;
	struct gm_amp_value init_scale; /* what the scale begins with */
	bool has_scale;                 /* the tensor is there: made at the first scale() */
	struct gm_amp_value scale, tracker;
	uint32_t checks; /* found_inf tensors of this iteration; `found` of the first ones */
	struct gm_amp_value found[GM_AMP_NOW_MAX];
};

/* DeepSpeed's own scaler (deepspeed/runtime/fp16/loss_scaler.py): its numbers are Python's. */
struct gm_amp_loss_scaler {
	uint64_t object;
	const char *class; /* "DynamicLossScaler" */
	struct gm_amp_value scale, iterations;
	struct gm_amp_value last_overflow; /* an iteration, from 0; below 0: none */
	struct gm_amp_value factor, window;
};

/* A DeepSpeedEngine: how many steps its optimizer was asked for, and how many it skipped. */
struct gm_amp_engine {
	uint64_t object;
	struct gm_amp_value steps, skipped;
};

/* What an optimizer's tensors of one dtype come to. */
struct gm_amp_dtype {
	const char *dtype;
	uint64_t tensors, elements;
};

struct gm_amp_optimizer {
	uint64_t object;
	const char *class;
	uint64_t parameters, with_state; /* how many parameters have state: moments */
	struct gm_amp_dtype dtypes[GM_AMP_NOW_DTYPES], gradients[GM_AMP_NOW_DTYPES];
};

struct gm_amp_now {
	struct gm_amp_scaler scalers[GM_AMP_NOW_MAX];
	size_t scaler_count; /* of all; the first ones are there */
	struct gm_amp_loss_scaler loss_scalers[GM_AMP_NOW_MAX];
	size_t loss_scaler_count;
	struct gm_amp_engine engines[GM_AMP_NOW_MAX];
	size_t engine_count;
	struct gm_amp_optimizer optimizers[GM_AMP_NOW_MAX];
	size_t optimizer_count;
};

struct gm_error *gm_ask_amp_now(struct gm_context *context, struct gm_amp_now **ret_now);

#endif
