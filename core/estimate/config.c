/*
 * A transformers config.json as a shape.
 *
 * Each number is checked when it is read: it is an integer, at least one (or zero, if zero makes
 * sense) and at most a bound far beyond any model, so that later products saturate rarely. Fields
 * that the architecture does not have are ignored, as in transformers. A field that would change
 * the tensors in an unknown way makes the config an error.
 */
#include <string.h>

#include "base/cleanup.h"
#include "estimate/internal.h"

enum {
	MOST_LAYERS = 1 << 16,
	MOST_WIDTH = 1 << 28,
	MOST_EXPERTS = 1 << 16,
	MOST_DENSE = 1 << 16, /* items of mlp_only_layers */
};

struct reader {
	const json_t *root; /* NULL: there is no file */
	const char *path;
};

static const char *where(const struct reader *reader)
{
	return reader->path ? reader->path : "estimate";
}

static struct gm_error *wrong(
        const struct reader *reader, const char *field, const char *why, const char *what)
{
	return gm_error_in_file(gm_error_create(reader->path ? GM_CORRUPT : GM_USAGE,
	                                "%s: %s: %s: %s", where(reader), field, why, what),
	        reader->path);
}

static const json_t *value(const struct reader *reader, const char *field)
{
	const json_t *found = reader->root ? json_object_get(reader->root, field) : NULL;
	return json_is_null(found) ? NULL : found;
}

/* `given`, from the command line, takes precedence over the file. If neither has it: `fallback`. */
static struct gm_error *take(const struct reader *reader, const char *field, uint64_t given,
        uint64_t least, uint64_t most, uint64_t fallback, uint64_t *ret)
{
	const json_t *found = value(reader, field);
	uint64_t number = given;
	char range[96];
	snprintf(range, sizeof(range), "give a whole number from %llu to %llu",
	        (unsigned long long)least, (unsigned long long)most);
	if (!given && !found) {
		*ret = fallback;
		return NULL;
	}
	if (!given) {
		json_int_t integer = json_integer_value(found);
		if (!json_is_integer(found))
			return wrong(reader, field, "it is not a whole number", range);
		if (integer < 0)
			return wrong(reader, field, "it is negative", range);
		number = (uint64_t)integer;
	}
	if (number < least || number > most)
		return wrong(reader, field, number < least ? "it is too small" : "it is too large",
		        range);
	*ret = number;
	return NULL;
}

static struct gm_error *need(const struct reader *reader, const char *field, const char *option,
        uint64_t given, uint64_t most, uint64_t *ret)
{
	char what[80];
	*ret = 0;
	gm_try(take(reader, field, given, 1, most, 0, ret));
	if (*ret)
		return NULL;
	snprintf(
	        what, sizeof(what), option ? "add the field, or give %s" : "add the field", option);
	return wrong(reader, field, "it is missing", what);
}

static struct gm_error *take_switch(
        const struct reader *reader, const char *field, bool fallback, bool *ret)
{
	const json_t *found = value(reader, field);
	*ret = fallback;
	if (!found)
		return NULL;
	if (!json_is_boolean(found))
		return wrong(reader, field, "it is not true or false", "write true or false");
	*ret = json_is_true(found);
	return NULL;
}

static struct gm_error *take_row_switch(
        const struct reader *reader, const struct gm_estimate_switch *of, bool *ret)
{
	*ret = of->on;
	return of->field ? take_switch(reader, of->field, of->on, ret) : NULL;
}

/* --- fields that change the tensors in unknown ways ------------------------------------------- */

static const struct {
	const char *architecture, *field;
	bool usual;
} refused[] = {
        {"phi", "qk_layernorm", false},
        {"opt", "enable_bias", true},
        {"opt", "layer_norm_elementwise_affine", true},
        {"opt", "do_layer_norm_before", true},
        {"opt", "_remove_final_layer_norm", false},
        {"gpt2", "add_cross_attention", false},
        {"deepseek_v2", "mlp_bias", false},
};

static struct gm_error *refuse_unusual(const struct reader *reader, const char *name)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		bool on;
		if (strcmp(refused[i].architecture, name) != 0)
			continue;
		gm_try(take_switch(reader, refused[i].field, refused[i].usual, &on));
		if (on != refused[i].usual)
			return wrong(reader, refused[i].field,
			        "the formula does not know such a model",
			        "use --method simulate, which builds the model");
	}
	return NULL;
}

/* --- parts ------------------------------------------------------------------------------------ */

static struct gm_error *take_attention(const struct reader *reader,
        const struct gm_estimate_numbers *given, struct gm_estimate_shape *shape)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	const bool gpt2 = row->fields == GM_FIELDS_GPT2;
	gm_try(need(reader, gpt2 ? "n_head" : "num_attention_heads", "--heads", given->heads,
	        MOST_WIDTH, &shape->heads));
	shape->kv_heads = shape->heads;
	if (!row->no_kv_heads)
		gm_try(take(reader, "num_key_value_heads", given->kv_heads, 1, MOST_WIDTH,
		        reader->root && row->kv_heads ? row->kv_heads : shape->heads,
		        &shape->kv_heads));
	if (row->mla) {
		gm_try(need(reader, "kv_lora_rank", NULL, 0, MOST_WIDTH, &shape->kv_rank));
		gm_try(take(reader, "q_lora_rank", 0, 1, MOST_WIDTH,
		        reader->root && json_object_get(reader->root, "q_lora_rank") ? 0 : 1536,
		        &shape->q_rank));
		gm_try(need(reader, "qk_nope_head_dim", NULL, 0, MOST_WIDTH, &shape->nope_dim));
		gm_try(need(reader, "qk_rope_head_dim", NULL, 0, MOST_WIDTH, &shape->rope_dim));
		gm_try(need(reader, "v_head_dim", NULL, 0, MOST_WIDTH, &shape->v_dim));
		shape->head_dim = shape->nope_dim + shape->rope_dim;
		shape->kv_heads = shape->heads;
		return NULL;
	}
	uint64_t usual = shape->hidden / shape->heads;
	if (row->head_dim)
		usual = row->head_dim;
	/* These architectures compute it, whatever the config says. */
	if (gpt2 || row->fields == GM_FIELDS_OPT || row->no_kv_heads)
		shape->head_dim = usual;
	else
		gm_try(take(reader, "head_dim", given->head_dim, 1, MOST_WIDTH, usual,
		        &shape->head_dim));
	if (!shape->head_dim)
		return wrong(reader, gpt2 ? "n_head" : "num_attention_heads",
		        "there are more heads than the model is wide", "check both fields");
	if (shape->heads % shape->kv_heads != 0)
		return wrong(reader, "num_key_value_heads",
		        "it does not divide the number of attention heads", "check both fields");
	return NULL;
}

static struct gm_error *take_dense_layers(
        const struct reader *reader, struct gm_estimate_shape *shape)
{
	const json_t *list = value(reader, "mlp_only_layers");
	if (!list)
		return NULL;
	size_t count = json_array_size(list);
	if (!json_is_array(list) || count > MOST_DENSE)
		return wrong(reader, "mlp_only_layers", "it is not a list of layers",
		        "give a list of at most 65,536 numbers");
	shape->dense_layers = calloc(count ? count : 1, sizeof(*shape->dense_layers));
	if (!shape->dense_layers)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++) {
		const json_t *item = json_array_get(list, i);
		if (!json_is_integer(item) || json_integer_value(item) < 0)
			return wrong(reader, "mlp_only_layers", "an item is not a layer's number",
			        "give whole numbers from 0");
		shape->dense_layers[i] = (uint64_t)json_integer_value(item);
	}
	shape->dense_layer_count = count;
	return NULL;
}

static struct gm_error *take_experts(const struct reader *reader, struct gm_estimate_shape *shape)
{
	const enum gm_estimate_moe moe = shape->architecture->moe;
	const char *experts = moe == GM_MOE_DEEPSEEK ? "n_routed_experts" : "num_experts";
	uint64_t shared;
	shape->sparse_step = 1;
	if (moe == GM_MOE_NONE)
		return NULL;
	if (moe == GM_MOE_MIXTRAL || moe == GM_MOE_GPT_OSS || !value(reader, experts))
		experts = value(reader, "num_local_experts") || moe != GM_MOE_DEEPSEEK
		                  ? "num_local_experts"
		                  : experts;
	gm_try(need(reader, experts, NULL, 0, MOST_EXPERTS, &shape->experts));
	gm_try(need(
	        reader, "num_experts_per_tok", NULL, 0, MOST_EXPERTS, &shape->experts_per_token));
	if (shape->experts_per_token > shape->experts)
		return wrong(reader, "num_experts_per_tok", "there are fewer experts",
		        "check both fields");
	if (moe == GM_MOE_MIXTRAL || moe == GM_MOE_GPT_OSS) {
		shape->expert_intermediate = shape->intermediate;
		return NULL;
	}
	gm_try(need(
	        reader, "moe_intermediate_size", NULL, 0, MOST_WIDTH, &shape->expert_intermediate));
	if (moe == GM_MOE_DEEPSEEK) {
		gm_try(take(reader, "n_shared_experts", 0, 0, MOST_EXPERTS,
		        strcmp(shape->architecture->name, "deepseek_v2") == 0 ? 2 : 1, &shared));
		shape->shared_intermediate = gm_times(shared, shape->expert_intermediate);
		return take(reader, "first_k_dense_replace", 0, 0, MOST_LAYERS,
		        strcmp(shape->architecture->name, "deepseek_v2") == 0 ? 0 : 3,
		        &shape->dense_first);
	}
	if (strcmp(shape->architecture->name, "qwen2_moe") == 0)
		gm_try(need(reader, "shared_expert_intermediate_size", NULL, 0, MOST_WIDTH,
		        &shape->shared_intermediate));
	gm_try(take(reader, "decoder_sparse_step", 0, 1, MOST_LAYERS, 1, &shape->sparse_step));
	return take_dense_layers(reader, shape);
}

/* The number of layers with a sliding window: from its length and the kinds of the layers. */
static struct gm_error *take_window(const struct reader *reader, struct gm_estimate_shape *shape)
{
	const json_t *kinds = value(reader, "layer_types");
	bool used;
	gm_try(take(reader, "sliding_window", 0, 0, MOST_WIDTH, 0, &shape->window));
	gm_try(take_switch(reader, "use_sliding_window", true, &used));
	if (!shape->window || !used)
		return NULL;
	if (!kinds) {
		shape->window_layers = shape->layers;
		return NULL;
	}
	for (size_t i = 0; i < json_array_size(kinds) && i < shape->layers; i++) {
		const char *kind = json_string_value(json_array_get(kinds, i));
		shape->window_layers += kind && strcmp(kind, "sliding_attention") == 0;
	}
	return NULL;
}

/* For an MLP without a gate: the function's input, the tensors that it saves, its output. */
static unsigned activation_tensors(const char *function)
{
	if (strcmp(function, "relu") == 0)
		return 1; /* the output serves for all */
	if (strcmp(function, "gelu_new") == 0)
		return 5; /* implemented in Python: x, its power, tanh, two factors */
	return 2;
}

static struct gm_error *take_mlp(const struct reader *reader,
        const struct gm_estimate_numbers *given, struct gm_estimate_shape *shape)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	const json_t *function = value(reader, "activation_function");
	if (!function)
		function = value(reader, "hidden_act");
	if (function && !json_is_string(function))
		return wrong(reader, "hidden_act", "it is not a name", "write a name, as \"silu\"");
	const char *usual = row->fields == GM_FIELDS_OPT    ? "relu"
	                    : row->fields == GM_FIELDS_GPT2 ? "gelu_new"
	                    : strcmp(row->name, "phi") == 0 ? "gelu_new"
	                                                    : "gelu";
	shape->activation_tensors =
	        row->gated ? 4 : activation_tensors(function ? json_string_value(function) : usual);
	shape->gelu_new = !row->gated && shape->activation_tensors == 5;
	if (row->fields == GM_FIELDS_GPT2)
		return take(reader, "n_inner", given->intermediate, 1, MOST_WIDTH,
		        gm_times(4, shape->hidden), &shape->intermediate);
	return need(reader, row->fields == GM_FIELDS_OPT ? "ffn_dim" : "intermediate_size",
	        "--intermediate", given->intermediate, MOST_WIDTH, &shape->intermediate);
}

static bool is_capped(
        const struct reader *reader, const struct gm_estimate_architecture *row, const char *field)
{
	return row->capped && !(reader->root && json_is_null(json_object_get(reader->root, field)));
}

static struct gm_error *take_dropout(const struct reader *reader, struct gm_estimate_shape *shape)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	const char *of_attention =
	        row->fields == GM_FIELDS_GPT2 ? "attn_pdrop" : "attention_dropout";
	const json_t *residual = row->dropout ? value(reader, row->dropout) : NULL,
	             *attention = value(reader, of_attention);
	shape->dropout = row->dropout && (!residual || json_number_value(residual) > 0);
	shape->attention_dropout =
	        attention ? json_number_value(attention) > 0 : row->fields == GM_FIELDS_GPT2;
	shape->capped_attention = is_capped(reader, row, "attn_logit_softcapping");
	shape->capped_logits = is_capped(reader, row, "final_logit_softcapping");
	return NULL;
}

static struct gm_error *take_shape(const struct reader *reader,
        const struct gm_estimate_numbers *given, struct gm_estimate_shape *shape)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	const bool gpt2 = row->fields == GM_FIELDS_GPT2;
	uint64_t embedded;
	gm_try(refuse_unusual(reader, row->name));
	gm_try(need(reader, gpt2 ? "n_embd" : "hidden_size", "--hidden", given->hidden, MOST_WIDTH,
	        &shape->hidden));
	gm_try(need(reader, gpt2 ? "n_layer" : "num_hidden_layers", "--layers", given->layers,
	        MOST_LAYERS, &shape->layers));
	gm_try(need(reader, "vocab_size", "--vocab", given->vocab, MOST_WIDTH, &shape->vocab));
	gm_try(take_attention(reader, given, shape));
	gm_try(take_mlp(reader, given, shape));
	gm_try(take_experts(reader, shape));
	gm_try(take_window(reader, shape));
	gm_try(take_dropout(reader, shape));
	gm_try(take_switch(reader, "tie_word_embeddings", row->tied, &shape->tied));
	gm_try(take_row_switch(reader, &row->qkv_bias, &shape->qkv_bias));
	gm_try(take_row_switch(reader, &row->o_bias, &shape->o_bias));
	gm_try(take_row_switch(reader, &row->mlp_bias, &shape->mlp_bias));
	if (row->positions) {
		gm_try(take(reader, gpt2 ? "n_positions" : "max_position_embeddings", 0, 1,
		        MOST_WIDTH, gpt2 ? 1024 : 2048, &shape->positions));
		shape->positions += row->more_positions;
	}
	if (row->fields != GM_FIELDS_OPT)
		return NULL;
	gm_try(take(reader, "word_embed_proj_dim", 0, 1, MOST_WIDTH, shape->hidden, &embedded));
	return embedded == shape->hidden ? NULL
	                                 : wrong(reader, "word_embed_proj_dim",
	                                           "the formula does not know such a model",
	                                           "use --method simulate, which builds the model");
}

static struct gm_error *find_architecture(const struct reader *reader,
        const struct gm_estimate_numbers *given, struct gm_estimate_shape *shape)
{
	const json_t *type = value(reader, "model_type");
	const char *name = given->architecture;
	if (!name && type && !json_is_string(type))
		return wrong(
		        reader, "model_type", "it is not a name", "write a name, as \"llama\"");
	if (!name && !type && reader->root)
		return wrong(reader, "model_type", "it is missing",
		        "add the field, or give --architecture");
	if (!name)
		name = type ? json_string_value(type) : "llama";
	shape->architecture = gm_estimate_architecture_find(name);
	if (shape->architecture || given->any_architecture)
		return NULL;
	return gm_error_in_file(
	        gm_error_create(reader->path && !given->architecture ? GM_CORRUPT : GM_USAGE,
	                "%s: model_type: the formula does not know '%.100s': "
	                "use --method simulate, which builds the model, or see "
	                "gpumem estimate --help",
	                where(reader), name),
	        reader->path);
}

struct gm_error *gm_estimate_config(const json_t *root, const char *path,
        const struct gm_estimate_numbers *given, struct gm_estimate_model *model)
{
	const struct reader reader = {root, path};
	const json_t *dtype = value(&reader, "dtype");
	gm_try(find_architecture(&reader, given, &model->shape));
	if (!model->shape.architecture)
		return NULL;
	gm_try(take_shape(&reader, given, &model->shape));
	if (!dtype)
		dtype = value(&reader, "torch_dtype");
	if (json_is_string(dtype))
		model->dtype = gm_estimate_dtype_named(json_string_value(dtype));
	model->quantized = value(&reader, "quantization_config") != NULL;
	model->has_shape = true;
	gm_estimate_count(&model->shape, &model->counts);
	return NULL;
}
