/*
 * Gradients that were inf or NaN. The agent examined the values where it could (agent/
 * gradients.c), and recorded for each its position in the scaler's list and its address.
 *
 * Which was first: backward creates a gradient when it reaches the parameter, in a block of its
 * own. So the order of their allocations is the order in which they became inf or NaN, if all were
 * created in this step and by one backward pass. If backward adds to gradients of an earlier pass,
 * or they are in one buffer, the order is not known.
 *
 * Names: gradient names were read at one moment of the program, and the gradients of other steps
 * are other blocks. The scaler passes the gradients of an optimizer in the same order in each step,
 * so the gradient at the same position in the last check before that moment has the same name. If
 * one iteration has two checks in which a position means different gradients, for example of two
 * optimizers with the same number of parameters, there is no name.
 */
#include "ask/recording/amp_gradients.h"

#include <stdlib.h>
#include <string.h>

#include "ask/recording/by_address.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/search.h"

/* ---- records ---- */

static bool are_numbers(const struct gm_log_amp *record)
{
	for (uint32_t i = 0; i < record->count; i++)
		if (!(record->values[i] >= 0 && record->values[i] < 9007199254740992.0)) /* 2^53 */
			return false;
	return true;
}

/* Was it examined? Otherwise the record only identifies the gradient. */
static bool has_counts(const struct gm_log_amp *record)
{
	return record->count >= 7;
}

/* Without its block and its name. False: this is not a gradient, or the record is damaged. */
static bool read_gradient(const struct gm_log_amp *record, struct gm_amp_gradient *ret_gradient)
{
	const double *values = record->values;
	if (record->kind != GM_AMP_GRADIENT || record->count < 5 || !are_numbers(record) ||
	        values[0] > UINT32_MAX || values[1] > UINT32_MAX || values[4] > UINT32_MAX)
		return false;
	*ret_gradient = (struct gm_amp_gradient){.check = record->number,
	        .index = (uint32_t)values[0],
	        .count = (uint32_t)values[1],
	        .dtype = (uint32_t)values[4],
	        .address = (uint64_t)values[2],
	        .elements = (uint64_t)values[3],
	        .not_finite = has_counts(record) ? (uint64_t)values[5] : 0,
	        .nan = has_counts(record) ? (uint64_t)values[6] : 0,
	        .block = GM_NO_BLOCK};
	return true;
}

/* ---- names ---- */

/* The name for a position in the scaler's list. */
struct place {
	struct gm_amp_gradient gradient;
	uint64_t updates; /* of the previous change of scale: identifies the iteration */
	bool ambiguous;
};

struct names {
	GM_ARRAY(struct place) places;
	GM_ARRAY(struct gm_log_name) gradients; /* by the address of their data */
};

static int by_place(const void *a, const void *b)
{
	const struct gm_amp_gradient *x = &((const struct place *)a)->gradient,
	                             *y = &((const struct place *)b)->gradient;
	if (x->count != y->count)
		return x->count < y->count ? -1 : 1;
	if (x->dtype != y->dtype)
		return x->dtype < y->dtype ? -1 : 1;
	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	return (x->elements > y->elements) - (x->elements < y->elements);
}

/* Among equal positions, the newest comes first. */
static int by_place_and_age(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int order = by_place(a, b);
	return order ? order : (x->updates < y->updates) - (x->updates > y->updates);
}

static int by_data(const void *a, const void *b)
{
	const struct gm_log_name *x = a, *y = b;
	uint64_t first = x->address + x->offset, second = y->address + y->offset;
	return (first > second) - (first < second);
}

/* Keeps one for each position: the newest, with a flag if it is ambiguous. */
static void keep_newest(struct names *names)
{
	size_t kept = 0;
	if (names->places.count)
		qsort(names->places.items, names->places.count, sizeof(*names->places.items),
		        by_place_and_age);
	for (size_t i = 0; i < names->places.count; i++) {
		struct place *place = &names->places.items[i];
		struct place *newest = kept ? &names->places.items[kept - 1] : NULL;
		if (!newest || by_place(newest, place) != 0)
			names->places.items[kept++] = *place;
		else if (newest->updates == place->updates &&
		         newest->gradient.check != place->gradient.check)
			newest->ambiguous = true;
	}
	names->places.count = kept;
}

static bool read_names(struct names *names, const struct gm_log *log)
{
	uint64_t updates = 0, moment = 0;
	for (size_t i = 0; i < gm_log_name_count(log); i++) {
		struct gm_log_name name;
		gm_log_name(log, i, &name);
		if (name.kind != GM_NAMED_GRADIENT)
			continue;
		moment = name.event;
		if (!gm_array_push(&names->gradients, name))
			return false;
	}
	if (!names->gradients.count)
		return true;
	qsort(names->gradients.items, names->gradients.count, sizeof(*names->gradients.items),
	        by_data);
	for (size_t i = 0; i < gm_log_amp_count(log); i++) {
		struct gm_log_amp record;
		gm_log_amp(log, i, &record);
		updates += record.kind == GM_AMP_UPDATE;
		struct place place = {.updates = updates};
		if (record.event <= moment && read_gradient(&record, &place.gradient) &&
		        !gm_array_push(&names->places, place))
			return false;
	}
	keep_newest(names);
	return true;
}

static const char *name_of(
        const struct names *names, const struct gm_log *log, const struct gm_amp_gradient *gradient)
{
	const struct place wanted = {.gradient = *gradient};
	const struct place *place = names->places.count
	                                    ? bsearch(&wanted, names->places.items,
	                                              names->places.count, sizeof(wanted), by_place)
	                                    : NULL;
	if (!place || place->ambiguous)
		return NULL;
	const struct gm_log_name at = {.address = place->gradient.address},
	                         *found = bsearch(&at, names->gradients.items,
	                                 names->gradients.count, sizeof(at), by_data);
	return found ? gm_log_string(log, found->name) : NULL;
}

/* ---- the gradients ---- */

/* What was recorded of the gradients of a check, by its index in the log. */
struct seen {
	uint32_t check;
	size_t record;
};

struct finding {
	struct gm_amp *amp;
	GM_ARRAY(struct seen) seen; /* by check, and in their order within each check */
	struct gm_by_address blocks;
	struct names names;
	GM_ARRAY(struct gm_amp_gradient) items;
};

static int by_check(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;
	if (x->check != y->check)
		return x->check < y->check ? -1 : 1;
	return (x->record > y->record) - (x->record < y->record);
}

static bool find_seen(struct finding *finding)
{
	const struct gm_log *log = gm_model_log(finding->amp->model);
	for (size_t i = 0; i < gm_log_amp_count(log); i++) {
		struct gm_log_amp record;
		gm_log_amp(log, i, &record);
		struct gm_amp_gradient gradient;
		bool is_one = record.kind == GM_AMP_LOOKED
		                      ? record.count >= 3 && are_numbers(&record)
		                      : has_counts(&record) && read_gradient(&record, &gradient);
		const struct seen seen = {record.number, i};
		if (is_one && !gm_array_push(&finding->seen, seen))
			return false;
	}
	if (finding->seen.count)
		qsort(finding->seen.items, finding->seen.count, sizeof(*finding->seen.items),
		        by_check);
	return true;
}

static uint32_t made_at(const struct gm_amp *amp, const struct gm_amp_gradient *gradient)
{
	return gradient->block == GM_NO_BLOCK ? GM_NO_EVENT
	                                      : gm_model_block(amp->model, gradient->block)->alloc;
}

/* Was there a forward pass between two events? */
static bool passes_between(const struct gm_model *model, uint32_t from, uint32_t to)
{
	for (size_t i = 0; i < gm_model_run_count(model); i++) {
		const struct gm_model_run run = gm_model_run(model, i);
		if (run.first > from && run.first < to && run.phase == GM_PHASE_FORWARD)
			return true;
	}
	return false;
}

/* Is the order of their allocations the order in which they became inf or NaN? */
static bool is_ordered(const struct gm_amp *amp, const struct gm_scaled_step *step,
        const struct gm_amp_gradient *items, size_t count)
{
	uint32_t earliest = GM_NO_EVENT;
	if (count < 2)
		return true;
	for (size_t i = 0; i < count; i++) {
		uint32_t made = made_at(amp, &items[i]);
		if (made == GM_NO_EVENT || gm_model_step(amp->model, made) != step->step ||
		        gm_model_phase(amp->model, made) != GM_PHASE_BACKWARD)
			return false;
		earliest = made < earliest ? made : earliest;
	}
	return !passes_between(amp->model, earliest, step->event);
}

/* Blocks are numbered in the order of their allocations. */
static int by_block(const void *a, const void *b)
{
	const struct gm_amp_gradient *x = a, *y = b;
	return (x->block > y->block) - (x->block < y->block);
}

static bool take_gradient(struct finding *finding, const struct gm_log_amp *record)
{
	struct gm_amp_gradient gradient;
	if (!read_gradient(record, &gradient))
		return true;
	gradient.block = gm_block_at_address(&finding->blocks, gradient.address,
	        record->event < GM_NO_EVENT ? (uint32_t)record->event : GM_NO_EVENT - 1);
	gradient.name = name_of(&finding->names, gm_model_log(finding->amp->model), &gradient);
	return gm_array_push(&finding->items, gradient);
}

static bool take_check(struct finding *finding, struct gm_amp_looked *looked, uint32_t check)
{
	const struct gm_log *log = gm_model_log(finding->amp->model);
	const struct seen *seen = finding->seen.items;
	size_t count = finding->seen.count;
	for (size_t at = gm_partition_point(count, i, seen[i].check < check);
	        at < count && seen[at].check == check; at++) {
		struct gm_log_amp record;
		gm_log_amp(log, seen[at].record, &record);
		if (record.kind == GM_AMP_LOOKED) {
			looked->looked = true;
			looked->gradients += (uint64_t)record.values[0];
			looked->read += (uint64_t)record.values[1];
			looked->not_finite += (uint64_t)record.values[2];
		} else if (!take_gradient(finding, &record)) {
			return false;
		}
	}
	return true;
}

/* Those of one call of GradScaler.step(). */
static bool take_call(struct finding *finding, size_t call)
{
	const struct gm_scaled_step *step = &finding->amp->scaling.steps[call];
	struct gm_amp_looked *looked = &finding->amp->looked[call];
	looked->first = finding->items.count;
	for (uint32_t i = 0; step->found && i < step->check_count; i++)
		if (!take_check(finding, looked, step->checks[i]))
			return false;
	looked->count = finding->items.count - looked->first;
	if (!looked->count)
		return true;
	struct gm_amp_gradient *items = finding->items.items + looked->first;
	looked->ordered = looked->count == looked->not_finite &&
	                  looked->read == looked->gradients &&
	                  is_ordered(finding->amp, step, items, looked->count);
	if (looked->ordered)
		qsort(items, looked->count, sizeof(*items), by_block);
	return true;
}

struct gm_error *gm_amp_find_not_finite(struct gm_amp *amp)
{
	struct finding finding = {.amp = amp};
	amp->looked = calloc(amp->scaling.step_count + 1, sizeof(*amp->looked));
	if (!amp->looked)
		return &gm_error_no_memory;
	bool good = find_seen(&finding);
	/* most recordings have none, and then nothing needs to be sorted */
	if (good && finding.seen.count)
		good = !gm_by_address_init(
		               &finding.blocks, amp->model) && /* otherwise: out of memory */
		       read_names(&finding.names, gm_model_log(amp->model));
	for (size_t i = 0; good && finding.seen.count && i < amp->scaling.step_count; i++)
		good = take_call(&finding, i);
	gm_by_address_deinit(&finding.blocks);
	gm_array_deinit(&finding.seen);
	gm_array_deinit(&finding.names.places);
	gm_array_deinit(&finding.names.gradients);
	amp->not_finite = finding.items.items;
	return good ? NULL : &gm_error_no_memory;
}
