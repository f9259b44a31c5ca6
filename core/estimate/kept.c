/*
 * The tensors that operators save for backward: each one once, even if several operators save it. T
 * is the tokens of a microbatch on this GPU, P the bytes of an activation.
 *
 * An RMS norm saves its input in float32, the normalized input in P, and a float32 for each token;
 * its result is saved once by all matrices that read it, or once by each of them if autocast casts
 * it. Attention saves queries, keys, values, its result, and either a float32 for each token and
 * head or the matrix of s x s. A gated MLP saves the gate, the function's value, the other branch,
 * and the product. With --tp the tensors within attention and MLP are divided, those around them
 * only with sequence parallelism (Korthikanti et al., sections 4.2.1 and 4.2.2).
 */
#include "estimate/internal.h"

struct widths {
	uint64_t tokens, size; /* bytes of an activation */
	uint64_t stream;       /* bytes of a value of the residual stream */
	bool autocast;
	uint64_t tp, around; /* the divisors of tensors within attention and MLP, and around them */
};

static struct widths widths_of(const struct gm_estimate_settings *settings)
{
	struct widths w = {0};
	w.autocast = settings->autocast != GM_ESTIMATE_NO_DTYPE &&
	             settings->dtype == GM_ESTIMATE_FLOAT32;
	w.tokens = gm_times(settings->batch, gm_share(settings->sequence, settings->cp));
	w.stream = gm_estimate_dtype_size(settings->dtype);
	w.size = w.autocast ? 2 : w.stream;
	w.tp = settings->tp;
	w.around = settings->sequence_parallel ? settings->tp : 1;
	return w;
}

static uint64_t values(const struct widths *w, uint64_t width, uint64_t bytes)
{
	return gm_times(w->tokens, gm_times(width, bytes));
}

/* Without its result. */
static uint64_t norm(
        const struct gm_estimate_architecture *row, const struct widths *w, uint64_t width)
{
	/* LayerNorm runs in float32 under autocast. */
	if (row->norm == GM_NORM_LAYER)
		return gm_plus(values(w, width, w->stream), values(w, 2, 4));
	uint64_t normalised = row->norm == GM_NORM_RMS_FLOAT ? 4 : w->stream;
	return gm_plus(values(w, width, gm_plus(4, normalised)), values(w, 1, 4));
}

/* A tensor that `readers` matrices read. */
static uint64_t read_by(const struct widths *w, uint64_t width, uint64_t readers)
{
	return w->autocast ? gm_times(readers, values(w, width, 2)) : values(w, width, w->size);
}

/* b n s s, for this GPU's part of the sequence. */
static uint64_t matrices(const struct gm_estimate_shape *shape,
        const struct gm_estimate_settings *settings, const struct widths *w)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	/* Computed in float32 by the model's code and cast; or in float32 by autocast, whose cast
	 * nothing saves. */
	uint64_t bytes = w->autocast ? 4 : w->size;
	if (row->softmax_float && w->size != 4)
		bytes = 4 + w->size;
	if (shape->attention_dropout)
		bytes += 1 + w->size; /* the dropped ones, and the rest */
	if (shape->capped_attention)
		bytes += w->size;
	return gm_times(gm_times(w->tokens, gm_share(shape->heads, w->tp)),
	        gm_times(settings->sequence, bytes));
}

static uint64_t latent(const struct gm_estimate_shape *shape, const struct widths *w)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	uint64_t kept = gm_plus(norm(row, w, shape->kv_rank), read_by(w, shape->kv_rank, 1));
	if (shape->q_rank)
		kept = gm_plus(
		        kept, gm_plus(norm(row, w, shape->q_rank), read_by(w, shape->q_rank, 1)));
	return kept;
}

static uint64_t attention(const struct gm_estimate_shape *shape,
        const struct gm_estimate_settings *settings, const struct widths *w)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	uint64_t q = gm_times(shape->heads, shape->head_dim),
	         kv = gm_times(shape->kv_heads, shape->head_dim);
	/* For wider heads there is no kernel that shares keys, so keys are repeated as well. */
	const uint64_t widest_shared = 256;
	uint64_t keys = shape->head_dim > widest_shared ? q : kv;
	uint64_t v = row->mla ? gm_times(shape->heads, shape->v_dim) : keys, out = row->mla ? v : q;
	uint64_t all = gm_plus(gm_plus(q, keys), gm_plus(v, out));
	if (settings->materialized) /* keys and values are repeated for each head */
		all = gm_plus(gm_times(row->mla ? 2 : 3, q), gm_times(row->mla ? 2 : 1, out));
	else if (row->fused && row->fields != GM_FIELDS_GPT2)
		all = gm_plus(all,
		        gm_plus(q,
		                kv)); /* values are views of the tensor from which all three come */
	if (row->copied && w->size == 2 && !settings->materialized)
		all = gm_plus(all, out);
	/* Norms of queries and keys read the output of a matrix: P bytes, even with autocast. */
	struct widths within = *w;
	within.stream = w->size;
	uint64_t kept = values(w, gm_share(all, w->tp), w->size);
	if (!settings->materialized)
		kept = gm_plus(kept, values(w, gm_share(shape->heads, w->tp), 4));
	if (row->qk_norm == GM_QK_HEAD)
		kept = gm_plus(kept,
		        gm_share(gm_plus(norm(row, &within, q), norm(row, &within, kv)), w->tp));
	else if (row->qk_norm == GM_QK_ALL)
		kept = gm_plus(kept, gm_plus(norm(row, &within, q), norm(row, &within, kv)));
	return row->mla ? gm_plus(kept, latent(shape, w)) : kept;
}

static uint64_t dense_mlp(
        const struct gm_estimate_shape *shape, const struct widths *w, uint64_t width)
{
	/* with autocast, pow() and the following operations are float32: 3 of the 5 tensors */
	uint64_t each = shape->gelu_new && w->autocast
	                        ? 3 * 4 + 2 * 2
	                        : gm_times(shape->activation_tensors, w->size);
	return values(w, gm_share(width, w->tp), each);
}

/* Tokens are sorted by expert: each appears once for each of its experts. */
static uint64_t expert_mlp(const struct gm_estimate_shape *shape, const struct widths *w)
{
	uint64_t each = gm_plus(gm_times(2, shape->hidden),
	        gm_times(shape->activation_tensors, gm_share(shape->expert_intermediate, w->tp)));
	uint64_t kept = values(w, gm_times(shape->experts_per_token, each), w->size);
	/* The router's tensors: probabilities, chosen experts, two orders of the tokens. */
	kept = gm_plus(kept, values(w, shape->experts, 4));
	kept = gm_plus(kept, values(w, gm_plus(gm_times(shape->experts_per_token, 40), 4), 1));
	if (shape->architecture->moe == GM_MOE_QWEN && shape->shared_intermediate)
		kept = gm_plus(kept, values(w, shape->hidden, w->size)); /* before its gate */
	return gm_plus(kept, dense_mlp(shape, w, shape->shared_intermediate));
}

/* Norms, their results and dropout masks. */
static uint64_t around(const struct gm_estimate_shape *shape, const struct widths *w, bool moe)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	uint64_t hidden = shape->hidden;
	uint64_t readers = (row->fused ? 1 : 3) + (row->gated && !row->fused_gate ? 2 : 1);
	uint64_t kept = gm_times(row->norms, norm(row, w, hidden));
	if (row->parallel && row->norms == 2) /* one input for both */
		kept = gm_plus(values(w, hidden, w->stream), values(w, 4, 4));
	/* Results: of the two norms before a matrix, or of one. */
	uint64_t results = row->norms == 1 ? 1 : 2;
	kept = gm_plus(kept, w->autocast ? read_by(w, hidden, moe ? readers + 1 : readers)
	                                 : gm_times(results, values(w, hidden, w->size)));
	if (shape->dropout)
		kept = gm_plus(kept, gm_times(2, values(w, hidden, 1)));
	return gm_share(kept, w->around);
}

static uint64_t rest_of(const struct gm_estimate_shape *shape,
        const struct gm_estimate_settings *settings, const struct gm_estimate_part *part,
        const struct widths *w)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	uint64_t kept = 0, rotary = row->mla ? shape->rope_dim : shape->head_dim;
	if (part->first)
		kept = gm_plus(values(w, 1, 8), shape->dropout && row->fields == GM_FIELDS_GPT2
		                                        ? values(w, shape->hidden, 1)
		                                        : 0);
	if (!row->positions) /* cosines and sines */
		kept = gm_plus(kept, gm_times(gm_share(settings->sequence, settings->cp),
		                             gm_times(2, gm_times(rotary, w->stream))));
	if (!part->last)
		return kept;
	kept = gm_plus(kept, gm_share(norm(row, w, shape->hidden), w->around));
	kept = gm_plus(kept, read_by(w, shape->hidden, 1));
	/* The logits stay with the model's output; the loss saves their logarithms in float32. */
	uint64_t vocab = gm_share(shape->vocab, w->tp);
	kept = gm_plus(kept, values(w, vocab, (shape->capped_logits ? 2 : 1) * w->size + 4));
	return gm_plus(kept, values(w, 1, 8));
}

void gm_estimate_keep(const struct gm_estimate_shape *shape,
        const struct gm_estimate_settings *settings, const struct gm_estimate_part *part,
        struct gm_estimate_kept *ret_kept)
{
	const struct widths w = widths_of(settings);
	struct gm_estimate_kept kept = {0};
	uint64_t common = attention(shape, settings, &w);
	kept.matrices = settings->materialized ? matrices(shape, settings, &w) : 0;
	common = gm_plus(common, kept.matrices);
	kept.dense = gm_plus(gm_plus(common, around(shape, &w, false)),
	        dense_mlp(shape, &w, shape->intermediate));
	if (shape->experts)
		kept.moe = gm_plus(gm_plus(common, around(shape, &w, true)), expert_mlp(shape, &w));
	kept.layer_input = gm_share(values(&w, shape->hidden, w.stream), w.around);
	kept.rest = rest_of(shape, settings, part, &w);
	if (part->last)
		kept.loss = gm_times(2, values(&w, gm_share(shape->vocab, w.tp), 4));
	*ret_kept = kept;
}
