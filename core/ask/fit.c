#include "ask/fit.h"

#include <stddef.h>

static struct gm_error *try(
        struct gm_fit *fit, gm_fit_try *run, void *data, int64_t value, bool *ret)
{
	struct gm_fit_run *made = &fit->runs[fit->count];
	*made = (struct gm_fit_run){.value = value};
	struct gm_error *error = run(data, value, made);
	if (error)
		return error;
	fit->count++;
	*ret = made->fits;
	if (made->fits) {
		fit->any = true;
		fit->largest = value;
	}
	return NULL;
}

struct gm_error *gm_fit_search(struct gm_fit *fit, gm_fit_try *run, void *data)
{
	fit->any = false;
	fit->count = 0;
	bool fits;
	/* The ends first: the smallest tells whether the program works at all, the largest may be
	 * the answer. */
	struct gm_error *error = try(fit, run, data, fit->from, &fits);
	if (error || !fits || fit->from == fit->to)
		return error;
	error = try(fit, run, data, fit->to, &fits);
	if (error || fits)
		return error;
	int64_t low = fit->from, high = fit->to;     /* low fits, high does not */
	while ((uint64_t)high - (uint64_t)low > 1) { /* at most 64 times */
		int64_t middle = low + (int64_t)(((uint64_t)high - (uint64_t)low) / 2);
		error = try(fit, run, data, middle, &fits);
		if (error)
			return error;
		*(fits ? &low : &high) = middle;
	}
	fit->largest = low;
	return NULL;
}
