/* Parameters, tensor by tensor, of the whole model and of one GPU's part of it. */
#include "estimate/internal.h"

bool gm_estimate_has_experts(const struct gm_estimate_shape *shape, uint64_t layer)
{
	if (!shape->experts || layer < shape->dense_first || (layer + 1) % shape->sparse_step != 0)
		return false;
	for (size_t i = 0; i < shape->dense_layer_count; i++)
		if (shape->dense_layers[i] == layer)
			return false;
	return true;
}

/* For one layer: tensor parallelism divides matrices, and vectors that belong to outputs; not
 * norms. */
struct layer {
	uint64_t attention; /* matrices */
	uint64_t attention_biases;
	uint64_t norms;
	uint64_t mlp, mlp_biases; /* of a layer without experts */
	uint64_t router, experts, shared;
	uint64_t expert; /* one of them */
};

static uint64_t norm(const struct gm_estimate_architecture *row, uint64_t width)
{
	return gm_times(row->norm == GM_NORM_LAYER ? 2 : 1, width);
}

static uint64_t gated(uint64_t hidden, uint64_t width)
{
	return gm_times(3, gm_times(hidden, width));
}

static void latent_attention(const struct gm_estimate_shape *shape, struct layer *layer)
{
	uint64_t hidden = shape->hidden, heads = shape->heads, rank = shape->kv_rank;
	uint64_t queries = gm_times(heads, shape->head_dim), a = gm_plus(rank, shape->rope_dim);
	if (shape->q_rank)
		layer->attention =
		        gm_plus(gm_times(hidden, shape->q_rank), gm_times(shape->q_rank, queries));
	else
		layer->attention = gm_times(hidden, queries);
	layer->attention = gm_plus(layer->attention, gm_times(hidden, a));
	layer->attention = gm_plus(layer->attention,
	        gm_times(rank, gm_times(heads, gm_plus(shape->nope_dim, shape->v_dim))));
	layer->attention =
	        gm_plus(layer->attention, gm_times(gm_times(heads, shape->v_dim), hidden));
	layer->norms = gm_plus(shape->q_rank, rank);
	if (shape->qkv_bias)
		layer->attention_biases = gm_plus(shape->q_rank, a);
}

static void usual_attention(const struct gm_estimate_shape *shape, struct layer *layer)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	uint64_t q = gm_times(shape->heads, shape->head_dim),
	         kv = gm_times(shape->kv_heads, shape->head_dim);
	uint64_t all = gm_plus(q, gm_times(2, kv));
	layer->attention = gm_times(shape->hidden, gm_plus(all, q));
	if (shape->qkv_bias)
		layer->attention_biases = all;
	if (row->sinks)
		layer->attention_biases = gm_plus(layer->attention_biases, shape->heads);
	if (row->qk_norm == GM_QK_HEAD)
		layer->norms = gm_times(2, shape->head_dim);
	else if (row->qk_norm == GM_QK_ALL)
		layer->norms = gm_plus(q, kv);
}

static void mlp(const struct gm_estimate_shape *shape, struct layer *layer)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	uint64_t hidden = shape->hidden, width = shape->intermediate;
	layer->mlp = row->gated ? gated(hidden, width) : gm_times(2, gm_times(hidden, width));
	if (shape->mlp_bias)
		layer->mlp_biases = gm_plus(gm_times(row->gated ? 2 : 1, width), hidden);
	if (!shape->experts)
		return;
	layer->expert = gated(hidden, shape->expert_intermediate);
	layer->router = gm_times(hidden, shape->experts);
	layer->shared = gated(hidden, shape->shared_intermediate);
	if (row->moe == GM_MOE_GPT_OSS) {
		layer->router = gm_plus(layer->router, shape->experts);
		layer->expert = gm_plus(
		        layer->expert, gm_plus(gm_times(2, shape->expert_intermediate), hidden));
	}
	if (row->moe == GM_MOE_QWEN && shape->shared_intermediate)
		layer->router = gm_plus(layer->router, hidden); /* the gate of the shared one */
	layer->experts = gm_times(shape->experts, layer->expert);
}

static struct layer layer_of(const struct gm_estimate_shape *shape)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	struct layer layer = {0};
	if (row->mla)
		latent_attention(shape, &layer);
	else
		usual_attention(shape, &layer);
	if (shape->o_bias)
		layer.attention_biases = gm_plus(layer.attention_biases, shape->hidden);
	layer.norms = gm_plus(layer.norms, gm_times(row->norms, norm(row, shape->hidden)));
	mlp(shape, &layer);
	return layer;
}

static void kinds_of_layers(const struct gm_estimate_shape *shape, uint64_t from, uint64_t to,
        uint64_t *ret_dense, uint64_t *ret_moe)
{
	*ret_dense = *ret_moe = 0;
	for (uint64_t i = from; i < to; i++)
		++*(gm_estimate_has_experts(shape, i) ? ret_moe : ret_dense);
}

static uint64_t sum(const uint64_t *of, size_t count)
{
	uint64_t all = 0;
	for (size_t i = 0; i < count; i++)
		all = gm_plus(all, of[i]);
	return all;
}

void gm_estimate_count(const struct gm_estimate_shape *shape, struct gm_estimate_counts *ret_counts)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	const struct layer one = layer_of(shape);
	struct gm_estimate_counts counts = {0};
	uint64_t dense, moe;
	kinds_of_layers(shape, 0, shape->layers, &dense, &moe);
	counts.embedding = gm_times(shape->vocab, shape->hidden);
	counts.positions = gm_times(shape->positions, shape->hidden);
	counts.attention = gm_times(shape->layers, gm_plus(one.attention, one.attention_biases));
	counts.mlp = gm_plus(
	        gm_times(dense, gm_plus(one.mlp, one.mlp_biases)), gm_times(moe, one.shared));
	counts.experts = gm_times(moe, one.experts);
	counts.router = gm_times(moe, one.router);
	counts.norms = gm_plus(gm_times(shape->layers, one.norms), norm(row, shape->hidden));
	counts.head =
	        gm_plus(shape->tied ? 0 : counts.embedding, row->head_bias ? shape->vocab : 0);
	const uint64_t parts[] = {counts.embedding, counts.positions, counts.attention, counts.mlp,
	        counts.experts, counts.router, counts.norms, counts.head};
	counts.total = sum(parts, sizeof(parts) / sizeof(*parts));
	counts.active =
	        gm_plus(counts.total == GM_TOO_MUCH ? GM_TOO_MUCH : counts.total - counts.experts,
	                gm_times(moe, gm_times(shape->experts_per_token, one.expert)));
	const uint64_t linear[] = {gm_times(shape->layers, one.attention), gm_times(dense, one.mlp),
	        gm_times(moe, one.shared), counts.experts, counts.router, counts.embedding};
	counts.linear = sum(linear, sizeof(linear) / sizeof(*linear));
	counts.largest_layer =
	        gm_plus(gm_plus(one.attention, one.norms), gm_most(moe ? one.experts : 0, one.mlp));
	*ret_counts = counts;
}

void gm_estimate_part(const struct gm_estimate_shape *shape,
        const struct gm_estimate_settings *settings, uint64_t stage,
        struct gm_estimate_part *ret_part)
{
	const struct gm_estimate_architecture *row = shape->architecture;
	const struct layer one = layer_of(shape);
	struct gm_estimate_part part = {0};
	uint64_t tp = settings->tp, pp = settings->pp;
	/* The first stages have one layer more if the number cannot be divided. */
	uint64_t each = shape->layers / pp, more = shape->layers % pp;
	uint64_t from = gm_plus(gm_times(stage, each), gm_least(stage, more)),
	         layers = each + (stage < more), to = from + layers;
	kinds_of_layers(shape, from, to, &part.dense_layers, &part.moe_layers);
	part.first = stage == 0;
	part.last = stage == pp - 1;
	uint64_t embedding = gm_share(gm_times(shape->vocab, shape->hidden), tp);
	uint64_t per_layer =
	        gm_plus(gm_share(gm_plus(one.attention, one.attention_biases), tp), one.norms);
	uint64_t dense = gm_share(gm_plus(one.mlp, one.mlp_biases), tp),
	         moe = gm_plus(one.router, gm_share(one.shared, tp));
	const uint64_t parts[] = {
	        part.first ? embedding : 0,
	        part.first ? gm_times(shape->positions, shape->hidden) : 0,
	        gm_times(layers, per_layer),
	        gm_times(part.dense_layers, dense),
	        gm_times(part.moe_layers, moe),
	        part.last ? norm(row, shape->hidden) : 0,
	        /* A tied weight exists twice if the first and last stage are different. */
	        part.last && (!shape->tied || !part.first) ? embedding : 0,
	        part.last && row->head_bias ? gm_share(shape->vocab, tp) : 0,
	};
	part.parameters = sum(parts, sizeof(parts) / sizeof(*parts));
	uint64_t experts =
	        gm_times(gm_share(shape->experts, settings->ep), gm_share(one.expert, tp));
	part.experts = gm_times(part.moe_layers, experts);
	const uint64_t linear[] = {
	        gm_times(layers, gm_share(one.attention, tp)),
	        gm_times(part.dense_layers, gm_share(one.mlp, tp)),
	        gm_times(part.moe_layers, moe),
	        part.experts,
	        part.last ? embedding : 0,
	};
	part.linear = sum(linear, sizeof(linear) / sizeof(*linear));
	part.head = part.last ? embedding : 0;
	part.largest_layer =
	        gm_plus(per_layer, gm_most(dense, part.moe_layers ? gm_plus(moe, experts) : 0));
	*ret_part = part;
}
