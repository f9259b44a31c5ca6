/*
 * Results of GradScaler's checks, from the agent's records. A check (unscale_()) waits for its
 * outcome: the host's read of its found_inf in GradScaler.step(), or the update() of the scale,
 * before which all optimizers of the iteration have been stepped. A check without a read belongs to
 * a fused optimizer if a range of an Optimizer.step() follows that no read explains; otherwise
 * nobody called GradScaler.step().
 *
 * Gradients of one optimizer on several devices have one found_inf on each, and step() adds up the
 * values that it reads. Two optimizers that are stepped on the same line also give two reads. A
 * read of 0 after which the optimizer does not step, as its range shows, is one of several that are
 * added up.
 */
#include "model/scaling.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "base/search.h"
#include "base/text.h"
#include "model/marks.h"
#include "model/phase.h"
#include "model/scaling_stacks.h"

const char *gm_scaled_outcome_name(enum gm_scaled_outcome outcome)
{
	static const char *const names[GM_SCALED_OUTCOME_COUNT] = {
	        "unknown", "taken", "skipped", "not_asked"};
	return names[outcome];
}

const char *gm_scaled_evidence_name(enum gm_scaled_evidence evidence)
{
	static const char *const names[GM_SCALED_EVIDENCE_COUNT] = {
	        "none", "host_read", "device_memory", "scale", "range", "allocations"};
	return names[evidence];
}

struct check {
	uint32_t number;
	uint64_t mark; /* marks of the log before it */
	bool gone;     /* a read explained it */
	struct gm_scaled_step step;
};

/* A step whose check was finished as unread may still be explained by a read that comes later. */
struct flush {
	size_t step;     /* number of the step */
	uint64_t before; /* number of the flush of the same check before it, from 1; 0: none */
};

struct finding {
	const struct gm_model *model;
	const struct gm_log *log;
	GM_ARRAY(struct check) waiting;
	struct gm_map waiting_of; /* key_of(number) -> number in `waiting`, from 1; 0: none */
	GM_ARRAY(struct gm_scaled_step) steps;
	GM_ARRAY(bool) dropped; /* of each step: a later read explains it, in a step of its own */
	GM_ARRAY(struct flush) flushes;
	struct gm_map flushed; /* key_of(number) -> its last flush, from 1; 0: none */
	GM_ARRAY(struct gm_scale_update) updates;
	GM_ARRAY(uint64_t) ranges; /* indices of the marks where an Optimizer.step() begins */
	size_t range;              /* the first that is not explained yet */
	bool no_memory;
};

/* The last event before a position between two events. */
static uint32_t event_before(const struct gm_log_amp *record)
{
	return record->event ? (uint32_t)(record->event - 1) : 0;
}

static struct gm_scaled_step begin_step(
        const struct finding *finding, const struct gm_log_amp *record)
{
	uint32_t event = event_before(record);
	return (struct gm_scaled_step){
	        .step = gm_model_step(finding->model, event),
	        .event = event,
	        .python_stack = record->python_stack,
	};
}

static void add_check(struct gm_scaled_step *step, uint32_t number)
{
	if (number && step->check_count < GM_SCALED_CHECKS)
		step->checks[step->check_count++] = number;
}

static void add_step(struct finding *finding, const struct gm_scaled_step *step)
{
	if (!gm_array_push(&finding->steps, *step) || !gm_array_push(&finding->dropped, false))
		finding->no_memory = true;
}

/* A key is not 0. */
static uint64_t key_of(uint32_t number)
{
	return (uint64_t)number + 1;
}

static struct check *find_check(struct finding *finding, uint32_t number)
{
	const uint64_t *at = gm_map_find(&finding->waiting_of, key_of(number));
	return at && *at ? &finding->waiting.items[*at - 1] : NULL;
}

static void forget_check(struct finding *finding, struct check *check)
{
	*gm_map_find(&finding->waiting_of, key_of(check->number)) = 0;
	check->gone = true;
}

static void take_check(struct finding *finding, const struct gm_log_amp *record)
{
	struct check *check = find_check(finding, record->number);
	if (!check) {
		const struct check fresh = {.number = record->number,
		        .mark = record->mark,
		        .step = begin_step(finding, record)};
		uint64_t *at = gm_map_put(&finding->waiting_of, key_of(record->number), NULL);
		if (!at || !gm_array_push(&finding->waiting, fresh)) {
			finding->no_memory = true;
			return;
		}
		*at = finding->waiting.count;
		check = &finding->waiting.items[finding->waiting.count - 1];
	}
	double count = record->count > 0 ? record->values[0] : 0;
	if (count > 0 && count < 1e9)
		check->step.gradients += (uint32_t)count;
	if (record->count > 1) {
		check->step.found_known = true;
		check->step.found = record->values[1] != 0;
	}
}

/* Does GradScaler.step() read it, rather than the program itself? */
static bool is_read_by_step(const struct gm_log *log, uint32_t stack)
{
	return gm_scaling_function(log, stack, "_maybe_opt_step");
}

/* Where a check was finished as unread, because another scaler was updated first. */
static void drop_flushed(struct finding *finding, uint32_t number)
{
	uint64_t *last = gm_map_find(&finding->flushed, key_of(number));
	if (!last || !*last)
		return;
	const struct flush *flush = &finding->flushes.items[*last - 1];
	finding->dropped.items[flush->step] = true;
	*last = flush->before;
}

static void note_flush(struct finding *finding, uint32_t number)
{
	bool is_new = false;
	uint64_t *last = gm_map_put(&finding->flushed, key_of(number), &is_new);
	const struct flush flush = {
	        .step = finding->steps.count - 1, .before = last && !is_new ? *last : 0};
	if (!last || !gm_array_push(&finding->flushes, flush)) {
		finding->no_memory = true;
		return;
	}
	*last = finding->flushes.count;
}

/* The steps without those that were dropped. */
static void keep_steps(struct finding *finding)
{
	size_t kept = 0;
	for (size_t i = 0; i < finding->steps.count; i++)
		if (!finding->dropped.items[i])
			finding->steps.items[kept++] = finding->steps.items[i];
	finding->steps.count = kept;
}

/* The first range at or behind a mark that nothing has explained yet. */
static size_t range_from(const struct finding *finding, uint64_t mark)
{
	const uint64_t *ranges = finding->ranges.items;
	size_t at = gm_partition_point(finding->ranges.count, i, ranges[i] < mark);
	return at > finding->range ? at : finding->range;
}

/* Does an Optimizer.step() begin after one record and before the next one? */
static bool steps_between(const struct finding *finding, uint64_t from, uint64_t to)
{
	const uint64_t *ranges = finding->ranges.items;
	size_t count = finding->ranges.count, at = gm_partition_point(count, i, ranges[i] < from);
	return at < count && ranges[at] < to;
}

/*
 * The reads from `index` on that one call of step() adds up. Of two consecutive reads with the same
 * stack, the second belongs to another call if a step was taken in between, or if the first alone
 * decides and the second one's step is taken.
 */
static size_t count_reads(const struct finding *finding, size_t index, double *ret_sum)
{
	size_t total = gm_log_amp_count(finding->log), count = 0;
	struct gm_log_amp first, now;
	gm_log_amp(finding->log, index, &first);
	*ret_sum = 0;
	for (size_t i = index; i < total; i++) {
		gm_log_amp(finding->log, i, &now);
		if (now.kind != GM_AMP_FOUND || now.python_stack != first.python_stack ||
		        now.thread != first.thread || now.count < 1)
			break;
		struct gm_log_amp next = {.mark = UINT64_MAX};
		if (i + 1 < total)
			gm_log_amp(finding->log, i + 1, &next);
		bool taken = steps_between(finding, now.mark, next.mark);
		if (count > 0 && *ret_sum != 0 && taken)
			break; /* the sum would not be 0 */
		if (count > 0 && now.values[0] != 0 && *ret_sum != 0)
			break; /* one call or two: both were skipped */
		*ret_sum += now.values[0];
		count++;
		if (taken || !finding->ranges.count)
			break;
		if (now.values[0] == 0 && next.kind != GM_AMP_FOUND)
			break;
	}
	return count ? count : 1;
}

/* Returns how many records it took. */
static size_t take_found(struct finding *finding, size_t index, const struct gm_log_amp *record)
{
	if (record->count < 1 || !is_read_by_step(finding->log, record->python_stack))
		return 1;
	double sum;
	size_t count = count_reads(finding, index, &sum);
	struct gm_scaled_step step = begin_step(finding, record);
	for (size_t i = 0; i < count; i++) {
		struct gm_log_amp one;
		gm_log_amp(finding->log, index + i, &one);
		struct check *check = find_check(finding, one.number);
		add_check(&step, one.number);
		if (check) {
			step.gradients += check->step.gradients;
			forget_check(finding, check);
		} else {
			drop_flushed(finding, one.number);
		}
	}
	step.outcome = sum != 0 ? GM_SCALED_SKIPPED : GM_SCALED_TAKEN;
	step.evidence = GM_SCALED_BY_HOST_READ;
	step.found_known = true;
	step.found = sum != 0;
	/* its range, so that it is not taken for another one's */
	size_t own = range_from(finding, record->mark);
	if (step.outcome == GM_SCALED_TAKEN && own < finding->ranges.count)
		finding->range = own + 1;
	add_step(finding, &step);
	return count;
}

/* The remaining ones do not wait for a read any more: the scale is updated, or the recording ends.
 * */
static void finish_remaining(struct finding *finding, uint64_t mark, bool ended)
{
	for (size_t i = 0; i < finding->waiting.count; i++) {
		const struct check *check = &finding->waiting.items[i];
		struct gm_scaled_step step = check->step;
		size_t own = range_from(finding, check->mark);
		bool stepped = own < finding->ranges.count && finding->ranges.items[own] < mark;
		if (check->gone)
			continue;
		if (stepped)
			finding->range = own + 1;
		step.on_device = stepped;
		if (stepped && step.found_known) {
			step.outcome = step.found ? GM_SCALED_SKIPPED : GM_SCALED_TAKEN;
			step.evidence = GM_SCALED_BY_DEVICE;
		} else if (!stepped && !ended && finding->ranges.count) {
			step.outcome = GM_SCALED_NOT_ASKED;
			step.evidence = GM_SCALED_BY_RANGE;
		}
		add_check(&step, check->number);
		add_step(finding, &step);
		if (!finding->no_memory && step.outcome != GM_SCALED_TAKEN)
			note_flush(finding, check->number);
	}
	finding->waiting.count = 0;
	gm_map_deinit(&finding->waiting_of);
}

static void take_update(struct finding *finding, const struct gm_log_amp *record)
{
	if (record->count < 3)
		return;
	uint32_t event = event_before(record);
	struct gm_scale_update update = {.step = gm_model_step(finding->model, event),
	        .event = event,
	        .growth_factor = record->values[0],
	        .backoff_factor = record->values[1],
	        .growth_interval = record->values[2]};
	if (record->count > 3) {
		update.scale_known = true;
		update.scale = record->values[3];
	}
	if (record->count > 4) {
		update.tracker_known = true;
		update.tracker = record->values[4];
	}
	finish_remaining(finding, record->mark, false);
	if (!gm_array_push(&finding->updates, update))
		finding->no_memory = true;
}

/* --- from the scale --------------------------------------------------------------------------- */

struct reading {
	bool known;
	double scale;
};

/* The steps by their events. */
struct by_event {
	uint32_t event, step; /* step: the number of one */
};

static int compare(const void *a, const void *b)
{
	const struct by_event *x = a, *y = b;
	return (x->event > y->event) - (x->event < y->event);
}

/* The check of an update, by the update's number from 0, if it is of one step only; otherwise NULL.
 * */
static struct gm_scaled_step *only_step_of(
        struct finding *finding, const struct by_event *sorted, size_t update)
{
	const struct gm_scale_update *updates = finding->updates.items;
	size_t count = finding->steps.count, end, first = 0;
	if (update)
		first = gm_partition_point(count, i, sorted[i].event <= updates[update - 1].event);
	end = gm_partition_point(count, i, sorted[i].event <= updates[update].event);
	return end == first + 1 ? &finding->steps.items[sorted[first].step] : NULL;
}

/* The program read the scale after an update, and `before` after the previous one. */
static void infer_from_update(struct finding *finding, const struct by_event *sorted, size_t number,
        struct reading before, double scale)
{
	struct gm_scale_update *update = &finding->updates.items[number];
	struct gm_scaled_step *one = before.known ? only_step_of(finding, sorted, number) : NULL;
	if (one && one->on_device && one->outcome == GM_SCALED_UNKNOWN) {
		one->found_known = true;
		one->found = scale < before.scale;
		one->outcome = one->found ? GM_SCALED_SKIPPED : GM_SCALED_TAKEN;
		one->evidence = GM_SCALED_BY_SCALE;
	}
	if (!update->scale_known) {
		update->scale_known = true;
		update->scale = scale;
	}
}

/*
 * A fused optimizer on a device whose memory is not the host's: the scale decreased at the update
 * after the check, or it did not, if the program read it before and after (get_scale()). Only if
 * the update follows one check.
 */
static void infer_from_scale(struct finding *finding)
{
	struct reading before = {0};
	size_t count = finding->steps.count, updates = 0;
	struct by_event *sorted = malloc((count + 1) * sizeof(*sorted));
	struct gm_log_amp record;
	bool pending = false;
	if (!sorted) {
		finding->no_memory = true;
		return;
	}
	for (size_t i = 0; i < count; i++)
		sorted[i] = (struct by_event){finding->steps.items[i].event, (uint32_t)i};
	qsort(sorted, count, sizeof(*sorted), compare);
	for (size_t i = 0; i < gm_log_amp_count(finding->log); i++) {
		gm_log_amp(finding->log, i, &record);
		if (record.kind == GM_AMP_UPDATE && record.count >= 3) {
			if (pending)
				before.known = false; /* nobody read it between two updates */
			pending = true;
			updates++;
		} else if (record.kind == GM_AMP_SCALE && record.count > 0) {
			if (pending && updates <= finding->updates.count)
				infer_from_update(
				        finding, sorted, updates - 1, before, record.values[0]);
			before = (struct reading){true, record.values[0]};
			pending = false;
		}
	}
	free(sorted);
}

/* ---- all of it ---- */

static void find_ranges(struct finding *finding)
{
	for (size_t i = 0; i < gm_log_mark_count(finding->log); i++) {
		struct gm_log_mark mark;
		gm_log_mark(finding->log, i, &mark);
		if (gm_marks_begins_optimizer_step(finding->log, &mark) &&
		        !gm_array_push(&finding->ranges, (uint64_t)i))
			finding->no_memory = true;
	}
}

static bool has_records(const struct gm_log *log)
{
	struct gm_log_amp record;
	for (size_t i = 0; i < gm_log_amp_count(log); i++) {
		gm_log_amp(log, i, &record);
		if (record.kind == GM_AMP_CHECK)
			return true;
	}
	return false;
}

struct gm_error *gm_scaling_find(const struct gm_model *model, struct gm_scaling *ret_scaling)
{
	struct finding finding = {.model = model, .log = gm_model_log(model)};
	if (!has_records(finding.log))
		return gm_scaling_find_by_stacks(model, ret_scaling);
	find_ranges(&finding);
	size_t count = gm_log_amp_count(finding.log);
	for (size_t i = 0; i < count && !finding.no_memory;) {
		struct gm_log_amp record;
		gm_log_amp(finding.log, i, &record);
		size_t taken = 1;
		if (record.kind == GM_AMP_CHECK)
			take_check(&finding, &record);
		else if (record.kind == GM_AMP_FOUND)
			taken = take_found(&finding, i, &record);
		else if (record.kind == GM_AMP_UPDATE)
			take_update(&finding, &record);
		i += taken;
	}
	finish_remaining(&finding, UINT64_MAX, true);
	if (!finding.no_memory) {
		keep_steps(&finding);
		infer_from_scale(&finding);
	}
	gm_array_deinit(&finding.waiting);
	gm_map_deinit(&finding.flushed);
	gm_array_deinit(&finding.flushes);
	gm_array_deinit(&finding.dropped);
	gm_array_deinit(&finding.ranges);
	*ret_scaling = (struct gm_scaling){.recorded = true,
	        .steps = finding.steps.items,
	        .step_count = finding.steps.count,
	        .updates = finding.updates.items,
	        .update_count = finding.updates.count};
	if (!finding.no_memory)
		return NULL;
	gm_scaling_deinit(ret_scaling);
	return &gm_error_no_memory;
}

void gm_scaling_deinit(struct gm_scaling *scaling)
{
	free(scaling->steps);
	free(scaling->updates);
	*scaling = (struct gm_scaling){0};
}
