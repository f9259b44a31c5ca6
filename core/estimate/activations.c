/* Activations, by each of the methods. */
#include <math.h>
#include <string.h>

#include "estimate/internal.h"

static void put(struct gm_estimate_term *term, enum gm_estimate_formula formula,
        enum gm_estimate_source source, uint64_t bytes, const uint64_t operands[], size_t count)
{
	term->there = true;
	term->formula = formula;
	term->source = source;
	term->bytes = bytes;
	memcpy(term->operands, operands, count * sizeof(*operands));
}

#define PUT(term, formula, source, bytes, ...)                   \
	do {                                                     \
		const uint64_t operands_[] = {__VA_ARGS__};      \
		put(term, formula, source, bytes, operands_,     \
		        sizeof(operands_) / sizeof(*operands_)); \
	} while (0)

/* --- by operators ----------------------------------------------------------------------------- */

static void by_operators(const struct gm_estimate_shape *shape,
        const struct gm_estimate_settings *settings, const struct gm_estimate_part *part,
        uint64_t in_flight, struct gm_estimate_term terms[])
{
	struct gm_estimate_term *term = &terms[GM_ESTIMATE_ACTIVATIONS];
	struct gm_estimate_kept kept;
	uint64_t moe = part->moe_layers, dense = part->dense_layers;
	gm_estimate_keep(shape, settings, part, &kept);
	uint64_t largest = gm_most(dense ? kept.dense : 0, moe ? kept.moe : 0);
	if (settings->checkpointing == GM_ESTIMATE_CHECKPOINT_SELECTIVE && kept.matrices) {
		/* Those of one layer exist while they are recomputed. */
		kept.rest = gm_plus(kept.rest, kept.matrices);
		kept.dense -= kept.dense == GM_TOO_MUCH ? 0 : kept.matrices;
		kept.moe -= kept.moe == GM_TOO_MUCH || !moe ? 0 : kept.matrices;
	}
	uint64_t all = gm_plus(gm_times(dense, kept.dense), gm_times(moe, kept.moe));
	if (settings->checkpointing == GM_ESTIMATE_CHECKPOINT_FULL) {
		uint64_t inputs = gm_times(in_flight, gm_times(dense + moe, kept.layer_input));
		bool away = settings->offload & GM_ESTIMATE_OFFLOAD_ACTIVATIONS;
		uint64_t both = gm_most(largest, gm_plus(kept.rest, kept.loss));
		PUT(term, GM_FORMULA_CHECKPOINTS, GM_SOURCE_OPERATORS,
		        gm_plus(away ? 0 : inputs, both), away ? 0 : in_flight, dense + moe,
		        kept.layer_input, largest, gm_plus(kept.rest, kept.loss));
		term->host = away ? inputs : 0;
		return;
	}
	if (settings->offload & GM_ESTIMATE_OFFLOAD_ACTIVATIONS) {
		PUT(term, GM_FORMULA_OFFLOADED, GM_SOURCE_OPERATORS, gm_plus(largest, kept.rest),
		        largest, kept.rest);
		term->host = gm_times(in_flight, all);
	} else {
		PUT(term, GM_FORMULA_LAYERS, GM_SOURCE_OPERATORS,
		        gm_times(in_flight, gm_plus(all, kept.rest)), in_flight, dense, kept.dense,
		        moe, kept.moe, kept.rest);
	}
	if (!kept.loss)
		return;
	uint64_t tokens = gm_times(settings->batch, gm_share(settings->sequence, settings->cp));
	PUT(&terms[GM_ESTIMATE_LOSS], GM_FORMULA_LOSS, GM_SOURCE_OPERATORS, kept.loss, tokens,
	        gm_share(shape->vocab, settings->tp));
}

/* --- by the paper ----------------------------------------------------------------------------- */

static void by_paper(const struct gm_estimate_shape *shape,
        const struct gm_estimate_settings *settings, const struct gm_estimate_part *part,
        uint64_t in_flight, struct gm_estimate_term *term)
{
	const bool full = settings->checkpointing == GM_ESTIMATE_CHECKPOINT_FULL,
	           selective = !settings->materialized ||
	                       settings->checkpointing == GM_ESTIMATE_CHECKPOINT_SELECTIVE;
	uint64_t layers = part->dense_layers + part->moe_layers, h = shape->hidden,
	         a = shape->heads, t = settings->tp;
	uint64_t s = gm_share(settings->sequence, settings->cp), b = settings->batch;
	uint64_t squares = selective ? 0 : gm_times(5, gm_times(a, settings->sequence));
	uint64_t each = gm_plus(
	        gm_plus(gm_times(10, h), gm_share(gm_times(24, h), t)), gm_share(squares, t));
	enum gm_estimate_formula formula =
	        selective ? GM_FORMULA_PAPER_SELECTIVE : GM_FORMULA_PAPER;
	if (settings->sequence_parallel) {
		each = gm_share(gm_plus(gm_times(34, h), squares), t);
		formula =
		        selective ? GM_FORMULA_PAPER_SELECTIVE_SEQUENCE : GM_FORMULA_PAPER_SEQUENCE;
	}
	if (full) {
		each = gm_times(2, h);
		formula = GM_FORMULA_PAPER_FULL;
	}
	uint64_t bytes = gm_times(gm_times(in_flight, layers), gm_times(gm_times(s, b), each));
	if (full)
		PUT(term, formula, GM_SOURCE_ACTIVATIONS, bytes, in_flight, layers, s, b, h);
	else if (selective)
		PUT(term, formula, GM_SOURCE_ACTIVATIONS, bytes, in_flight, layers, s, b, h, t);
	else
		PUT(term, formula, GM_SOURCE_ACTIVATIONS, bytes, in_flight, layers, s, b, h, a, t);
}

/* --- by the text ------------------------------------------------------------------------------ */

/* A = 4.6894e-4 N + 1.8494e6: a line fitted to the models that its author measured. */
static void by_text(const struct gm_estimate_model *model,
        const struct gm_estimate_settings *settings, bool bytes_already,
        struct gm_estimate_term *term)
{
	uint64_t n = model->counts.total, b = settings->batch, l = settings->sequence,
	         p = settings->autocast ? 2 : gm_estimate_dtype_size(settings->dtype);
	long double a = 4.6894e-4L * (long double)n + 1.8494e6L;
	long double bytes =
	        a * (long double)b * (long double)l * (bytes_already ? 1 : (long double)p);
	uint64_t whole = bytes < (long double)GM_TOO_MUCH ? (uint64_t)llroundl(bytes) : GM_TOO_MUCH;
	if (bytes_already)
		PUT(term, GM_FORMULA_TEXT_BYTES, GM_SOURCE_TEXT, whole, n, b, l);
	else
		PUT(term, GM_FORMULA_TEXT, GM_SOURCE_TEXT, whole, n, b, l, p);
}

void gm_estimate_activations(const struct gm_estimate_model *model,
        const struct gm_estimate_settings *settings, const struct gm_estimate_part *part,
        uint64_t in_flight, enum gm_estimate_way way, struct gm_estimate_term terms[])
{
	switch (way) {
	case GM_ESTIMATE_BY_OPERATORS:
		by_operators(&model->shape, settings, part, in_flight, terms);
		break;
	case GM_ESTIMATE_BY_PAPER:
		by_paper(&model->shape, settings, part, in_flight, &terms[GM_ESTIMATE_ACTIVATIONS]);
		break;
	case GM_ESTIMATE_BY_TEXT:
	case GM_ESTIMATE_BY_TEXT_BYTES:
		by_text(model, settings, way == GM_ESTIMATE_BY_TEXT_BYTES,
		        &terms[GM_ESTIMATE_ACTIVATIONS]);
		break;
	case GM_ESTIMATE_BY_HOOKS:
		PUT(&terms[GM_ESTIMATE_ACTIVATIONS], GM_FORMULA_HOOKS, GM_SOURCE_TEXT,
		        settings->hooked, settings->hooked);
		break;
	}
}
