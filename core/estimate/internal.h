/* What the files of this room share. */
#ifndef GM_ESTIMATE_INTERNAL_H
#define GM_ESTIMATE_INTERNAL_H

#include <jansson.h>

#include "estimate/amount.h"
#include "estimate/estimate.h"

/* RMS_FLOAT: the normalised input is float32 whatever the model is. */
enum gm_estimate_norm { GM_NORM_RMS, GM_NORM_RMS_FLOAT, GM_NORM_LAYER };
enum gm_estimate_qk_norm { GM_QK_NONE, GM_QK_HEAD, GM_QK_ALL };
enum gm_estimate_moe { GM_MOE_NONE, GM_MOE_MIXTRAL, GM_MOE_QWEN, GM_MOE_DEEPSEEK, GM_MOE_GPT_OSS };
/* Fields have other names there. */
enum gm_estimate_fields { GM_FIELDS_USUAL, GM_FIELDS_GPT2, GM_FIELDS_OPT };

/* A switch of a config: always on or off, or a field with a default. */
struct gm_estimate_switch {
	const char *field; /* NULL: none, `on` holds */
	bool on;
};

/*
 * One row an architecture: what its modeling code in transformers makes of a config, where that is
 * not in the config. A new architecture is a row, if no rule is new, and a line of
 * tests/tools/estimate_truth.py, which compares with the real model.
 */
struct gm_estimate_architecture {
	const char *name; /* model_type */
	enum gm_estimate_fields fields;
	bool gated;      /* the MLP has a gate: three matrices */
	bool fused;      /* one matrix makes queries, keys and values */
	bool fused_gate; /* one matrix makes gate and up */
	bool parallel;   /* attention and MLP read the same residual stream */
	enum gm_estimate_norm norm;
	unsigned norms; /* a layer's */
	enum gm_estimate_qk_norm qk_norm;
	struct gm_estimate_switch qkv_bias, o_bias, mlp_bias;
	bool head_bias, no_kv_heads /* one for each head */, mla, sinks;
	uint64_t kv_heads; /* where the config names none; 0: as many as heads */
	uint64_t head_dim; /* likewise; 0: hidden / heads */
	bool tied;         /* likewise */
	enum gm_estimate_moe moe;
	bool positions; /* learned */
	unsigned more_positions;
	const char *dropout; /* the field of the residual's; NULL: none */
	bool copied; /* what attention returns must be copied before the next matrix, in 16 bits
	              */
	bool capped; /* attention and logits go through a tanh, unless the config says null */
	bool softmax_float; /* the materialized matrix is made in float32, and cast */
	bool measured;      /* what is kept for backward was compared */
};

const struct gm_estimate_architecture *gm_estimate_architecture_find(const char *name);

/* Fills shape, dtype and quantized of a config. `root` may be NULL: numbers alone. */
struct gm_error *gm_estimate_config(const json_t *root, const char *path,
        const struct gm_estimate_numbers *given, struct gm_estimate_model *model);
/* Bytes of a whole safetensors file, or of its beginning: its header is examined. */
struct gm_error *gm_estimate_safetensors(
        const char *bytes, size_t size, const char *path, struct gm_estimate_model *model);
/* An index: {"metadata": ..., "weight_map": ...}. */
struct gm_error *gm_estimate_index(
        const json_t *root, const char *path, struct gm_estimate_model *model);
/* The whole of a regular file, at most `most` bytes, NUL after it; the caller frees it. With
 * `beginning` only that many are read of a larger one. */
struct gm_error *gm_estimate_file(
        const char *path, size_t most, bool beginning, char **ret_bytes, size_t *ret_size);
struct gm_error *gm_estimate_json(
        const char *bytes, size_t size, const char *path, json_t **ret_root);

bool gm_estimate_has_experts(const struct gm_estimate_shape *shape, uint64_t layer);
void gm_estimate_count(
        const struct gm_estimate_shape *shape, struct gm_estimate_counts *ret_counts);

/* A stage of the pipeline as one of its tp ranks has it. */
struct gm_estimate_part {
	uint64_t dense_layers, moe_layers;
	bool first, last;
	uint64_t parameters; /* not of experts */
	uint64_t experts;
	uint64_t linear, head; /* of matrices that autocast copies: all, the head's */
	uint64_t largest_layer;
};
void gm_estimate_part(const struct gm_estimate_shape *shape,
        const struct gm_estimate_settings *settings, uint64_t stage,
        struct gm_estimate_part *ret_part);

/* What is kept for backward, in bytes, of one microbatch on one GPU. */
struct gm_estimate_kept {
	uint64_t dense, moe;  /* a layer without experts, one with them */
	uint64_t matrices;    /* of it in either: the attention's matrices */
	uint64_t layer_input; /* what full checkpointing keeps of a layer */
	uint64_t rest;        /* embedding, positions, final norm, logits and loss */
	uint64_t loss;        /* what backward of the loss adds */
};
void gm_estimate_keep(const struct gm_estimate_shape *shape,
        const struct gm_estimate_settings *settings, const struct gm_estimate_part *part,
        struct gm_estimate_kept *ret_kept);

/* In bytes. */
static inline uint64_t gm_estimate_dtype_size(enum gm_estimate_dtype dtype)
{
	return dtype == GM_ESTIMATE_FLOAT32 ? 4 : 2;
}
/* Fills the terms of activations, loss and so on for a way. */
void gm_estimate_activations(const struct gm_estimate_model *model,
        const struct gm_estimate_settings *settings, const struct gm_estimate_part *part,
        uint64_t in_flight, enum gm_estimate_way way, struct gm_estimate_term terms[]);

#endif
