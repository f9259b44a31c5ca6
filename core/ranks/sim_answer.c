#include "ranks/sim_answer.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/map.h"

void gm_sim_answer_deinit(struct gm_sim_answer *answer)
{
	for (size_t i = 0; i < answer->groups.count; i++)
		gm_array_deinit(&answer->groups.items[i].spans.list);
	gm_array_deinit(&answer->groups);
	gm_array_deinit(&answer->unknown_spans.list);
}

/* Ranks ascend. A rank joins the last span if it has its step; a span of one rank takes any. */
static bool add_rank(struct gm_sim_spans *spans, uint32_t rank)
{
	struct gm_sim_span *last =
	        spans->list.count ? &spans->list.items[spans->list.count - 1] : NULL;
	if (last && last->first == last->last) {
		last->step = rank - last->first;
		last->last = rank;
		return true;
	}
	if (last && rank - last->last == last->step) {
		last->last = rank;
		return true;
	}
	/* two ranks far apart are no sequence: the second begins one of its own */
	if (last && last->last == last->first + last->step && rank - last->last < last->step) {
		const struct gm_sim_span span = {last->last, rank, rank - last->last};
		last->last = last->first;
		last->step = 1;
		return gm_array_push(&spans->list, span);
	}
	const struct gm_sim_span span = {rank, rank, 1};
	return gm_array_push(&spans->list, span);
}

static int compare(const void *a, const void *b)
{
	const struct gm_sim_group *one = a, *other = b;
	const struct gm_sim_result *x = &one->result, *y = &other->result;
	if (x->peak_allocated != y->peak_allocated)
		return x->peak_allocated < y->peak_allocated ? 1 : -1;
	if (x->peak_reserved != y->peak_reserved)
		return x->peak_reserved < y->peak_reserved ? 1 : -1;
	return x->rank < y->rank ? -1 : 1;
}

static void judge(struct gm_sim_answer *answer)
{
	answer->fit = GM_SIM_FITS;
	for (size_t i = 0; i < answer->groups.count; i++) {
		const struct gm_sim_result *result = &answer->groups.items[i].result;
		if (result->outcome == GM_SIM_OUT_OF_MEMORY)
			answer->fit = GM_SIM_DOES_NOT_FIT;
		answer->used |= result->peak_allocated || result->peak_reserved || result->ooms;
		answer->failed |=
		        result->outcome != GM_SIM_RAN && result->outcome != GM_SIM_OUT_OF_MEMORY;
		if (result->total > answer->total)
			answer->total = result->total;
	}
	if ((answer->unknown || answer->failed || !answer->used) && answer->fit == GM_SIM_FITS)
		answer->fit = GM_SIM_FIT_NOT_KNOWN;
}

/* The results by class, which is their number in `groups` plus 1. */
static struct gm_error *add_groups(const struct gm_rank_plan *plan,
        const struct gm_sim_results *results, struct gm_map *by_class, struct gm_sim_answer *answer)
{
	for (size_t i = 0; i < results->items.count; i++) {
		const struct gm_sim_result *result = &results->items.items[i];
		uint32_t class;
		gm_rank_plan_class(plan, result->rank, &class);
		bool is_new = false;
		uint64_t *place = gm_map_put(by_class, class, &is_new);
		const struct gm_sim_group group = {.result = *result};
		if (!place || (is_new && !gm_array_push(&answer->groups, group)))
			return &gm_error_no_memory;
		if (is_new)
			*place = answer->groups.count - 1;
		else if (result->rank < answer->groups.items[*place].result.rank)
			answer->groups.items[*place].result = *result;
	}
	return NULL;
}

static struct gm_error *add_rank_to(
        struct gm_sim_answer *answer, struct gm_sim_group *group, uint32_t rank, bool run)
{
	if (!add_rank(&group->spans, rank))
		return &gm_error_no_memory;
	group->run += run;
	group->inferred += !run;
	answer->run += run;
	answer->inferred += !run;
	return NULL;
}

static struct gm_error *add_ranks(const struct gm_rank_plan *plan, const struct gm_map *by_class,
        struct gm_sim_answer *answer)
{
	uint32_t world = answer->job->world;
	_cleanup_free_ uint32_t *classes = calloc(world, sizeof(*classes));
	if (!classes)
		return &gm_error_no_memory;
	gm_rank_plan_classes(plan, classes);
	for (uint32_t rank = 0; rank < world; rank++) {
		const uint64_t *place = gm_map_find(by_class, classes[rank]);
		if (place) {
			gm_try(add_rank_to(answer, &answer->groups.items[*place], rank,
			        gm_rank_plan_was_run(plan, rank)));
			continue;
		}
		answer->unknown++;
		if (!add_rank(&answer->unknown_spans, rank))
			return &gm_error_no_memory;
	}
	return NULL;
}

struct gm_error *gm_sim_answer(const struct gm_sim_job *job, const struct gm_rank_plan *plan,
        const struct gm_sim_results *results, struct gm_sim_answer *ret_answer)
{
	struct gm_sim_answer answer = {.job = job, .checked = gm_rank_plan_checked(plan)};
	struct gm_map by_class = {0};
	struct gm_error *error = add_groups(plan, results, &by_class, &answer);
	if (!error)
		error = add_ranks(plan, &by_class, &answer);
	gm_map_deinit(&by_class);
	if (error) {
		gm_sim_answer_deinit(&answer);
		return error;
	}
	judge(&answer);
	qsort(answer.groups.items, answer.groups.count, sizeof(*answer.groups.items), compare);
	*ret_answer = answer;
	return NULL;
}
