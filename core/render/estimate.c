#include "render/estimate.h"
#include "render/estimate_words.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "base/size.h"

static void put_model(const struct gm_estimate_model *model, FILE *out)
{
	char number[GM_SIZE_GROUPED], active[GM_SIZE_GROUPED];
	gm_put(out, "%s: ", model->path ? model->path : "numbers");
	if (model->has_shape) {
		const struct gm_estimate_shape *shape = &model->shape;
		gm_put(out, "%s, %" PRIu64 " layers, %" PRIu64 " wide, ",
		        gm_estimate_architecture_name(shape->architecture), shape->layers,
		        shape->hidden);
	}
	gm_put(out, "%s parameters", gm_text_grouped(model->counts.total, number));
	if (model->has_shape && model->shape.experts)
		gm_put(out, ", %s active for each token",
		        gm_text_grouped(model->counts.active, active));
	gm_put(out, "\n");
}

static void put_settings(const struct gm_estimate *estimate, FILE *out)
{
	const struct gm_estimate_settings *settings = &estimate->settings;
	gm_put(out, "%s: batch %" PRIu64 " x %" PRIu64 " tokens, %s",
	        settings->inference ? "inference" : "training", settings->batch, settings->sequence,
	        gm_estimate_dtype_name(settings->dtype));
	if (!settings->inference) {
		if (settings->autocast)
			gm_put(out, " with autocast to %s",
			        gm_estimate_dtype_name(settings->autocast));
		gm_put(out, ", %s%s, attention %s", gm_estimate_optimizer_name(settings->optimizer),
		        settings->master_weights ? " with float32 master weights" : "",
		        settings->materialized ? "with its matrix" : "without its matrix");
		if (settings->checkpointing)
			gm_put(out, ", %s checkpointing",
			        gm_estimate_checkpointing_name(settings->checkpointing));
		if (settings->accumulation > 1)
			gm_put(out, ", %" PRIu64 " microbatches a step", settings->accumulation);
	}
	if (settings->world > 1)
		gm_put(out,
		        "\n%" PRIu64 " GPUs: ZeRO stage %u over %" PRIu64 " ranks, tp %" PRIu64
		        ", pp %" PRIu64 ", cp %" PRIu64 ", ep %" PRIu64 "; stage %" PRIu64
		        " of the pipeline needs most",
		        settings->world, settings->zero, estimate->data_parallel * settings->cp,
		        settings->tp, settings->pp, settings->cp, settings->ep,
		        estimate->stage + 1);
	gm_put(out, "\n");
}

/* When it is live. */
static const char *when(enum gm_estimate_term_kind kind, const struct gm_estimate *estimate)
{
	if (estimate->settings.inference)
		return "always";
	switch (kind) {
	case GM_ESTIMATE_PARAMETERS:
	case GM_ESTIMATE_STATE:
		return "always";
	case GM_ESTIMATE_GRADIENTS:
		return estimate->settings.accumulation > 1 ? "always" : "optimizer";
	case GM_ESTIMATE_INTERMEDIATES:
		return "optimizer";
	default:
		return "backward";
	}
}

static void put_term(const struct gm_estimate *estimate, enum gm_estimate_term_kind kind, FILE *out)
{
	static const char *const names[] = {
	        [GM_ESTIMATE_PARAMETERS] = "parameters",
	        [GM_ESTIMATE_GRADIENTS] = "gradients",
	        [GM_ESTIMATE_STATE] = "optimizer state",
	        [GM_ESTIMATE_INTERMEDIATES] = "optimizer's intermediates",
	        [GM_ESTIMATE_ACTIVATIONS] = "activations",
	        [GM_ESTIMATE_LOSS] = "backward of the loss",
	        [GM_ESTIMATE_COPIES] = "autocast's copies",
	        [GM_ESTIMATE_GATHERED] = "a gathered layer",
	        [GM_ESTIMATE_KV_CACHE] = "KV cache",
	        [GM_ESTIMATE_WORKING] = "tensors of one layer",
	};
	const struct gm_estimate_term *term = &estimate->terms[kind];
	char size[GM_SIZE_TEXT], bytes[GM_SIZE_GROUPED];
	_cleanup_free_ char *filled = gm_estimate_formula_filled(term);
	gm_put(out, "%11s  %19s  %-25s  %-9s  %s = %s [%s]%s\n", gm_text_size(term->bytes, size),
	        gm_text_grouped(term->bytes, bytes), names[kind], when(kind, estimate),
	        gm_estimate_formula_text(term->formula)->text, filled ? filled : "?",
	        gm_estimate_source_name(term->source), term->host ? ", on the host" : "");
}

static void put_peaks(const struct gm_estimate *estimate, FILE *out)
{
	static const char *const peaks[] = {
	        [GM_ESTIMATE_PEAK_BACKWARD] = "where backward begins",
	        [GM_ESTIMATE_PEAK_OPTIMIZER] = "in the optimizer's step",
	        [GM_ESTIMATE_PEAK_INFERENCE] = "with a full cache",
	};
	char size[GM_SIZE_TEXT], bytes[GM_SIZE_GROUPED], other[GM_SIZE_TEXT];
	gm_put(out, "%11s  %19s  total for each GPU, %s", gm_text_size(estimate->total, size),
	        gm_text_grouped(estimate->total, bytes), peaks[estimate->peak]);
	if (estimate->peak == GM_ESTIMATE_PEAK_BACKWARD)
		gm_put(out, " (in the optimizer's step %s)",
		        gm_text_size(estimate->optimizer, other));
	else if (estimate->peak == GM_ESTIMATE_PEAK_OPTIMIZER)
		gm_put(out, " (where backward begins %s)", gm_text_size(estimate->backward, other));
	gm_put(out, "\n");
	if (!estimate->settings.inference)
		gm_put(out,
		        "%11s  %19s  of it model states: parameters, gradients, optimizer state\n",
		        gm_text_size(estimate->states, size),
		        gm_text_grouped(estimate->states, bytes));
	if (estimate->host)
		gm_put(out, "%11s  %19s  in addition, in the host's memory\n",
		        gm_text_size(estimate->host, size), gm_text_grouped(estimate->host, bytes));
}

static void put_ways(const struct gm_estimate *estimate, FILE *out)
{
	static const char *const ways[] = {
	        [GM_ESTIMATE_BY_OPERATORS] = "the tensors that operators keep",
	        [GM_ESTIMATE_BY_PAPER] = "Korthikanti et al., 2 bytes a value",
	        [GM_ESTIMATE_BY_TEXT] = "A x B x L x P, as the text prints it",
	        [GM_ESTIMATE_BY_TEXT_BYTES] = "A x B x L, A in bytes",
	        [GM_ESTIMATE_BY_HOOKS] = "what modules return, counted by hooks",
	};
	char activations[GM_SIZE_TEXT], total[GM_SIZE_TEXT];
	if (!estimate->other_count)
		return;
	gm_put(out, "activations by    its total     --activations\n");
	for (size_t i = 0; i < estimate->other_count; i++) {
		const struct gm_estimate_other *one = &estimate->others[i];
		gm_put(out, "%14s  %13s   %-10s %s%s\n",
		        gm_text_size(one->activations, activations),
		        gm_text_size(one->total, total), gm_estimate_way_name(one->way),
		        ways[one->way], one->way == estimate->settings.way ? " (used above)" : "");
	}
}

static void put_notes(const struct gm_estimate_answer *answer, FILE *out)
{
	static const char *const notes[] = {
	        [GM_NOTE_A_IS_BYTES] =
	                "A was fitted to bytes of float32 for each token, not to numbers of "
	                "values: "
	                "A x B x L x P multiplies by 4 a second time. text-bytes leaves it out.",
	        [GM_NOTE_TOTALS_DIFFER] =
	                "The text's summary takes max(gradients, intermediates, activations). But "
	                "gradients and intermediates exist at the same time, so the text's earlier "
	                "formula is used: max(gradients + intermediates, activations).",
	        [GM_NOTE_AUTOCAST_KEEPS] =
	                "Autocast halves no parameter: it adds a copy of each matrix in 16 bits.",
	        [GM_NOTE_SELECTIVE_NOTHING] = "Selective checkpointing saves nothing here: this "
	                                      "attention keeps no matrix.",
	        [GM_NOTE_MLA_CACHE] =
	                "The cache holds keys and values of all heads, as transformers keeps them. "
	                "An engine that keeps latents needs kv_lora_rank + qk_rope_head_dim values "
	                "a "
	                "token and layer.",
	        [GM_NOTE_QUANTIZED] = "The config names a quantization, which is not counted: the "
	                              "parameters have "
	                              "--dtype.",
	        [GM_NOTE_NOT_MEASURED] =
	                "What this architecture (with autocast: any architecture with experts) "
	                "keeps for backward was derived from similar ones. Compared with PyTorch, "
	                "it was off by up to 30 %.",
	        [GM_NOTE_NO_ACTIVATIONS_EXACT] = "Only the number of parameters is known: "
	                                         "activations come from a line fitted "
	                                         "to other models.",
	        [GM_NOTE_INDEX_ALONE] =
	                "The files that the index names are missing: the number of parameters is "
	                "the one in the index.",
	        [GM_NOTE_PAPER_ARCHITECTURE] = "The paper's layer is GPT's, with dropout and an "
	                                       "MLP four times as wide; this model's layer is "
	                                       "different.",
	        [GM_NOTE_HOOKS_OUTPUTS] =
	                "Hooks see what each module returns, also modules within modules, and not "
	                "what operators keep for backward. They see neither checkpointing nor "
	                "autocast.",
	};
	const struct gm_estimate *estimate = &answer->estimate;
	char size[GM_SIZE_TEXT];
	for (unsigned i = 0; i < GM_ESTIMATE_NOTES; i++) {
		if (!estimate->notes[i])
			continue;
		gm_put(out, "note: %s", notes[i]);
		if (i == GM_NOTE_TOTALS_DIFFER)
			gm_put(out, " The summary's total would be %s.",
			        gm_text_size(estimate->text_summary, size));
		gm_put(out, "\n");
	}
}

static void put_compared(
        const char *name, bool formula, uint64_t estimated, uint64_t simulated, FILE *out)
{
	char left[GM_SIZE_GROUPED], right[GM_SIZE_GROUPED];
	gm_put(out, "%-22s  %19s  %19s", name, formula ? gm_text_grouped(estimated, left) : "-",
	        gm_text_grouped(simulated, right));
	if (formula && simulated)
		gm_put(out, "  %+7.2f %%",
		        100 * ((double)estimated - (double)simulated) / (double)simulated);
	gm_put(out, "\n");
}

static void put_simulated(const struct gm_estimate_answer *answer, FILE *out)
{
	const struct gm_estimate_simulated *found = &answer->simulated;
	const struct gm_estimate *estimate = &answer->estimate;
	const struct gm_estimate_term *terms = estimate->terms;
	const bool formula = answer->has_formula;
	char reserved[GM_SIZE_TEXT], total[GM_SIZE_TEXT];
	gm_put(out,
	        "built by transformers %s on PyTorch %s, on a simulated device\n"
	        "%-22s  %19s  %19s  %9s\n",
	        found->transformers, found->torch, "", "FORMULA", "SIMULATED", "FORMULA IS");
	put_compared("parameters", formula, terms[GM_ESTIMATE_PARAMETERS].bytes,
	        found->parameter_bytes, out);
	if (estimate->settings.inference) {
		put_compared("KV cache", formula, terms[GM_ESTIMATE_KV_CACHE].bytes,
		        found->kv_cache, out);
		put_compared("total", formula, estimate->total, found->inference, out);
	} else {
		put_compared("gradients", formula, terms[GM_ESTIMATE_GRADIENTS].bytes,
		        found->gradients, out);
		put_compared("optimizer state", formula, terms[GM_ESTIMATE_STATE].bytes,
		        found->state, out);
		if (!estimate->settings.checkpointing)
			put_compared("activations, copies", formula,
			        terms[GM_ESTIMATE_ACTIVATIONS].bytes +
			                terms[GM_ESTIMATE_COPIES].bytes,
			        found->activations, out);
		put_compared("peak of backward", formula, estimate->backward, found->backward, out);
		put_compared("peak of the optimizer", formula, estimate->optimizer,
		        found->optimizer, out);
	}
	gm_put(out,
	        "%s are allocated at the simulated peak, %s reserved. A formula has no workspaces "
	        "of "
	        "cuBLAS, no temporaries within backward and no rounding by the allocator.\n",
	        gm_text_size(found->total, total), gm_text_size(found->reserved, reserved));
}

static void put_hooked(const struct gm_estimate_answer *answer, FILE *out)
{
	const struct gm_estimate_hooked *found = &answer->hooked;
	char token[GM_SIZE_GROUPED], modules[GM_SIZE_GROUPED];
	gm_put(out,
	        "built by transformers %s on PyTorch %s, on %s: %s modules return %s bytes for one "
	        "token\n",
	        found->transformers, found->torch,
	        found->on_meta ? "the meta device" : "a simulated device",
	        gm_text_grouped(found->modules, modules), gm_text_grouped(found->token, token));
}

static void put_formula(const struct gm_estimate_answer *answer, FILE *out)
{
	const struct gm_estimate *estimate = &answer->estimate;
	gm_put(out, "%11s  %19s  %-25s  %-9s  %s\n", "SIZE", "BYTES", "TERM", "THERE",
	        "FORMULA [SOURCE]");
	for (unsigned i = 0; i < GM_ESTIMATE_TERMS; i++)
		if (estimate->terms[i].there)
			put_term(estimate, (enum gm_estimate_term_kind)i, out);
	put_peaks(estimate, out);
	put_ways(estimate, out);
	put_notes(answer, out);
}

void gm_render_estimate_text(const struct gm_estimate_answer *answer, FILE *out)
{
	uint64_t limit = answer->estimate.settings.budget;
	char budget[GM_SIZE_TEXT], over[GM_SIZE_TEXT];
	put_model(&answer->model, out);
	put_settings(&answer->estimate, out);
	if (answer->has_formula)
		put_formula(answer, out);
	else
		gm_put(out, "The formula does not know this architecture.\n");
	if (answer->has_hooked)
		put_hooked(answer, out);
	if (answer->has_simulated)
		put_simulated(answer, out);
	if (!limit)
		return;
	gm_text_size(limit, budget);
	if (answer->fits)
		gm_put(out, "It fits in %s: %s are left.\n", budget,
		        gm_text_size(limit - answer->total, over));
	else
		gm_put(out, "It does not fit in %s: %s are missing.\n", budget,
		        gm_text_size(answer->total - limit, over));
}
