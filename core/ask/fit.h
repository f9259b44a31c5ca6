/*
 * The largest value with which a program still fits a device: bisection over runs.
 *
 * It rests on one assumption, that more never needs less: where a value fits, every smaller one
 * does. What a run is, is the caller's. This part knows nothing of programs or devices.
 */
#ifndef GM_ASK_FIT_H
#define GM_ASK_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct gm_fit_run {
	int64_t value;
	bool fits;
	uint64_t peak_reserved, peak_allocated; /* bytes, of the device that used most */
	double seconds;
};

/* Runs once; an error stops the search: it is not about memory. */
typedef struct gm_error *gm_fit_try(void *data, int64_t value, struct gm_fit_run *ret);

struct gm_fit {
	int64_t from, to; /* inclusive */
	bool any;         /* one fits; then `largest` is it */
	int64_t largest;
	struct gm_fit_run runs[72]; /* in the order in which they ran */
	unsigned count;
};

/* from <= to. What ran is in *fit also where an error is returned. */
struct gm_error *gm_fit_search(struct gm_fit *fit, gm_fit_try *run, void *data);

#endif
