/* Measures that release what a variable, a list or an attribute keeps. */
#include <string.h>

#include "ask/advise/measures.h"
#include "base/cleanup.h"

/* The program's own data: not what the model and the optimizer keep by design. */
static bool is_own(const struct gm_advise_facts *facts, uint32_t block)
{
	switch (gm_advise_category(facts, block)) {
	case GM_CATEGORY_UNKNOWN:
	case GM_CATEGORY_ACTIVATION:
	case GM_CATEGORY_INPUT:
	case GM_CATEGORY_TEMPORARY:
		return true;
	default:
		return false;
	}
}

/* Where the iteration of a block's allocation is over; GM_NO_EVENT: it is of none. */
static uint32_t step_end(const struct gm_advise_facts *facts, uint32_t block)
{
	uint32_t step = gm_advise_step(facts, block);
	return step ? facts->steps[step].end : GM_NO_EVENT;
}

/* ---- variables that keep something until the next iteration replaces it ---- */

/* Is the block kept by a variable until the next iteration replaces it? *ret_own: the variable was
 * its own; else it went with what the variable kept, as a graph does, and something else may have
 * kept it too. */
static bool is_stale(const struct gm_advise_facts *facts, uint32_t block,
        struct gm_cause *ret_cause, bool *ret_own)
{
	uint32_t step = gm_advise_step(facts, block);
	if (!step || gm_advise_last_step(facts, block) != step + 1 || !is_own(facts, block))
		return false;
	gm_cause_find(facts->model, gm_model_block(facts->model, block), ret_cause);
	if (!ret_cause->name || ret_cause->in_backward)
		return false;
	*ret_own = ret_cause->kind == GM_CAUSE_REBOUND || ret_cause->kind == GM_CAUSE_DELETED;
	return *ret_own || ret_cause->kind == GM_CAUSE_AUTOGRAD_RELEASE;
}

static struct gm_candidate *find_candidate(
        struct gm_candidates *candidates, enum gm_measure measure, const char *name, uint32_t code)
{
	for (size_t i = 0; i < candidates->list.count; i++) {
		struct gm_candidate *candidate = &candidates->list.items[i];
		if (candidate->measure == measure && candidate->code == code &&
		        strcmp(candidate->name ? candidate->name : "", name ? name : "") == 0)
			return candidate;
	}
	return NULL;
}

enum { PLACES_MAX = 256 }; /* of one kind: more of them are no advice */

struct gm_error *gm_measure_find_variables(
        const struct gm_advise_facts *facts, struct gm_candidates *candidates)
{
	size_t found = 0;
	for (uint32_t i = 0; i < gm_model_block_count(facts->model) && found < PLACES_MAX; i++) {
		struct gm_cause cause;
		bool own;
		if (!gm_advise_counts(facts, i) || !is_stale(facts, i, &cause, &own) ||
		        find_candidate(
		                candidates, GM_MEASURE_RELEASE, cause.name, cause.place.code))
			continue;
		struct gm_candidate candidate = {.measure = GM_MEASURE_RELEASE,
		        .name = cause.name,
		        .place = cause.place,
		        .code = cause.place.code};
		if (!gm_array_push(&candidates->list, candidate))
			return &gm_error_no_memory;
		found++;
	}
	return NULL;
}

/* All places of a measure at once; beside a single one it would be the same once more. */
static struct gm_error *find_all(
        struct gm_candidates *candidates, enum gm_measure one, enum gm_measure all)
{
	size_t places = 0;
	const struct gm_candidate together = {.measure = all};
	for (size_t i = 0; i < candidates->list.count; i++)
		places += candidates->list.items[i].measure == one &&
		          !candidates->list.items[i].nowhere;
	return places < 2 || gm_array_push(&candidates->list, together) ? NULL
	                                                                : &gm_error_no_memory;
}

struct gm_error *gm_measure_find_all_variables(
        const struct gm_advise_facts *facts, struct gm_candidates *candidates)
{
	return find_all(candidates, GM_MEASURE_RELEASE, GM_MEASURE_RELEASE_ALL);
}

struct gm_error *gm_measure_variable(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	bool all = candidate->measure == GM_MEASURE_RELEASE_ALL;
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++) {
		struct gm_cause cause;
		bool own;
		if (!gm_advise_counts(facts, i) || !is_stale(facts, i, &cause, &own))
			continue;
		bool meant = all || (cause.place.code == candidate->code &&
		                            strcmp(cause.name, candidate->name) == 0);
		if (meant && (own || all || bound != GM_BOUND_LEAST))
			gm_whatif_end(whatif, i, step_end(facts, i));
	}
	return NULL;
}

/* ---- what is kept for longer than that ---- */

/* Outlives the step after its own; of the last step's blocks that is not known. */
static bool is_held(const struct gm_advise_facts *facts, uint32_t block)
{
	uint32_t step = gm_advise_step(facts, block), last = gm_advise_last_step(facts, block);
	if (!step || step >= facts->step_count || !is_own(facts, block))
		return false;
	return !last || last > step + 1;
}

static uint64_t held_steps(const struct gm_advise_facts *facts, uint32_t block)
{
	uint32_t last = gm_advise_last_step(facts, block);
	return (last ? last : facts->step_count) - gm_advise_step(facts, block);
}

struct gm_error *gm_measure_find_held(
        const struct gm_advise_facts *facts, struct gm_candidates *candidates)
{
	size_t found = 0;
	for (uint32_t i = 0; i < gm_model_block_count(facts->model) && found < PLACES_MAX; i++) {
		struct gm_frame_place place;
		if (!gm_advise_counts(facts, i) || !is_held(facts, i) ||
		        !gm_advise_site(facts, i, &place))
			continue;
		uint64_t held = held_steps(facts, i) * gm_model_block(facts->model, i)->size;
		struct gm_candidate *known = NULL;
		for (size_t j = 0; j < candidates->list.count && !known; j++) {
			struct gm_candidate *other = &candidates->list.items[j];
			if (other->measure == GM_MEASURE_HELD && other->code == place.code &&
			        other->place.line == place.line)
				known = other;
		}
		if (known) {
			known->byte_steps += held;
			continue;
		}
		struct gm_candidate candidate = {.measure = GM_MEASURE_HELD,
		        .place = place,
		        .code = place.code,
		        .byte_steps = held};
		if (!gm_array_push(&candidates->list, candidate))
			return &gm_error_no_memory;
		found++;
	}
	return NULL;
}

struct gm_error *gm_measure_find_all_held(
        const struct gm_advise_facts *facts, struct gm_candidates *candidates)
{
	return find_all(candidates, GM_MEASURE_HELD, GM_MEASURE_HELD_ALL);
}

/* The recording tells when a block was released, and not when it was used last: the program may
 * need all of it, which is the least. */
struct gm_error *gm_measure_held(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++) {
		struct gm_frame_place place;
		if (bound == GM_BOUND_LEAST || !gm_advise_counts(facts, i) || !is_held(facts, i) ||
		        !gm_advise_site(facts, i, &place))
			continue;
		if (candidate->measure == GM_MEASURE_HELD_ALL ||
		        (place.code == candidate->code && place.line == candidate->place.line))
			gm_whatif_end(whatif, i, step_end(facts, i));
	}
	return NULL;
}
