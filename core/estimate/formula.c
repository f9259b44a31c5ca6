/*
 * The terms, and which of the two peaks is higher.
 *
 * When backward begins, memory has the parameters, the optimizer's state and the activations; in
 * the optimizer's step it has the parameters, the state, the gradients and the optimizer's
 * temporaries: parameters + state + max(gradients + temporaries, activations). With accumulation,
 * the gradients of the earlier microbatches are live in backward as well. ZeRO divides state (1),
 * gradients (2) and parameters (3) among the ranks that share a part of the model.
 */
#include <string.h>

#include "base/cleanup.h"
#include "estimate/internal.h"

/* --- settings -----------------------------------------------------------------------------------
 */

static struct gm_error *refuse(const char *what)
{
	return gm_error_create(GM_USAGE, "estimate: %s", what);
}

static struct gm_error *check_split(const struct gm_estimate_model *model,
        const struct gm_estimate_settings *settings, uint64_t *ret_ranks)
{
	const uint64_t model_ranks = gm_times(gm_times(settings->tp, settings->pp), settings->cp);
	const bool split = model_ranks > 1 || settings->ep > 1;
	if (split && !model->has_shape)
		return refuse("--tp, --pp, --cp, --ep: only the number of parameters is known: "
		              "name a config.json");
	if (settings->world % model_ranks != 0)
		return refuse("--world: it is not a multiple of --tp times --pp times --cp: give "
		              "the number of all GPUs");
	*ret_ranks = settings->world / settings->tp / settings->pp;
	if (*ret_ranks % settings->ep != 0)
		return refuse("--ep: it does not divide the number of ranks that --tp and --pp "
		              "leave: give a divisor of world / (tp * pp)");
	if (settings->ep > 1 && !model->shape.experts)
		return refuse("--ep: the model has no experts: leave it out");
	if (model->has_shape && settings->pp > model->shape.layers)
		return refuse("--pp: there are fewer layers: give at most one stage a layer");
	if (model->has_shape && settings->tp > model->shape.heads)
		return refuse("--tp: there are fewer heads: give at most one rank a head");
	if (model->has_shape && settings->ep > gm_most(model->shape.experts, 1))
		return refuse("--ep: there are fewer experts: give at most one rank an expert");
	return NULL;
}

static struct gm_error *check(
        const struct gm_estimate_model *model, const struct gm_estimate_settings *settings)
{
	if (!model->has_shape && settings->inference)
		return refuse("--inference: only the number of parameters is known: name a "
		              "config.json, which has the size of the cache");
	if (!model->has_shape && settings->way &&
	        (settings->way == GM_ESTIMATE_BY_OPERATORS ||
	                settings->way == GM_ESTIMATE_BY_PAPER))
		return refuse("--activations: only the number of parameters is known: name a "
		              "config.json, or use --activations text");
	if (settings->offload & GM_ESTIMATE_OFFLOAD_PARAMETERS && settings->zero < 3 &&
	        !settings->inference)
		return refuse("--offload parameters: it needs --zero 3: add it");
	if (settings->master_weights && settings->dtype == GM_ESTIMATE_FLOAT32)
		return refuse("--master-weights: the parameters are float32 themselves: add "
		              "--dtype bfloat16");
	if (settings->sequence_parallel && settings->tp == 1)
		return refuse("--sequence-parallel: it splits over the ranks of --tp: add --tp");
	return NULL;
}

/* --- terms --------------------------------------------------------------------------------------
 */

struct work {
	const struct gm_estimate_model *model;
	const struct gm_estimate_settings *settings;
	struct gm_estimate_part part;
	uint64_t shards, expert_shards; /* ranks among which ZeRO divides */
	uint64_t in_flight;             /* microbatches whose activations are live at once */
};

static void put_sharded(
        const struct work *work, struct gm_estimate_term *term, bool split, uint64_t bytes_each)
{
	const struct gm_estimate_part *part = &work->part;
	uint64_t z = split ? work->shards : 1, y = split ? work->expert_shards : 1;
	uint64_t here = gm_plus(gm_share(part->parameters, z), gm_share(part->experts, y));
	*term = (struct gm_estimate_term){.there = true,
	        .source = work->shards > 1 ? GM_SOURCE_ZERO : GM_SOURCE_TEXT,
	        .bytes = gm_times(here, bytes_each)};
	if (part->experts) {
		const uint64_t operands[] = {part->parameters, z, part->experts, y, bytes_each};
		term->formula = GM_FORMULA_SHARDED_EXPERTS;
		memcpy(term->operands, operands, sizeof(operands));
	} else {
		const uint64_t operands[] = {part->parameters, z, bytes_each};
		term->formula = GM_FORMULA_SHARDED;
		memcpy(term->operands, operands, sizeof(operands));
	}
}

static void put_state(const struct work *work, struct gm_estimate_term *term)
{
	static const unsigned moments[] = {
	        [GM_ESTIMATE_ADAMW] = 2,
	        [GM_ESTIMATE_ADAMW_FUSED] = 2,
	        [GM_ESTIMATE_SGD_MOMENTUM] = 1,
	        [GM_ESTIMATE_LION] = 1,
	        [GM_ESTIMATE_OPTIMIZERS] = 0,
	};
	const struct gm_estimate_settings *settings = work->settings;
	const bool split = settings->zero >= 1;
	uint64_t master = settings->master_weights ? 4 : 0;
	uint64_t size = master ? 4 : gm_estimate_dtype_size(settings->dtype);
	if (settings->optimizer != GM_ESTIMATE_ADAMW_8BIT) {
		put_sharded(work, term, split, master + moments[settings->optimizer] * size);
		if (master)
			term->source = GM_SOURCE_ZERO;
		return;
	}
	put_sharded(work, term, split, 1);
	uint64_t here = term->bytes;
	uint64_t blocks = gm_share(here, 256);
	*term = (struct gm_estimate_term){.there = true,
	        .formula = GM_FORMULA_8BIT,
	        .source = GM_SOURCE_BITSANDBYTES,
	        .bytes = gm_plus(gm_times(here, 2 + master), gm_times(8, blocks)),
	        .operands = {here, 2 + master}};
}

static void put_simple(struct gm_estimate_term *term, enum gm_estimate_source source, uint64_t n,
        uint64_t bytes_each)
{
	*term = (struct gm_estimate_term){.there = true,
	        .formula = GM_FORMULA_SHARDED,
	        .source = source,
	        .bytes = gm_times(n, bytes_each),
	        .operands = {n, 1, bytes_each}};
}

static void send_to_host(struct gm_estimate_term *term)
{
	term->host = term->bytes;
	term->bytes = 0;
}

/* Autocast keeps its copies until its block ends, and autograd those that it saved: with full
 * checkpointing, only those of one layer and of the head are live in backward. */
static uint64_t copied(const struct work *work)
{
	const struct gm_estimate_part *part = &work->part;
	return work->settings->checkpointing == GM_ESTIMATE_CHECKPOINT_FULL
	               ? gm_plus(part->head, part->largest_layer)
	               : part->linear;
}

static void training_terms(
        const struct work *work, enum gm_estimate_way way, struct gm_estimate_term terms[])
{
	const struct gm_estimate_settings *settings = work->settings;
	uint64_t size = gm_estimate_dtype_size(settings->dtype);
	put_sharded(work, &terms[GM_ESTIMATE_GRADIENTS], settings->zero >= 2, size);
	put_state(work, &terms[GM_ESTIMATE_STATE]);
	put_sharded(work, &terms[GM_ESTIMATE_INTERMEDIATES], settings->zero >= 1,
	        settings->optimizer != GM_ESTIMATE_ADAMW ? 0
	        : settings->master_weights               ? 4
	                                                 : size);
	terms[GM_ESTIMATE_INTERMEDIATES].source = GM_SOURCE_TEXT;
	if (settings->offload & GM_ESTIMATE_OFFLOAD_OPTIMIZER) {
		send_to_host(&terms[GM_ESTIMATE_STATE]);
		send_to_host(&terms[GM_ESTIMATE_INTERMEDIATES]);
	}
	gm_estimate_activations(work->model, settings, &work->part, work->in_flight, way, terms);
	if (way == GM_ESTIMATE_BY_OPERATORS && settings->autocast &&
	        settings->dtype == GM_ESTIMATE_FLOAT32)
		put_simple(&terms[GM_ESTIMATE_COPIES], GM_SOURCE_OPERATORS, copied(work), 2);
}

static void inference_terms(const struct work *work, struct gm_estimate_term terms[])
{
	const struct gm_estimate_settings *settings = work->settings;
	const struct gm_estimate_shape *shape = &work->model->shape;
	const struct gm_estimate_part *part = &work->part;
	uint64_t size = gm_estimate_dtype_size(settings->dtype), tp = settings->tp,
	         b = settings->batch, c = gm_share(settings->sequence, settings->cp);
	uint64_t layers = part->dense_layers + part->moe_layers,
	         windowed = gm_share(gm_times(shape->window_layers, layers), shape->layers);
	uint64_t w = gm_least(c, shape->window);
	uint64_t k = shape->v_dim ? gm_times(gm_share(shape->heads, tp),
	                                    gm_plus(shape->head_dim, shape->v_dim))
	                          : gm_times(gm_share(shape->kv_heads, tp),
	                                    gm_times(2, shape->head_dim));
	uint64_t tokens = gm_plus(gm_times(layers - windowed, c), gm_times(windowed, w));
	terms[GM_ESTIMATE_KV_CACHE] = (struct gm_estimate_term){.there = true,
	        .formula = GM_FORMULA_KV,
	        .source = GM_SOURCE_OPERATORS,
	        .bytes = gm_times(gm_times(b, tokens), gm_times(k, size)),
	        .operands = {b, layers - windowed, c, windowed, w, k, size}};
	uint64_t wide = part->moe_layers
	                        ? gm_times(shape->experts_per_token,
	                                  gm_plus(shape->hidden, shape->expert_intermediate))
	                        : shape->intermediate;
	uint64_t width = gm_plus(gm_times(2, shape->hidden), gm_share(gm_times(3, wide), tp)),
	         vocab = part->last ? gm_share(shape->vocab, tp) : 0;
	terms[GM_ESTIMATE_WORKING] = (struct gm_estimate_term){.there = true,
	        .formula = GM_FORMULA_WORKING,
	        .source = GM_SOURCE_OPERATORS,
	        .bytes = gm_times(
	                gm_plus(gm_times(gm_times(b, c), width), gm_times(b, vocab)), size),
	        .operands = {gm_times(b, c), width, b, vocab, size}};
}

static void put_terms(
        const struct work *work, enum gm_estimate_way way, struct gm_estimate_term terms[])
{
	const struct gm_estimate_settings *settings = work->settings;
	uint64_t size = gm_estimate_dtype_size(settings->dtype);
	const bool split = settings->zero >= 3 && !settings->inference,
	           away = settings->offload & GM_ESTIMATE_OFFLOAD_PARAMETERS;
	memset(terms, 0, GM_ESTIMATE_TERMS * sizeof(*terms));
	put_sharded(work, &terms[GM_ESTIMATE_PARAMETERS], split, size);
	if (away)
		send_to_host(&terms[GM_ESTIMATE_PARAMETERS]);
	if (away || (split && work->shards > 1))
		put_simple(&terms[GM_ESTIMATE_GATHERED], GM_SOURCE_ZERO, work->part.largest_layer,
		        size);
	if (settings->inference)
		inference_terms(work, terms);
	else
		training_terms(work, way, terms);
}

/* --- sums ---------------------------------------------------------------------------------------
 */

static uint64_t at_peak(const struct gm_estimate_term terms[], unsigned kinds)
{
	uint64_t all = 0;
	for (unsigned i = 0; i < GM_ESTIMATE_TERMS; i++)
		if (kinds >> i & 1)
			all = gm_plus(all, terms[i].bytes);
	return all;
}

#define BIT(kind) (1u << GM_ESTIMATE_##kind)

static void sum_up(const struct work *work, struct gm_estimate *estimate)
{
	const struct gm_estimate_term *terms = estimate->terms;
	const unsigned kept = BIT(PARAMETERS) | BIT(STATE);
	estimate->host = 0;
	for (unsigned i = 0; i < GM_ESTIMATE_TERMS; i++)
		estimate->host = gm_plus(estimate->host, terms[i].host);
	estimate->states = at_peak(terms, kept | BIT(GRADIENTS));
	if (work->settings->inference) {
		estimate->total = at_peak(terms, ~0u);
		estimate->peak = GM_ESTIMATE_PEAK_INFERENCE;
		return;
	}
	estimate->backward =
	        at_peak(terms, kept | BIT(ACTIVATIONS) | BIT(LOSS) | BIT(COPIES) | BIT(GATHERED) |
	                               (work->settings->accumulation > 1 ? BIT(GRADIENTS) : 0));
	estimate->optimizer = at_peak(terms, kept | BIT(GRADIENTS) | BIT(INTERMEDIATES));
	estimate->total = gm_most(estimate->backward, estimate->optimizer);
	estimate->peak = estimate->backward > estimate->optimizer ? GM_ESTIMATE_PEAK_BACKWARD
	                                                          : GM_ESTIMATE_PEAK_OPTIMIZER;
	estimate->text_summary = gm_plus(
	        at_peak(terms, kept), gm_most(terms[GM_ESTIMATE_ACTIVATIONS].bytes,
	                                      gm_most(terms[GM_ESTIMATE_GRADIENTS].bytes,
	                                              terms[GM_ESTIMATE_INTERMEDIATES].bytes)));
}

/* The same with the activations counted by each method that is possible for this model. */
static void compare_ways(const struct work *work, struct gm_estimate *estimate)
{
	static const enum gm_estimate_way ways[] = {GM_ESTIMATE_BY_OPERATORS, GM_ESTIMATE_BY_PAPER,
	        GM_ESTIMATE_BY_TEXT, GM_ESTIMATE_BY_TEXT_BYTES, GM_ESTIMATE_BY_HOOKS};
	const bool split = work->settings->tp * work->settings->pp * work->settings->cp > 1;
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		const bool needs_shape = ways[i] <= GM_ESTIMATE_BY_PAPER;
		struct gm_estimate other = {.settings = estimate->settings};
		/* The text's line is for one GPU. */
		if (needs_shape ? !work->model->has_shape : split)
			continue;
		if (ways[i] == GM_ESTIMATE_BY_HOOKS && !work->settings->hooked)
			continue;
		put_terms(work, ways[i], other.terms);
		sum_up(work, &other);
		estimate->others[estimate->other_count++] = (struct gm_estimate_other){
		        ways[i], other.terms[GM_ESTIMATE_ACTIVATIONS].bytes, other.total};
	}
}

static void put_notes(const struct gm_estimate_model *model, struct gm_estimate *estimate)
{
	const struct gm_estimate_settings *settings = &estimate->settings;
	const struct gm_estimate_term *terms = estimate->terms;
	const bool text = settings->way == GM_ESTIMATE_BY_TEXT, training = !settings->inference;
	bool *notes = estimate->notes;
	notes[GM_NOTE_A_IS_BYTES] = training && text;
	notes[GM_NOTE_TOTALS_DIFFER] = training &&
	                               (text || settings->way == GM_ESTIMATE_BY_TEXT_BYTES) &&
	                               estimate->text_summary != estimate->total;
	notes[GM_NOTE_AUTOCAST_KEEPS] = training && terms[GM_ESTIMATE_COPIES].there;
	notes[GM_NOTE_SELECTIVE_NOTHING] =
	        training && settings->checkpointing == GM_ESTIMATE_CHECKPOINT_SELECTIVE &&
	        !settings->materialized;
	notes[GM_NOTE_MLA_CACHE] = settings->inference && model->shape.kv_rank;
	notes[GM_NOTE_QUANTIZED] = model->quantized;
	notes[GM_NOTE_NOT_MEASURED] =
	        training && settings->way == GM_ESTIMATE_BY_OPERATORS &&
	        (!model->shape.architecture->measured ||
	                (model->shape.experts && terms[GM_ESTIMATE_COPIES].there));
	notes[GM_NOTE_NO_ACTIVATIONS_EXACT] =
	        training && !model->has_shape && settings->way != GM_ESTIMATE_BY_HOOKS;
	notes[GM_NOTE_HOOKS_OUTPUTS] = training && settings->way == GM_ESTIMATE_BY_HOOKS;
	notes[GM_NOTE_INDEX_ALONE] = model->index_alone;
	notes[GM_NOTE_PAPER_ARCHITECTURE] = training && settings->way == GM_ESTIMATE_BY_PAPER &&
	                                    strcmp(model->shape.architecture->name, "gpt2") != 0;
}

/* --- one stage ----------------------------------------------------------------------------------
 */

static void set_part(struct work *work, uint64_t stage)
{
	const struct gm_estimate_settings *settings = work->settings;
	const struct gm_estimate_model *model = work->model;
	memset(&work->part, 0, sizeof(work->part));
	if (model->has_shape)
		gm_estimate_part(&model->shape, settings, stage, &work->part);
	/* A given number, or one from the file, takes precedence over a computed one. */
	if (settings->tp * settings->pp * settings->ep == 1 &&
	        model->counts.total >= work->part.experts)
		work->part.parameters = model->counts.total - work->part.experts;
	/* One forward, one backward: the first stage has as many microbatches in flight as there
	 * are stages. */
	work->in_flight = gm_least(settings->accumulation, settings->pp - stage);
}

static void estimate_stage(struct work *work, uint64_t stage, struct gm_estimate *estimate)
{
	set_part(work, stage);
	estimate->stage = stage;
	estimate->local = gm_plus(work->part.parameters, work->part.experts);
	put_terms(work, estimate->settings.way, estimate->terms);
	sum_up(work, estimate);
}

struct gm_error *gm_estimate_formula(const struct gm_estimate_model *model,
        const struct gm_estimate_settings *settings, struct gm_estimate *ret_estimate)
{
	struct gm_estimate best = {.settings = *settings};
	struct gm_estimate_settings *used = &best.settings;
	struct work work = {.model = model};
	uint64_t ranks = 1;
	if (!used->dtype)
		used->dtype = model->dtype ? model->dtype : GM_ESTIMATE_FLOAT32;
	if (!used->way)
		used->way = model->has_shape ? GM_ESTIMATE_BY_OPERATORS : GM_ESTIMATE_BY_TEXT;
	gm_try(check(model, used));
	gm_try(check_split(model, used, &ranks));
	work.shards = ranks;
	work.expert_shards = ranks / used->ep;
	best.data_parallel = ranks / used->cp;
	/* The first stage has the embedding and most microbatches in flight, the last one the head;
	 * the second may have the first layers with experts. */
	const uint64_t stages[] = {0, 1, used->pp - 1};
	const struct gm_estimate_settings kept = best.settings;
	work.settings = &kept;
	for (size_t i = 0; i < sizeof(stages) / sizeof(*stages); i++) {
		struct gm_estimate other = best;
		if (stages[i] >= used->pp)
			continue;
		estimate_stage(&work, stages[i], &other);
		if (i == 0 || other.total > best.total)
			best = other;
	}
	set_part(&work, best.stage);
	if (!kept.inference)
		compare_ways(&work, &best);
	put_notes(model, &best);
	if (best.total == GM_TOO_MUCH || best.host == GM_TOO_MUCH || best.states == GM_TOO_MUCH)
		return refuse(
		        "the sum is beyond 64 bits: check --batch, --sequence and the model's "
		        "numbers");
	*ret_estimate = best;
	return NULL;
}
