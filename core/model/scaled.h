/* What is known of the optimizers' steps under a GradScaler: see scaling.h. */
#ifndef GM_MODEL_SCALED_H
#define GM_MODEL_SCALED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gm_scaled_outcome {
	GM_SCALED_UNKNOWN = 0,
	GM_SCALED_TAKEN,     /* the optimizer stepped */
	GM_SCALED_SKIPPED,   /* some gradient was inf or NaN: the optimizer did not step, or changed
	                        nothing */
	GM_SCALED_NOT_ASKED, /* gradients were unscaled, and GradScaler.step() was not called */
	GM_SCALED_OUTCOME_COUNT,
};

enum gm_scaled_evidence {
	GM_SCALED_BY_NOTHING = 0,
	GM_SCALED_BY_HOST_READ, /* the host read found_inf in step() */
	GM_SCALED_BY_DEVICE, /* found_inf in the simulated device's memory, for a fused optimizer */
	GM_SCALED_BY_SCALE,  /* the scale before and after, for a fused optimizer */
	GM_SCALED_BY_RANGE,  /* the range around Optimizer.step() is there, or is not */
	GM_SCALED_BY_ALLOCATIONS, /* stacks of the optimizer's allocations */
	GM_SCALED_EVIDENCE_COUNT,
};

enum { GM_SCALED_CHECKS = 8 }; /* at most; others of a call are left out */

/* One call of GradScaler.step(), or gradients that were unscaled for none. */
struct gm_scaled_step {
	uint32_t step;         /* training step; 0: none */
	uint32_t event;        /* the last event before it */
	uint32_t python_stack; /* of the read, or of the check; 0: none */
	enum gm_scaled_outcome outcome;
	enum gm_scaled_evidence evidence;
	bool on_device;     /* the optimizer is fused, and reads found_inf on the device */
	bool found_known;   /* is it known whether a gradient was inf or NaN? */
	bool found;         /* one was */
	uint32_t gradients; /* how many were checked; 0: not known */
	/* Numbers of its checks in the log, one for each device that has gradients. */
	uint32_t checks[GM_SCALED_CHECKS];
	uint32_t check_count;
};

/* One call of GradScaler.update(). */
struct gm_scale_update {
	uint32_t step, event;
	double growth_factor, backoff_factor, growth_interval;
	bool scale_known, tracker_known; /* after it */
	double scale, tracker;
};

struct gm_scaling {
	bool recorded; /* the log has the agent's records; else stacks and ranges tell */
	struct gm_scaled_step *steps;
	size_t step_count;
	struct gm_scale_update *updates;
	size_t update_count;
};

#endif
