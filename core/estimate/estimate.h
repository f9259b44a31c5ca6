/*
 * Estimates: the memory that a model needs in training or inference, calculated before anything
 * runs.
 *
 * A model comes from a transformers config.json, from the header of a safetensors file, or from
 * numbers. Its parameters are counted tensor by tensor, according to the architecture; settings
 * (batch, dtype, optimizer, ZeRO, ...) turn the counts into terms in bytes, for the GPU that needs
 * the most. Each term has its formula, operands and source. core/render makes the sentences.
 *
 * All arithmetic is in 64 bits and saturates (amount.h): a sum that does not fit is an error.
 *
 * A model can also be built by transformers, in a Python on the simulated device (simulate.py): two
 * steps of it run there, or hooks count what its modules return. No code that a config names is
 * loaded.
 *
 * This room may include base, and the simulated device's header for starting a program.
 */
#ifndef GM_ESTIMATE_ESTIMATE_H
#define GM_ESTIMATE_ESTIMATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct gm_estimate_architecture;

/* --- the model -------------------------------------------------------------------------------- */

/* Numbers that replace those of the file; 0: not given. */
struct gm_estimate_numbers {
	uint64_t parameters;
	uint64_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocab;
	const char *architecture; /* a config's model_type; NULL: the file's, else "llama" */
	bool any_architecture;    /* one that is not known leaves a model without shape */
};

/* What the architecture makes of a config: one decoder. */
struct gm_estimate_shape {
	const struct gm_estimate_architecture *architecture;
	uint64_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocab;
	uint64_t positions; /* rows of a learned table; 0: none */
	bool tied;          /* the head's weight is the embedding's */
	bool qkv_bias, o_bias, mlp_bias;
	/* Multi-head latent attention (DeepSeek); kv_rank 0: not. q_rank 0: queries are not
	 * compressed.
	 */
	uint64_t q_rank, kv_rank, nope_dim, rope_dim, v_dim;
	/* Mixture of experts; experts 0: not. */
	uint64_t experts, experts_per_token, expert_intermediate;
	uint64_t shared_intermediate; /* of experts that see every token, together; 0: none */
	uint64_t dense_first;         /* layers before the first with experts */
	uint64_t sparse_step;         /* of the others each so many-th has experts */
	uint64_t *dense_layers;       /* and these have none; owned */
	size_t dense_layer_count;
	uint64_t window, window_layers; /* sliding attention: tokens, and how many layers have it */
	unsigned activation_tensors;    /* how many tensors of its width the MLP keeps */
	bool gelu_new; /* written out in Python: autocast makes some of its tensors float32 */
	bool dropout, attention_dropout;
	bool capped_attention, capped_logits;
};

/* Numbers of parameters. */
struct gm_estimate_counts {
	uint64_t embedding, positions, attention, mlp, experts, router, norms, head;
	uint64_t total;
	uint64_t active; /* that one token passes through */
	uint64_t linear; /* of matrices that autocast copies */
	uint64_t largest_layer;
};

enum gm_estimate_dtype {
	GM_ESTIMATE_NO_DTYPE,
	GM_ESTIMATE_FLOAT32,
	GM_ESTIMATE_BFLOAT16,
	GM_ESTIMATE_FLOAT16,
};

enum gm_estimate_input {
	GM_ESTIMATE_NUMBERS = 1, /* no file */
	GM_ESTIMATE_CONFIG,
	GM_ESTIMATE_SAFETENSORS, /* one file's header */
	GM_ESTIMATE_INDEX,       /* the index of several, and their headers */
};

struct gm_estimate_model {
	enum gm_estimate_input input;
	char *path;     /* of the file that was read; NULL: none */
	bool has_shape; /* else `counts.total` alone is known */
	struct gm_estimate_shape shape;
	struct gm_estimate_counts counts;
	uint64_t stored_bytes;        /* of a safetensors file's tensors */
	enum gm_estimate_dtype dtype; /* the file's */
	bool quantized;               /* the config reports it: counted as if it were not */
	bool index_alone;             /* the index's files are not there: its total was taken */
};

/* `path` NULL: numbers alone. GM_CORRUPT: file, field and reason. */
struct gm_error *gm_estimate_model_read(const char *path, const struct gm_estimate_numbers *given,
        struct gm_estimate_model *ret_model);
void gm_estimate_model_deinit(struct gm_estimate_model *model);
/* The same for a file's bytes: what the fuzzer calls. `path` is for messages. */
struct gm_error *gm_estimate_model_read_bytes(const char *bytes, size_t size, const char *path,
        const struct gm_estimate_numbers *given, struct gm_estimate_model *ret_model);

const char *gm_estimate_architecture_name(const struct gm_estimate_architecture *architecture);
/* Whether what it keeps for backward was compared with PyTorch, tensor by tensor. */
bool gm_estimate_architecture_is_measured(const struct gm_estimate_architecture *architecture);
/* The next name; NULL at the end. */
const char *gm_estimate_architecture_at(size_t index);

/* --- the settings ----------------------------------------------------------------------------- */

enum gm_estimate_optimizer {
	GM_ESTIMATE_ADAMW, /* PyTorch's, with foreach: its default on CUDA */
	GM_ESTIMATE_ADAMW_FUSED,
	GM_ESTIMATE_ADAMW_8BIT, /* bitsandbytes: blocks of 256 */
	GM_ESTIMATE_SGD,
	GM_ESTIMATE_SGD_MOMENTUM,
	GM_ESTIMATE_LION,
	GM_ESTIMATE_OPTIMIZERS,
};

enum gm_estimate_checkpointing {
	GM_ESTIMATE_CHECKPOINT_NONE,
	GM_ESTIMATE_CHECKPOINT_SELECTIVE, /* the attention's matrices */
	GM_ESTIMATE_CHECKPOINT_FULL,      /* each layer */
};

/* How activations are counted. */
enum gm_estimate_way {
	GM_ESTIMATE_BY_OPERATORS = 1, /* the tensors that each operator keeps for backward */
	GM_ESTIMATE_BY_PAPER,         /* Korthikanti et al.: 34 s b h + 5 a s^2 b a layer */
	/* A x B x L x P, A from the number of parameters. "The text" is the article "Visualize and
	 * understand GPU memory in PyTorch". */
	GM_ESTIMATE_BY_TEXT,
	GM_ESTIMATE_BY_TEXT_BYTES, /* the same where A is bytes already, and there is no P */
	GM_ESTIMATE_BY_HOOKS,      /* the outputs of all modules (gm_estimate_hooks()) */
};

enum {
	GM_ESTIMATE_OFFLOAD_OPTIMIZER = 1,
	GM_ESTIMATE_OFFLOAD_PARAMETERS = 2,
	GM_ESTIMATE_OFFLOAD_ACTIVATIONS = 4
};

struct gm_estimate_settings {
	uint64_t batch, sequence;     /* of one GPU, and one microbatch */
	enum gm_estimate_dtype dtype; /* of the parameters; none: the file's, else float32 */
	enum gm_estimate_dtype autocast;
	bool master_weights; /* 16-bit parameters and gradients, float32 in the optimizer */
	enum gm_estimate_optimizer optimizer;
	enum gm_estimate_checkpointing checkpointing;
	uint64_t accumulation; /* microbatches a step */
	bool materialized;     /* attention keeps its matrix of s x s */
	unsigned zero;         /* stage, 0 to 3 */
	uint64_t world, tp, pp, cp, ep;
	bool sequence_parallel;
	unsigned offload; /* GM_ESTIMATE_OFFLOAD_ */
	bool inference;
	enum gm_estimate_way way; /* 0: by operators where the shape is known, else the text's */
	uint64_t hooked;          /* bytes that hooks counted for this batch; 0: not asked */
	uint64_t budget;          /* bytes; 0: none */
};

/* --- the answer ------------------------------------------------------------------------------- */

enum gm_estimate_term_kind {
	GM_ESTIMATE_PARAMETERS,
	GM_ESTIMATE_GRADIENTS,
	GM_ESTIMATE_STATE,
	GM_ESTIMATE_INTERMEDIATES,
	GM_ESTIMATE_ACTIVATIONS,
	GM_ESTIMATE_LOSS,     /* what backward adds where it begins */
	GM_ESTIMATE_COPIES,   /* autocast's, of weights */
	GM_ESTIMATE_GATHERED, /* ZeRO-3's, of one layer */
	GM_ESTIMATE_KV_CACHE,
	GM_ESTIMATE_WORKING, /* one layer's tensors in inference */
	GM_ESTIMATE_TERMS,
};

/* Which formula a term has: render/estimate_words.c writes them out. */
enum gm_estimate_formula {
	GM_FORMULA_SHARDED = 1,     /* N Z P: ceil(N / Z) * P */
	GM_FORMULA_SHARDED_EXPERTS, /* N Z E Y P */
	GM_FORMULA_8BIT,            /* N K: of N on this GPU, K * N + 8 * ceil(N / 256) */
	GM_FORMULA_LAYERS,          /* F M A X B R: F * (M * A + X * B + R) */
	GM_FORMULA_CHECKPOINTS,     /* F M I A R: F * M * I + max(A, R) */
	GM_FORMULA_OFFLOADED,       /* A R: A + R */
	GM_FORMULA_PAPER,           /* F M s b h a t */
	GM_FORMULA_PAPER_SEQUENCE,  /* the same with sequence parallelism */
	GM_FORMULA_PAPER_SELECTIVE, /* the same without the attention's matrices */
	GM_FORMULA_PAPER_SELECTIVE_SEQUENCE,
	GM_FORMULA_PAPER_FULL, /* F M s b h: 2 bytes a value */
	GM_FORMULA_TEXT,       /* N B L P */
	GM_FORMULA_TEXT_BYTES, /* N B L */
	GM_FORMULA_HOOKS,      /* A: counted */
	GM_FORMULA_LOSS,       /* T V: two of them, 4 bytes a value */
	GM_FORMULA_COPIES,     /* W: 2 bytes each */
	GM_FORMULA_KV,         /* B M C X W k P: M layers keep C tokens, X keep W */
	GM_FORMULA_WORKING,    /* T w B V P */
};

enum gm_estimate_source {
	GM_SOURCE_TEXT = 1,    /* "Visualize and understand GPU memory in PyTorch" */
	GM_SOURCE_ZERO,        /* Rajbhandari et al., ZeRO, arXiv 1910.02054 */
	GM_SOURCE_ACTIVATIONS, /* Korthikanti et al., arXiv 2205.05198 */
	GM_SOURCE_OPERATORS,   /* counted here, compared with PyTorch */
	GM_SOURCE_BITSANDBYTES,
};

enum { GM_ESTIMATE_OPERANDS = 7 };

struct gm_estimate_term {
	bool there;
	uint64_t bytes; /* on the GPU */
	uint64_t host;  /* what offload moved to the host's memory */
	enum gm_estimate_formula formula;
	enum gm_estimate_source source;
	uint64_t operands[GM_ESTIMATE_OPERANDS]; /* in the formula's order */
};

enum gm_estimate_peak {
	GM_ESTIMATE_PEAK_BACKWARD = 1, /* where backward begins: activations */
	GM_ESTIMATE_PEAK_OPTIMIZER, /* in the optimizer's step: gradients and its intermediates */
	GM_ESTIMATE_PEAK_INFERENCE,
};

/* What a reader should know of the numbers. */
enum gm_estimate_note {
	GM_NOTE_A_IS_BYTES,        /* the text's A counts bytes and is multiplied by P again */
	GM_NOTE_TOTALS_DIFFER,     /* the text's two formulas give different totals here */
	GM_NOTE_AUTOCAST_KEEPS,    /* autocast halves no parameter, and adds copies */
	GM_NOTE_SELECTIVE_NOTHING, /* no matrix is there that could be recomputed */
	GM_NOTE_MLA_CACHE,         /* an engine that keeps latents needs much less */
	GM_NOTE_QUANTIZED,
	GM_NOTE_NOT_MEASURED,         /* the operators were not compared for this architecture */
	GM_NOTE_NO_ACTIVATIONS_EXACT, /* only N is known: the text's line was fitted to others */
	GM_NOTE_INDEX_ALONE,
	GM_NOTE_PAPER_ARCHITECTURE, /* the paper's layer is GPT's; this one is another */
	GM_NOTE_HOOKS_OUTPUTS,      /* hooks see outputs, and no autocast or checkpointing */
	GM_ESTIMATE_NOTES,
};

struct gm_estimate_other {
	enum gm_estimate_way way;
	uint64_t activations, total;
};

struct gm_estimate {
	struct gm_estimate_settings settings; /* with what was left open filled in */
	uint64_t data_parallel;               /* ranks that share the same part of the model */
	uint64_t stage;                       /* of the pipeline: the one that needs most, from 0 */
	uint64_t local;                       /* parameters on this GPU before ZeRO */
	struct gm_estimate_term terms[GM_ESTIMATE_TERMS];
	uint64_t states; /* the ZeRO paper's model states: parameters, gradients, optimizer */
	uint64_t backward, optimizer; /* the two peaks; 0 in inference */
	uint64_t total, host;
	enum gm_estimate_peak peak;
	uint64_t text_summary; /* the total by the text's last formula */
	struct gm_estimate_other others[5];
	size_t other_count;
	bool notes[GM_ESTIMATE_NOTES];
};

const char *gm_estimate_dtype_name(enum gm_estimate_dtype dtype);
/* GM_ESTIMATE_NO_DTYPE: it is none of these. */
enum gm_estimate_dtype gm_estimate_dtype_named(const char *name);
const char *gm_estimate_optimizer_name(enum gm_estimate_optimizer optimizer);

/* GM_USAGE: settings that contradict each other, or numbers beyond 64 bits. */
struct gm_error *gm_estimate_formula(const struct gm_estimate_model *model,
        const struct gm_estimate_settings *settings, struct gm_estimate *ret_estimate);

/* --- the model itself, on the simulated device --------------------------------------------------
 */

/* Bytes, as torch.cuda.memory_stats() has them. */
struct gm_estimate_simulated {
	char torch[64], transformers[64]; /* versions */
	uint64_t parameters;              /* how many */
	uint64_t parameter_bytes, gradients, state;
	uint64_t activations; /* what a forward pass leaves, copies of autocast included */
	uint64_t kv_cache;
	uint64_t backward, optimizer, inference; /* peaks of the second step; 0: not run */
	uint64_t total;                          /* the highest of them */
	uint64_t reserved;
	double seconds;
};

/* What the text's forward hooks add up: the bytes of the tensors that modules return, each
 * module's, also of those within others, in evaluation. The model is built on PyTorch's meta
 * device, without memory; on the simulated device if it looks at values. */
struct gm_estimate_hooked {
	char torch[64], transformers[64]; /* versions */
	uint64_t parameters, modules;     /* how many */
	uint64_t token;                   /* bytes for one token: the text's A */
	uint64_t bytes;                   /* for the batch and sequence of the settings */
	bool on_meta;                     /* else on the simulated device */
	double seconds;
};

/* The errors are those of gm_estimate_simulate(). */
struct gm_error *gm_estimate_hooks(const char *config, const char *python,
        const struct gm_estimate_settings *settings, struct gm_estimate_hooked *ret_hooked);

/* GM_USAGE: settings that one GPU of PyTorch alone has not; GM_TARGET: the Python cannot do it;
 * GM_CORRUPT: transformers refuses the config. */
struct gm_error *gm_estimate_simulate(const char *config, const char *python,
        const struct gm_estimate_settings *settings, struct gm_estimate_simulated *ret_simulated);

#endif
