#include "ask/assert.h"

#include <stdlib.h>

#include "ask/info.h"
#include "ask/leaks.h"
#include "ask/steps.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "model/model.h"
#include "torch/torch.h"

enum { PERCENT = 10000 };

struct checks {
	GM_ARRAY(struct gm_assert_check) list;
	const struct gm_assert_limits *limits;
	bool complete;
	bool only_open; /* that it is not closed is all that is known to be missing */
	/* what is missing is missing only on devices whose allocator's own figures were recorded */
	bool complete_peaks;
};

static bool within(const struct gm_assert_limit *limit, uint64_t actual)
{
	return limit->strict ? actual < limit->bytes : actual <= limit->bytes;
}

/* A recording that began late lacks blocks, but each event has the allocator's own figure. */
static uint64_t peak_of(const struct gm_model_device *device)
{
	return device->reported_peak_allocated > device->peak.allocated
	               ? device->reported_peak_allocated
	               : device->peak.allocated;
}

static uint64_t reserved_peak_of(const struct gm_model_device *device)
{
	return device->reported_peak_reserved > device->peak.reserved
	               ? device->reported_peak_reserved
	               : device->peak.reserved;
}

/* Are blocks that the allocator's own figures include the only data that is missing? What has not
 * ended may still have a higher peak. */
static bool has_peaks(const struct gm_info *info)
{
	if (!info->closed)
		return false;
	for (size_t i = 0; i < info->gap_count; i++)
		if (!info->gaps[i].device || !gm_reports_allocated(info->gaps[i].device))
			return false;
	return true;
}

/* More than the limit was recorded. That is certain, whatever data is missing. */
static struct gm_error *add(struct checks *checks, struct gm_assert_check check)
{
	bool of_peaks = check.kind == GM_ASSERT_PEAK || check.kind == GM_ASSERT_GROWTH;
	bool complete = of_peaks ? checks->complete_peaks : checks->complete;
	if (!check.reason && !within(&check.limit, check.actual))
		check.verdict = GM_ASSERT_FAILS;
	else if (!check.reason && !complete && !checks->limits->gaps_allowed)
		check.reason = checks->only_open ? GM_ASSERT_NOT_CLOSED : GM_ASSERT_INCOMPLETE;
	if (check.reason)
		check.verdict = GM_ASSERT_UNKNOWN;
	return gm_array_push(&checks->list, check) ? NULL : &gm_error_no_memory;
}

static bool is_asked(const struct gm_assert_limits *limits, const struct gm_model *model, size_t i)
{
	const struct gm_model_device *device = gm_model_device(model, i);
	if (limits->device >= 0)
		return i == gm_model_accelerator(model, (uint64_t)limits->device);
	return device->events > 0 &&
	       (i == gm_model_main_device(model) || gm_device_is_accelerator(device->type));
}

static const struct gm_assert_peak *find_peak(
        const struct gm_assert_baseline *baseline, const struct gm_model_device *device)
{
	for (size_t i = 0; i < baseline->count; i++)
		if (baseline->items[i].type == device->type &&
		        baseline->items[i].index == device->index)
			return &baseline->items[i];
	return NULL;
}

static struct gm_error *check_growth(struct checks *checks, const struct gm_model_device *device,
        const struct gm_assert_baseline *baseline)
{
	struct gm_assert_check check = {
	        .kind = GM_ASSERT_GROWTH,
	        .limit = checks->limits->of[GM_ASSERT_GROWTH],
	        .device_type = device->type,
	        .device = device->index,
	};
	const struct gm_assert_peak *before = find_peak(baseline, device);
	if (!before || (!baseline->complete && !checks->limits->gaps_allowed)) {
		check.reason = GM_ASSERT_NO_BASELINE;
		return add(checks, check);
	}
	check.baseline = before->allocated;
	if (check.limit.percent)
		check.limit.bytes =
		        (uint64_t)((double)before->allocated * (double)check.limit.bytes / PERCENT);
	if (peak_of(device) > before->allocated)
		check.actual = peak_of(device) - before->allocated;
	return add(checks, check);
}

/* Does the recording say nothing about what was asked? A check of errors needs no device. */
static struct gm_error *add_no_events(struct checks *checks)
{
	const struct gm_assert_limits *limits = checks->limits;
	for (int kind = GM_ASSERT_PEAK; kind <= GM_ASSERT_STEPS; kind++)
		if (limits->of[kind].set)
			gm_try(add(checks, (struct gm_assert_check){
			                           .kind = (enum gm_assert_kind)kind,
			                           .reason = GM_ASSERT_NO_EVENTS,
			                           .limit = limits->of[kind],
			                           .device_type = GM_DEVICE_CUDA,
			                           .device = limits->device,
			                   }));
	return NULL;
}

static struct gm_error *check_devices(struct checks *checks, const struct gm_model *model,
        const struct gm_assert_baseline *baseline)
{
	const struct gm_assert_limits *limits = checks->limits;
	size_t found = 0;
	uint64_t errors = 0;
	for (size_t i = 0; i < gm_model_device_count(model); i++) {
		const struct gm_model_device *device = gm_model_device(model, i);
		if (!is_asked(limits, model, i))
			continue;
		found++;
		errors += device->ooms;
		if (limits->of[GM_ASSERT_PEAK].set)
			gm_try(add(checks, (struct gm_assert_check){
			                           .kind = GM_ASSERT_PEAK,
			                           .limit = limits->of[GM_ASSERT_PEAK],
			                           .device_type = device->type,
			                           .device = device->index,
			                           .actual = peak_of(device),
			                           .reserved = reserved_peak_of(device),
			                   }));
		if (limits->of[GM_ASSERT_GROWTH].set)
			gm_try(check_growth(checks, device, baseline));
	}
	if (!found)
		gm_try(add_no_events(checks));
	if (!limits->of[GM_ASSERT_OOM].set)
		return NULL;
	return add(checks, (struct gm_assert_check){
	                           .kind = GM_ASSERT_OOM,
	                           .limit = limits->of[GM_ASSERT_OOM],
	                           .device = -1,
	                           .actual = errors,
	                   });
}

/* What was allocated after the steps and may be a leak, as no loop shows that it is none. */
static uint64_t not_examined(const struct gm_leaks *leaks)
{
	uint64_t at_peak = leaks->later_bytes - leaks->later_released;
	return leaks->later_kept > at_peak ? leaks->later_kept : at_peak;
}

static struct gm_error *check_leaks(struct checks *checks, struct gm_context *context,
        const struct gm_model *model, size_t number)
{
	const struct gm_model_device *device = gm_model_device(model, number);
	struct gm_leaks leaks;
	struct gm_assert_check check = {.kind = GM_ASSERT_LEAKS,
	        .limit = checks->limits->of[GM_ASSERT_LEAKS],
	        .device_type = device->type,
	        .device = device->index,
	        .aside = number != gm_model_main_device(model)};
	gm_try(gm_ask_leaks_of(context, number, &leaks));
	for (size_t i = 0; i < leaks.count; i++)
		check.actual += leaks.items[i].bytes;
	check.lines = leaks.count;
	if (leaks.later_matters)
		check.not_examined = not_examined(&leaks);
	/* further loops may show that a line leaks; there are few */
	if (leaks.from > leaks.to && !leaks.count)
		check.reason = GM_ASSERT_TOO_FEW_STEPS;
	else if (within(&check.limit, check.actual) &&
	         !within(&check.limit, check.actual + check.not_examined))
		check.reason = GM_ASSERT_NOT_EXAMINED;
	check.outside = leaks.later_once && !leaks.count;
	gm_leaks_deinit(&leaks);
	return add(checks, check);
}

/* Where the figures of the steps differ most. */
static uint64_t spread(const struct gm_stretch *steps, size_t count, bool ends, uint64_t *ret_low,
        uint64_t *ret_high)
{
	uint64_t low = UINT64_MAX, high = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t figure = ends ? steps[i].end : steps[i].peak;
		if (steps[i].step < 2)
			continue;
		if (figure < low) {
			low = figure;
			*ret_low = steps[i].step;
		}
		if (figure > high) {
			high = figure;
			*ret_high = steps[i].step;
		}
	}
	return high > low ? high - low : 0;
}

/* The first step creates the optimizer's state and workspaces, so it is not compared. */
static struct gm_error *check_steps(struct checks *checks, struct gm_context *context,
        const struct gm_model *model, size_t number)
{
	const struct gm_model_device *device = gm_model_device(model, number);
	struct gm_steps_answer steps;
	struct gm_assert_check check = {.kind = GM_ASSERT_STEPS,
	        .limit = checks->limits->of[GM_ASSERT_STEPS],
	        .device_type = device->type,
	        .device = device->index,
	        .aside = number != gm_model_main_device(model)};
	gm_try(gm_ask_steps_of(context, number, &steps));
	size_t compared = 0;
	for (size_t i = 0; i < steps.step_count; i++)
		compared += steps.steps[i].step >= 2;
	if (compared < 2) {
		check.reason = GM_ASSERT_TOO_FEW_STEPS;
	} else {
		uint64_t low, high;
		uint64_t peaks =
		        spread(steps.steps, steps.step_count, false, &check.from, &check.to);
		uint64_t ends = spread(steps.steps, steps.step_count, true, &low, &high);
		check.actual = peaks;
		if (ends > peaks) {
			check.actual = ends;
			check.from = low;
			check.to = high;
		}
	}
	gm_steps_answer_deinit(&steps);
	check.outside = check.reason == GM_ASSERT_TOO_FEW_STEPS;
	return add(checks, check);
}

/* A device that only a part of the program uses, such as one that is first used after the steps,
 * has nothing to compare from step to step. It is left out, unless somebody asks about it, or no
 * other device has more. */
static void leave_out_outside(struct checks *checks, enum gm_assert_kind kind)
{
	bool some_inside = false;
	size_t kept = 0;
	for (size_t i = 0; i < checks->list.count; i++)
		some_inside |= checks->list.items[i].kind == kind && !checks->list.items[i].outside;
	if (checks->limits->device >= 0 || !some_inside)
		return;
	for (size_t i = 0; i < checks->list.count; i++)
		if (checks->list.items[i].kind != kind || !checks->list.items[i].outside)
			checks->list.items[kept++] = checks->list.items[i];
	checks->list.count = kept;
}

static struct gm_error *check_each(struct checks *checks, struct gm_context *context,
        const struct gm_model *model, enum gm_assert_kind kind,
        struct gm_error *(*check)(
                struct checks *, struct gm_context *, const struct gm_model *, size_t))
{
	if (!checks->limits->of[kind].set)
		return NULL;
	for (size_t i = 0; i < gm_model_device_count(model); i++)
		if (is_asked(checks->limits, model, i))
			gm_try(check(checks, context, model, i));
	leave_out_outside(checks, kind);
	return NULL;
}

static struct gm_error *check_all(struct checks *checks, struct gm_context *context,
        const struct gm_assert_baseline *baseline)
{
	struct gm_info info;
	gm_try(gm_ask_info(context, &info));
	checks->complete = info.complete;
	checks->only_open = !info.closed && !info.gap_count;
	checks->complete_peaks = has_peaks(&info);
	struct gm_error *error = check_devices(checks, info.model, baseline);
	if (!error)
		error = check_each(checks, context, info.model, GM_ASSERT_LEAKS, check_leaks);
	if (!error)
		error = check_each(checks, context, info.model, GM_ASSERT_STEPS, check_steps);
	gm_info_deinit(&info);
	return error;
}

/* No figure is less than 0. */
static struct gm_error *refuse_impossible(const struct gm_assert_limits *limits)
{
	for (int kind = 0; kind < GM_ASSERT_KINDS; kind++)
		if (limits->of[kind].set && limits->of[kind].strict && !limits->of[kind].bytes)
			return gm_error_create(GM_USAGE, "assert: a limit of less than 0 can never "
			                                 "hold: give 0, or one such as '<20GiB'");
	return NULL;
}

struct gm_error *gm_ask_assert(struct gm_context *context, const struct gm_assert_limits *limits,
        const struct gm_assert_baseline *baseline, struct gm_assert_answer *ret_answer)
{
	gm_try(refuse_impossible(limits));
	struct checks checks = {.limits = limits};
	struct gm_error *error = check_all(&checks, context, baseline);
	if (error) {
		gm_array_deinit(&checks.list);
		return error;
	}
	*ret_answer = (struct gm_assert_answer){
	        .complete = checks.complete,
	        .items = checks.list.items,
	        .count = checks.list.count,
	};
	return NULL;
}

bool gm_assert_all_hold(const struct gm_assert_answer *answer)
{
	for (size_t i = 0; i < answer->count; i++)
		if (answer->items[i].verdict != GM_ASSERT_HOLDS)
			return false;
	return true;
}

void gm_assert_answer_deinit(struct gm_assert_answer *answer)
{
	free(answer->items);
	*answer = (struct gm_assert_answer){0};
}

struct gm_error *gm_assert_baseline(
        struct gm_context *context, struct gm_assert_baseline *ret_baseline)
{
	struct gm_info info;
	GM_ARRAY(struct gm_assert_peak) peaks = {0};
	gm_try(gm_ask_info(context, &info));
	bool good = true;
	for (size_t i = 0; i < gm_model_device_count(info.model) && good; i++) {
		const struct gm_model_device *device = gm_model_device(info.model, i);
		struct gm_assert_peak peak = {device->type, device->index, peak_of(device)};
		good = !device->events || gm_array_push(&peaks, peak);
	}
	*ret_baseline = (struct gm_assert_baseline){peaks.items, peaks.count, has_peaks(&info)};
	gm_info_deinit(&info);
	if (!good)
		gm_assert_baseline_deinit(ret_baseline);
	return good ? NULL : &gm_error_no_memory;
}

void gm_assert_baseline_deinit(struct gm_assert_baseline *baseline)
{
	free(baseline->items);
	*baseline = (struct gm_assert_baseline){0};
}
