/* The formulas as text, and the names of everything in an estimate. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "base/size.h"
#include "render/estimate_words.h"

static const struct gm_estimate_formula_text formulas[] = {
        [GM_FORMULA_SHARDED] = {"ceil(N / Z) * P", "NZP"},
        [GM_FORMULA_SHARDED_EXPERTS] = {"(ceil(N / Z) + ceil(E / Y)) * P", "NZEYP"},
        [GM_FORMULA_8BIT] = {"K * N + 8 * ceil(N / 256)", "NK"},
        [GM_FORMULA_LAYERS] = {"F * (M * A + X * B + R)", "FMAXBR"},
        [GM_FORMULA_CHECKPOINTS] = {"F * M * I + max(A, R)", "FMIAR"},
        [GM_FORMULA_OFFLOADED] = {"A + R", "AR"},
        [GM_FORMULA_PAPER] = {"F * M * s * b * (10 * h + ceil(24 * h / t) + ceil(5 * a * s / t))",
                "FMsbhat"},
        [GM_FORMULA_PAPER_SEQUENCE] = {"F * M * s * b * ceil((34 * h + 5 * a * s) / t)", "FMsbhat"},
        [GM_FORMULA_PAPER_SELECTIVE] = {"F * M * s * b * (10 * h + ceil(24 * h / t))", "FMsbht"},
        [GM_FORMULA_PAPER_SELECTIVE_SEQUENCE] = {"F * M * s * b * ceil(34 * h / t)", "FMsbht"},
        [GM_FORMULA_PAPER_FULL] = {"F * M * s * b * 2 * h", "FMsbh"},
        [GM_FORMULA_TEXT] = {"(4.6894e-4 * N + 1.8494e6) * B * L * P", "NBLP"},
        [GM_FORMULA_TEXT_BYTES] = {"(4.6894e-4 * N + 1.8494e6) * B * L", "NBL"},
        [GM_FORMULA_HOOKS] = {"A", "A"},
        [GM_FORMULA_LOSS] = {"2 * T * V * 4", "TV"},
        [GM_FORMULA_KV] = {"B * (M * C + X * W) * k * P", "BMCXWkP"},
        [GM_FORMULA_WORKING] = {"(T * w + B * V) * P", "TwBVP"},
};

const struct gm_estimate_formula_text *gm_estimate_formula_text(enum gm_estimate_formula formula)
{
	return &formulas[formula];
}

/* A letter that is an operand, not part of a word or number. */
static const char *operand_at(const char *text, size_t at, const char *operands)
{
	const char *found = strchr(operands, text[at]);
	bool alone = (at == 0 || !isalnum((unsigned char)text[at - 1])) &&
	             !isalnum((unsigned char)text[at + 1]);
	return alone && text[at] ? found : NULL;
}

char *gm_estimate_formula_filled(const struct gm_estimate_term *term)
{
	const struct gm_estimate_formula_text *formula = &formulas[term->formula];
	char *text = NULL, number[GM_SIZE_GROUPED];
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	for (size_t i = 0; formula->text[i]; i++) {
		const char *operand = operand_at(formula->text, i, formula->operands);
		if (operand)
			gm_put(out, "%s",
			        gm_text_grouped(
			                term->operands[operand - formula->operands], number));
		else
			gm_put(out, "%c", formula->text[i]);
	}
	fclose(out);
	return text;
}

#define NAMES(function, type, ...)                                \
	const char *function(type value)                          \
	{                                                         \
		static const char *const names[] = {__VA_ARGS__}; \
		return names[value];                              \
	}

NAMES(gm_estimate_term_name, enum gm_estimate_term_kind, [GM_ESTIMATE_PARAMETERS] = "parameters",
        [GM_ESTIMATE_GRADIENTS] = "gradients", [GM_ESTIMATE_STATE] = "optimizer_state",
        [GM_ESTIMATE_INTERMEDIATES] = "optimizer_intermediates",
        [GM_ESTIMATE_ACTIVATIONS] = "activations", [GM_ESTIMATE_LOSS] = "loss_backward",
        [GM_ESTIMATE_COPIES] = "autocast_copies", [GM_ESTIMATE_GATHERED] = "gathered_layer",
        [GM_ESTIMATE_KV_CACHE] = "kv_cache", [GM_ESTIMATE_WORKING] = "working")
NAMES(gm_estimate_source_name, enum gm_estimate_source, [GM_SOURCE_TEXT] = "train_memory",
        [GM_SOURCE_ZERO] = "zero", [GM_SOURCE_ACTIVATIONS] = "activation_recomputation",
        [GM_SOURCE_OPERATORS] = "operators", [GM_SOURCE_BITSANDBYTES] = "bitsandbytes")
NAMES(gm_estimate_way_name, enum gm_estimate_way, [GM_ESTIMATE_BY_OPERATORS] = "operators",
        [GM_ESTIMATE_BY_PAPER] = "paper", [GM_ESTIMATE_BY_TEXT] = "text",
        [GM_ESTIMATE_BY_TEXT_BYTES] = "text-bytes", [GM_ESTIMATE_BY_HOOKS] = "hooks")
NAMES(gm_estimate_note_name, enum gm_estimate_note, [GM_NOTE_A_IS_BYTES] = "text_a_counts_bytes",
        [GM_NOTE_TOTALS_DIFFER] = "text_totals_differ",
        [GM_NOTE_AUTOCAST_KEEPS] = "autocast_keeps_parameters",
        [GM_NOTE_SELECTIVE_NOTHING] = "selective_saves_nothing",
        [GM_NOTE_MLA_CACHE] = "latent_cache_is_smaller", [GM_NOTE_QUANTIZED] = "quantized",
        [GM_NOTE_NOT_MEASURED] = "activations_not_compared",
        [GM_NOTE_NO_ACTIVATIONS_EXACT] = "activations_by_fit",
        [GM_NOTE_INDEX_ALONE] = "index_alone", [GM_NOTE_PAPER_ARCHITECTURE] = "paper_is_of_gpt",
        [GM_NOTE_HOOKS_OUTPUTS] = "hooks_count_outputs")
NAMES(gm_estimate_checkpointing_name,
        enum gm_estimate_checkpointing, [GM_ESTIMATE_CHECKPOINT_NONE] = "none",
        [GM_ESTIMATE_CHECKPOINT_SELECTIVE] = "selective", [GM_ESTIMATE_CHECKPOINT_FULL] = "full")
NAMES(gm_estimate_peak_name, enum gm_estimate_peak, [GM_ESTIMATE_PEAK_BACKWARD] = "backward",
        [GM_ESTIMATE_PEAK_OPTIMIZER] = "optimizer", [GM_ESTIMATE_PEAK_INFERENCE] = "inference")
NAMES(gm_estimate_input_name,
        enum gm_estimate_input, [GM_ESTIMATE_NUMBERS] = "numbers", [GM_ESTIMATE_CONFIG] = "config",
        [GM_ESTIMATE_SAFETENSORS] = "safetensors", [GM_ESTIMATE_INDEX] = "safetensors_index")
