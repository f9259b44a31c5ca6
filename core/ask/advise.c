#include "ask/advise.h"

#include <stdlib.h>
#include <string.h>

#include "ask/advise/table.h"
#include "ask/blocks.h"
#include "base/cleanup.h"

const char *gm_advice_verdict_name(enum gm_advice_verdict verdict)
{
	static const char *const names[GM_ADVICE_VERDICTS] = {
	        [GM_ADVICE_HELPS] = "helps",
	        [GM_ADVICE_PEAK_ELSEWHERE] = "peak_elsewhere",
	        [GM_ADVICE_NOT_LOWER] = "not_lower",
	        [GM_ADVICE_NOTHING_THERE] = "nothing_there",
	        [GM_ADVICE_UNKNOWN] = "unknown",
	};
	return (unsigned)verdict < GM_ADVICE_VERDICTS ? names[verdict] : "unknown";
}

struct advising {
	struct gm_advise_facts facts;
	struct gm_advise *answer;
	struct gm_candidates candidates;
	GM_ARRAY(struct gm_advice) list;
};

static struct gm_error *find_peak(const struct advising *advising, const struct gm_whatif *whatif,
        struct gm_advice_peak *ret_peak)
{
	struct gm_whatif_peak peak;
	const struct gm_model *model = advising->facts.model;
	gm_try(gm_whatif_peak(whatif, advising->facts.categories, &peak));
	*ret_peak = (struct gm_advice_peak){
	        .bytes = peak.bytes,
	        .event = peak.event,
	        .added = peak.added,
	        .largest = peak.largest,
	};
	memcpy(ret_peak->by_category, peak.by_category, sizeof(peak.by_category));
	if (peak.event != GM_NO_EVENT) {
		ret_peak->step = gm_model_step(model, peak.event);
		ret_peak->phase = gm_model_phase(model, peak.event);
	}
	return NULL;
}

/* The peak with a candidate on top of what is there. */
static struct gm_error *try_bound(const struct advising *advising, const struct gm_whatif *before,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_advice_peak *ret_peak,
        bool *ret_changed)
{
	_cleanup_(gm_whatif_deinit) struct gm_whatif whatif = {0};
	gm_try(gm_whatif_copy(before, &whatif));
	gm_try(gm_measure_rows[candidate->measure].apply(
	        &advising->facts, candidate, bound, &whatif));
	*ret_changed = whatif.changes > 0;
	return find_peak(advising, &whatif, ret_peak);
}

static uint64_t lowered(uint64_t before, uint64_t after)
{
	return before > after ? before - after : 0;
}

/* A candidate on top of what is there, whose peak is `peak`; range: with its bounds. */
static struct gm_error *judge(const struct advising *advising, const struct gm_whatif *before,
        const struct gm_advice_peak *peak, const struct gm_candidate *candidate, bool range,
        struct gm_advice *ret_advice)
{
	const struct gm_measure_row *row = &gm_measure_rows[candidate->measure];
	struct gm_advice advice = {
	        .of = *candidate,
	        .exact = row->exact,
	        .cost = row->cost,
	        .lacks = row->needs & advising->facts.lacks,
	        .verdict = GM_ADVICE_UNKNOWN,
	        .peak = *peak,
	};
	struct gm_advice_peak bound;
	bool changed = false;
	if (!advice.lacks && candidate->nowhere) {
		advice.verdict = GM_ADVICE_NOTHING_THERE;
	} else if (!advice.lacks) {
		gm_try(try_bound(
		        advising, before, candidate, GM_BOUND_LIKELY, &advice.peak, &changed));
		advice.saved = lowered(peak->bytes, advice.peak.bytes);
		advice.least = advice.most = advice.saved;
		advice.verdict = !changed                           ? GM_ADVICE_NOTHING_THERE
		                 : advice.saved                     ? GM_ADVICE_HELPS
		                 : advice.peak.bytes == peak->bytes ? GM_ADVICE_PEAK_ELSEWHERE
		                                                    : GM_ADVICE_NOT_LOWER;
	}
	for (int i = GM_BOUND_LEAST; i <= GM_BOUND_MOST && advice.saved && range && !row->exact;
	        i++) {
		gm_try(try_bound(advising, before, candidate, (enum gm_bound)i, &bound, &changed));
		uint64_t saved = lowered(peak->bytes, bound.bytes);
		advice.least = saved < advice.least ? saved : advice.least;
		advice.most = saved > advice.most ? saved : advice.most;
	}
	*ret_advice = advice;
	return NULL;
}

/* How many parts a measure makes of something. */
static uint32_t number_of(enum gm_measure measure, const struct gm_advise_options *options)
{
	switch (measure) {
	case GM_MEASURE_SMALLER_BATCH:
	case GM_MEASURE_ACCUMULATE:
		return options->parts;
	case GM_MEASURE_CHUNKED_LOSS:
		return options->chunks;
	case GM_MEASURE_ZERO1:
	case GM_MEASURE_ZERO2:
	case GM_MEASURE_ZERO3:
	case GM_MEASURE_TENSOR_PARALLEL:
	case GM_MEASURE_PIPELINE_PARALLEL:
		return options->world;
	default:
		return 0;
	}
}

static struct gm_error *find_candidates(struct advising *advising)
{
	for (int i = 0; i < GM_MEASURE_COUNT; i++) {
		const struct gm_measure_row *row = &gm_measure_rows[i];
		struct gm_candidate whole = {.measure = row->measure,
		        .number = number_of(row->measure, &advising->answer->options)};
		size_t before = advising->candidates.list.count;
		if (row->find && !(row->needs & advising->facts.lacks))
			gm_try(row->find(&advising->facts, &advising->candidates));
		/* what is found nowhere is listed once, with why */
		else if (!gm_array_push(&advising->candidates.list, whole))
			return &gm_error_no_memory;
		for (size_t j = before; j < advising->candidates.list.count; j++)
			advising->candidates.list.items[j].number = whole.number;
		whole.nowhere = true;
		if (before == advising->candidates.list.count &&
		        !gm_array_push(&advising->candidates.list, whole))
			return &gm_error_no_memory;
	}
	return NULL;
}

static int by_saving(const void *a, const void *b)
{
	const struct gm_advice *left = a, *right = b;
	if (left->verdict != right->verdict)
		return left->verdict < right->verdict ? -1 : 1;
	if (left->saved != right->saved)
		return left->saved > right->saved ? -1 : 1;
	if (left->of.measure != right->of.measure)
		return left->of.measure < right->of.measure ? -1 : 1;
	return left->of.place.line < right->of.place.line
	               ? -1
	               : left->of.place.line > right->of.place.line;
}

static bool is_same(const struct gm_candidate *a, const struct gm_candidate *b)
{
	return a->measure == b->measure && a->name == b->name && a->code == b->code &&
	       a->place.line == b->place.line;
}

/* What leaves the results and the device as they are, and is not among the best yet. */
static bool may_join(const struct gm_advise *answer, const struct gm_advice *advice)
{
	for (size_t i = 0; i < answer->together_count; i++)
		if (is_same(&answer->together[i].of, &advice->of))
			return false;
	return (advice->cost == GM_COST_NOTHING || advice->cost == GM_COST_TIME) &&
	       advice->verdict != GM_ADVICE_UNKNOWN && advice->verdict != GM_ADVICE_NOTHING_THERE;
}

/* Each time the one that lowers the peak most by then; of equal ones the first, which costs
 * less. */
static struct gm_error *put_together(struct advising *advising, const struct gm_whatif *recorded)
{
	struct gm_advise *answer = advising->answer;
	struct gm_advice_peak peak = answer->peak;
	_cleanup_(gm_whatif_deinit) struct gm_whatif whatif = {0};
	gm_try(gm_whatif_copy(recorded, &whatif));
	while (answer->together_count < GM_ADVISE_TOGETHER) {
		struct gm_advice best = {0}, advice;
		for (size_t i = 0; i < advising->list.count; i++) {
			const struct gm_advice *item = &advising->list.items[i];
			if (!may_join(answer, item))
				continue;
			gm_try(judge(advising, &whatif, &peak, &item->of, false, &advice));
			if (advice.saved > best.saved)
				best = advice;
		}
		if (!best.saved)
			return NULL;
		gm_try(judge(advising, &whatif, &peak, &best.of, true, &best));
		gm_try(gm_measure_rows[best.of.measure].apply(
		        &advising->facts, &best.of, GM_BOUND_LIKELY, &whatif));
		peak = best.peak;
		answer->together[answer->together_count++] = best;
	}
	return NULL;
}

static struct gm_error *advise(struct advising *advising)
{
	_cleanup_(gm_whatif_deinit) struct gm_whatif recorded = {0};
	struct gm_advise *answer = advising->answer;
	gm_try(gm_whatif_init(&recorded, advising->facts.model, answer->device));
	gm_try(find_peak(advising, &recorded, &answer->peak));
	gm_try(find_candidates(advising));
	for (size_t i = 0; i < advising->candidates.list.count; i++) {
		struct gm_advice advice;
		gm_try(judge(advising, &recorded, &answer->peak,
		        &advising->candidates.list.items[i], true, &advice));
		if (!gm_array_push(&advising->list, advice))
			return &gm_error_no_memory;
		answer->helps += advice.verdict == GM_ADVICE_HELPS;
	}
	if (advising->list.count)
		qsort(advising->list.items, advising->list.count, sizeof(struct gm_advice),
		        by_saving);
	return put_together(advising, &recorded);
}

struct gm_error *gm_ask_advise(struct gm_context *context, const struct gm_advise_options *options,
        struct gm_advise *ret_advise)
{
	struct gm_model *model;
	const struct gm_categories *categories;
	gm_try(gm_context_model(context, &model));
	struct gm_advise answer = {
	        .model = model,
	        .options = *options,
	        .device = gm_model_main_device(model),
	};
	if (options->has_device)
		gm_try(gm_blocks_find_device(model, options->device, &answer.device));
	answer.peak.event = GM_NO_EVENT;
	answer.peak.largest = GM_NO_BLOCK;
	if (answer.device == SIZE_MAX) {
		*ret_advise = answer;
		return NULL;
	}
	gm_try(gm_model_categories(model, &categories));
	struct advising advising = {.answer = &answer};
	struct gm_error *error =
	        gm_advise_facts_init(&advising.facts, model, categories, answer.device);
	if (!error)
		error = advise(&advising);
	gm_advise_facts_deinit(&advising.facts);
	gm_array_deinit(&advising.candidates.list);
	if (error) {
		gm_array_deinit(&advising.list);
		return error;
	}
	answer.items = advising.list.items;
	answer.count = advising.list.count;
	*ret_advise = answer;
	return NULL;
}

void gm_advise_deinit(struct gm_advise *advise)
{
	free(advise->items);
	advise->items = NULL;
	advise->count = 0;
}
