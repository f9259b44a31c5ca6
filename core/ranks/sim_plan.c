#include "ranks/sim_plan.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash.h"

enum { ODD_MOST = 8 }; /* ranks from which steps are taken; more show no period */

struct gm_rank_plan {
	struct gm_rank_plan_options options;
	uint32_t *classes;   /* of each rank that was run; 0: it was not */
	uint32_t *predicted; /* of a rank that is run for the check; 0: it is not */
	uint32_t *sources;   /* by remainder: whose sequence its ranks are inferred from */
	bool *given;         /* to be run */
	uint32_t given_count, running, checked, checking;
	uint32_t odd[ODD_MOST];
	uint32_t odd_count;
	uint32_t period;
	uint64_t random;
	uint32_t cursor;             /* with `all` */
	GM_ARRAY(uint32_t) divisors; /* of the world, less than it */
	GM_ARRAY(uint32_t) wanted;
	bool nothing; /* was wanted when it was asked last, and nothing has changed since */
	bool no_memory;
};

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

struct gm_error *gm_rank_plan_create(
        const struct gm_rank_plan_options *options, struct gm_rank_plan **ret_plan)
{
	uint32_t world = options->world;
	struct gm_rank_plan *plan = calloc(1, sizeof(*plan));
	if (!plan)
		return &gm_error_no_memory;
	*plan = (struct gm_rank_plan){.options = *options, .odd_count = 1, .period = 1};
	plan->classes = calloc(world, sizeof(*plan->classes));
	plan->predicted = calloc(world, sizeof(*plan->predicted));
	plan->sources = calloc(world, sizeof(*plan->sources));
	plan->given = calloc(world, sizeof(*plan->given));
	bool good = plan->classes && plan->predicted && plan->sources && plan->given;
	for (uint32_t i = 1; i < world && good; i++)
		if (world % i == 0)
			good = gm_array_push(&plan->divisors, i);
	if (!good) {
		gm_rank_plan_destroy(plan);
		return &gm_error_no_memory;
	}
	*ret_plan = plan;
	return NULL;
}

void gm_rank_plan_destroy(struct gm_rank_plan *plan)
{
	if (!plan)
		return;
	free(plan->classes);
	free(plan->predicted);
	free(plan->sources);
	free(plan->given);
	gm_array_deinit(&plan->divisors);
	gm_array_deinit(&plan->wanted);
	free(plan);
}

/* --- what is known ---------------------------------------------------------------------------- */

static uint32_t sequence_length(const struct gm_rank_plan *plan)
{
	return plan->options.world / plan->period;
}

/* Of the sequence of a remainder, its place `at`: the class by the nearest ranks that were run on
 * both sides; 0: they differ, or there are none. */
static uint32_t class_between(const struct gm_rank_plan *plan, uint32_t remainder, uint32_t at)
{
	const uint32_t *classes = plan->classes;
	uint32_t period = plan->period, length = sequence_length(plan), below = at, above = at;
	while (!classes[remainder + below * period] && below > 0)
		below--;
	while (!classes[remainder + above * period] && above < length - 1)
		above++;
	uint32_t low = classes[remainder + below * period],
	         high = classes[remainder + above * period];
	return low == high ? low : 0;
}

enum gm_sim_known gm_rank_plan_class(
        const struct gm_rank_plan *plan, uint32_t rank, uint32_t *ret_class)
{
	*ret_class = plan->classes[rank];
	if (*ret_class)
		return GM_SIM_RUN;
	if (!plan->options.all)
		*ret_class = class_between(
		        plan, plan->sources[rank % plan->period], rank / plan->period);
	return *ret_class ? GM_SIM_INFERRED : GM_SIM_NOT_KNOWN;
}

/* Of a remainder with a sequence of its own. */
static void infer_sequence(const struct gm_rank_plan *plan, uint32_t remainder, uint32_t *classes)
{
	uint32_t period = plan->period, length = sequence_length(plan), low = 0;
	for (uint32_t at = 1; at < length; at++) {
		uint32_t class = plan->classes[remainder + at * period];
		if (!class)
			continue;
		for (uint32_t i = low + 1; i < at; i++)
			if (plan->classes[remainder + low * period] == class)
				classes[remainder + i * period] = class;
		low = at;
	}
}

void gm_rank_plan_classes(const struct gm_rank_plan *plan, uint32_t *ret_classes)
{
	uint32_t world = plan->options.world, period = plan->period;
	for (uint32_t i = 0; i < world; i++)
		ret_classes[i] = plan->classes[i];
	if (plan->options.all || !period)
		return;
	for (uint32_t i = 0; i < period; i++)
		if (plan->sources[i] == i)
			infer_sequence(plan, i, ret_classes);
	for (uint32_t rank = 0; rank < world; rank++) {
		uint32_t remainder = rank % period, source = plan->sources[remainder];
		if (!ret_classes[rank] && source != remainder)
			ret_classes[rank] = ret_classes[rank - remainder + source];
	}
}

bool gm_rank_plan_was_run(const struct gm_rank_plan *plan, uint32_t rank)
{
	return plan->classes[rank] != 0;
}

uint32_t gm_rank_plan_checked(const struct gm_rank_plan *plan)
{
	return plan->checked;
}

static void add_odd(struct gm_rank_plan *plan, uint32_t rank)
{
	for (uint32_t i = 0; i < plan->odd_count; i++)
		if (plan->odd[i] == rank)
			return;
	if (plan->odd_count < ODD_MOST)
		plan->odd[plan->odd_count++] = rank;
}

void gm_rank_plan_put(struct gm_rank_plan *plan, uint32_t rank, uint32_t class)
{
	bool was_given = plan->given[rank];
	if (plan->classes[rank])
		return;
	plan->running -= was_given;
	plan->given_count += !was_given;
	plan->given[rank] = true;
	uint32_t inferred = 0;
	if (!was_given) /* by an earlier run of the command */
		gm_rank_plan_class(plan, rank, &inferred);
	plan->classes[rank] = class;
	plan->nothing = false;
	if (!plan->predicted[rank] && (!inferred || inferred == class))
		return;
	plan->checking -= plan->predicted[rank] != 0;
	if (plan->predicted[rank] == class) {
		plan->checked++;
	} else {
		plan->checked = 0;
		add_odd(plan, rank);
	}
}

/* --- what is wanted --------------------------------------------------------------------------- */

/* True: its class is known. */
static bool want(struct gm_rank_plan *plan, uint32_t rank)
{
	if (plan->classes[rank])
		return true;
	if (!plan->given[rank])
		plan->no_memory |= !gm_array_push(&plan->wanted, rank);
	return false;
}

static uint32_t step_from(const struct gm_rank_plan *plan, uint32_t rank, uint32_t step)
{
	/* downwards, as what is divided unevenly is odd at the end */
	return rank >= step ? rank - step : rank + step;
}

/* The smallest step after which the class comes again, if it is not 1; *ret_known: all were run. */
static uint32_t period_from(struct gm_rank_plan *plan, uint32_t rank, bool *ret_known)
{
	uint32_t period = 0;
	*ret_known = want(plan, rank);
	for (size_t i = 0; i < plan->divisors.count; i++) {
		uint32_t step = plan->divisors.items[i], other = step_from(plan, rank, step);
		bool known = want(plan, other);
		*ret_known &= known;
		if (known && !period && plan->classes[other] == plan->classes[rank])
			period = step;
	}
	return period ? period : 1;
}

/* Which remainders have a sequence of their own. False: more must be run first. */
static bool find_sources(struct gm_rank_plan *plan)
{
	uint32_t period = plan->period, length = sequence_length(plan);
	bool known = true;
	for (uint32_t i = 0; i < period; i++)
		known &= want(plan, i);
	if (!known)
		return false;
	for (uint32_t i = 0; i < period; i++) {
		plan->sources[i] = i;
		for (uint32_t j = 0; j < i && plan->sources[i] == i; j++) {
			bool alike = plan->sources[j] == j && plan->classes[j] == plan->classes[i];
			for (uint32_t at = 0; at < length && alike; at++) {
				uint32_t class = plan->classes[i + at * period];
				uint32_t other = class ? class_between(plan, j, at) : 0;
				alike = !other || other == class;
			}
			if (alike)
				plan->sources[i] = j;
		}
	}
	return true;
}

/* Between two places of a sequence whose classes differ. */
static uint32_t place_between(uint32_t low, uint32_t high, uint32_t length)
{
	uint32_t best = low + 1, roundest = 0, middle = low + (high - low) / 2;
	for (uint32_t at = low + 1; at < high; at++) {
		uint32_t roundness = common_divisor(at, length);
		uint32_t distance = at > middle ? at - middle : middle - at;
		uint32_t before = best > middle ? best - middle : middle - best;
		if (roundness > roundest || (roundness == roundest && distance < before)) {
			roundest = roundness;
			best = at;
		}
	}
	return common_divisor(high, length) > roundest ? high - 1 : best;
}

static void find_borders(struct gm_rank_plan *plan, uint32_t remainder)
{
	uint32_t period = plan->period, length = sequence_length(plan), low = 0;
	if (!want(plan, remainder + (length - 1) * period))
		return;
	for (uint32_t at = 1; at < length; at++) {
		uint32_t class = plan->classes[remainder + at * period];
		if (!class)
			continue;
		if (class != plan->classes[remainder + low * period] && at - low > 1)
			want(plan, remainder + place_between(low, at, length) * period);
		low = at;
	}
}

/* One that differs from both neighbours, which are equal, or the last one. */
static void find_odd(struct gm_rank_plan *plan, uint32_t remainder)
{
	uint32_t period = plan->period, length = sequence_length(plan);
	const uint32_t *classes = plan->classes;
	for (uint32_t at = 1; at < length; at++) {
		uint32_t rank = remainder + at * period, before = classes[rank - period];
		bool last = at == length - 1;
		uint32_t after = last ? before : classes[rank + period];
		if (classes[rank] && before && after == before && before != classes[rank])
			add_odd(plan, rank);
	}
}

static void want_checks(struct gm_rank_plan *plan)
{
	uint32_t world = plan->options.world, tries = 0;
	while (plan->checked + plan->checking < plan->options.check && tries++ < world) {
		uint32_t rank = (uint32_t)(gm_hash_mix(++plan->random) % world), class;
		/* a sample of few that are left may miss them: then they follow each other */
		for (uint32_t i = 0; i < world && tries > world / 2 + 1 && plan->given[rank]; i++)
			rank = (rank + 1) % world;
		if (plan->given[rank] ||
		        gm_rank_plan_class(plan, rank, &class) != GM_SIM_INFERRED ||
		        plan->predicted[rank])
			continue;
		plan->predicted[rank] = class;
		plan->checking++;
		want(plan, rank);
	}
}

static void find_wanted(struct gm_rank_plan *plan)
{
	uint32_t odd_before, period = 1;
	bool known = want(plan, 0);
	known &= want(plan, plan->options.world - 1);
	do {
		odd_before = plan->odd_count;
		for (uint32_t i = 0; i < plan->odd_count; i++) {
			bool all;
			uint32_t own = period_from(plan, plan->odd[i], &all);
			period = period / common_divisor(period, own) * own;
			known &= all;
		}
		if (!known)
			return;
		plan->period = period; /* divides the world, as each part of it does */
		if (!find_sources(plan))
			return;
		for (uint32_t i = 0; i < period; i++)
			if (plan->sources[i] == i)
				find_borders(plan, i);
		if (plan->wanted.count || plan->running > plan->checking)
			return;
		for (uint32_t i = 0; i < period; i++)
			if (plan->sources[i] == i)
				find_odd(plan, i);
	} while (plan->odd_count > odd_before);
	want_checks(plan);
}

/* --- giving out ------------------------------------------------------------------------------- */

static bool next_of_all(struct gm_rank_plan *plan, uint32_t *ret_rank)
{
	while (plan->cursor < plan->options.world && plan->given[plan->cursor])
		plan->cursor++;
	*ret_rank = plan->cursor;
	return plan->cursor < plan->options.world;
}

struct gm_error *gm_rank_plan_next(
        struct gm_rank_plan *plan, bool *ret_has, uint32_t *ret_rank, bool *ret_done)
{
	uint32_t rank = 0;
	bool has = !plan->options.most || plan->given_count < plan->options.most;
	if (has && plan->options.all) {
		has = next_of_all(plan, &rank);
	} else if (plan->nothing) {
		has = false;
	} else if (has) {
		/* what was wanted before and not given out yet may be needless by now, except
		 * checks, which count */
		plan->wanted.count = 0;
		for (uint32_t i = 0; plan->checking && i < plan->options.world; i++)
			if (plan->predicted[i] && !plan->given[i])
				want(plan, i);
		if (!plan->wanted.count)
			find_wanted(plan);
		has = plan->wanted.count > 0;
		plan->nothing = !has;
		rank = has ? plan->wanted.items[0] : 0;
	}
	if (plan->no_memory)
		return &gm_error_no_memory;
	if (has) {
		plan->given[rank] = true;
		plan->given_count++;
		plan->running++;
		*ret_rank = rank;
	}
	*ret_has = has;
	*ret_done = !has && !plan->running;
	return NULL;
}
