/*
 * The answer of `zero` for a process: for each sharding (an optimizer that shards its state, or a
 * similar object) the part of the model that this rank owns, and its bytes compared with the ZeRO
 * paper (Rajbhandari et al. 2020, section 3: parameters and gradients of the model's dtype, and K
 * bytes of optimizer state for each element; a stage divides some of these by the number of ranks).
 *
 * The sum of a term is exact: bytes = ideal + all differences, each of which has a name and is
 * calculated separately. The rest is `unexplained`; it is 0 unless a tensor could not be read.
 */
#ifndef GM_ASK_ZERO_FACTS_H
#define GM_ASK_ZERO_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ask/target/pause.h"
#include "torch/torch.h"

enum gm_zero_scheme {
	GM_ZERO_REDUNDANCY, /* torch.distributed.optim.ZeroRedundancyOptimizer */
	GM_ZERO_DEEPSPEED,  /* DeepSpeed's stages 1, 2 and 3, and its BF16_Optimizer (stage 1) */
	GM_ZERO_FSDP2,      /* torch.distributed.fsdp.fully_shard */
	GM_ZERO_FSDP1,      /* torch.distributed.fsdp.FullyShardedDataParallel */
	GM_ZERO_SCHEME_COUNT,
};

enum gm_zero_part {
	GM_ZERO_PARAMETERS,
	GM_ZERO_GRADIENTS,
	GM_ZERO_MASTERS, /* copies of the parameters that the optimizer updates */
	GM_ZERO_STATE,   /* of the optimizer */
	GM_ZERO_BUFFERS, /* for communication */
	GM_ZERO_PART_COUNT,
};

/* Why a term is not what the paper counts. In bytes, with a sign. */
enum gm_zero_difference {
	GM_ZERO_IMBALANCE,  /* this rank owns more or less than its equal part */
	GM_ZERO_NOT_MADE,   /* of parameters without a gradient, or without state */
	GM_ZERO_PER_TENSOR, /* state that does not grow with the parameter: a count of steps */
	GM_ZERO_DTYPE,      /* of another dtype than the parameter */
	GM_ZERO_REST,       /* of storages that are larger than the tensors in them */
	GM_ZERO_SHARED,     /* in storages that another term counts */
	GM_ZERO_DUPLICATE,  /* a second copy: buckets beside the gradients */
	GM_ZERO_NOT_OWNED,  /* state of parameters that another rank owns, or that are gone */
	GM_ZERO_FROZEN,     /* of parameters that are not trained */
	GM_ZERO_PADDING,    /* that makes the ranks' parts equal */
	GM_ZERO_DIFFERENCE_COUNT,
};

/* Storages are counted once, with all their bytes, by the first term that has a tensor in them. */
struct gm_zero_term {
	bool partitioned; /* by this stage: the ideal is divided by the ranks */
	bool has_ideal;   /* false: what an element takes is not known yet */
	uint64_t tensors;
	uint64_t storages;
	uint64_t bytes, host_bytes; /* of `bytes` those in the host's memory */
	uint64_t whole;             /* the paper's count without sharding */
	uint64_t ideal;             /* with it, rounded down to a byte */
	int64_t differences[GM_ZERO_DIFFERENCE_COUNT];
};

enum { GM_ZERO_NO_RANK = UINT32_MAX };

struct gm_zero_parameter {
	uint64_t object, tensor; /* Python's and PyTorch's */
	char *name;              /* "module.0.weight"; NULL: no module has it; owned */
	const char *dtype;
	uint32_t dimensions;
	int64_t shape[GM_TENSOR_MAX_DIMENSIONS];
	uint64_t elements, element_size;
	uint64_t owned;   /* elements of it that this rank owns */
	uint64_t padding; /* further ones of the tensor in which this rank keeps it */
	uint32_t group;   /* of the optimizer */
	uint32_t owner;   /* the rank that owns it; GM_ZERO_NO_RANK: not known, or not one alone */
	bool spread;      /* over several ranks */
	bool split;       /* its object is whole, and has this rank's part as a tensor of its own */
	bool trainable;
	bool has_gradient, has_state; /* there is an entry, of whatever size */
	bool state_known;             /* what an element's state takes: */
	uint64_t state_size;          /* bytes */
	uint64_t master_size;         /* of an element in the optimizer's copy; 0: there is none */
	uint32_t state_tensors;       /* of the parameter's size */
	uint64_t gradient_storage;    /* of its own gradient */
	uint64_t gradient_elements;
	uint64_t gradient_bytes, state_bytes;
	uint64_t per_tensor_bytes; /* of other state */
};

enum gm_zero_bucket_kind {
	GM_ZERO_BUCKET_GRADIENTS,     /* of DistributedDataParallel, of DeepSpeed */
	GM_ZERO_BUCKET_PARAMETERS,    /* of the optimizer: those of one rank */
	GM_ZERO_BUCKET_OFFLOAD,       /* on the way to the host and back */
	GM_ZERO_BUCKET_GATHERED,      /* whole parameters, for as long as they are needed */
	GM_ZERO_BUCKET_PERSISTENT,    /* whole parameters that are kept, as they are small */
	GM_ZERO_BUCKET_LOW_PRECISION, /* this rank's parameters in another dtype, for the same time
	                               */
	GM_ZERO_BUCKET_KIND_COUNT,
};

/* A flat tensor for communication */
struct gm_zero_bucket {
	enum gm_zero_bucket_kind kind;
	uint64_t tensor;
	uint64_t bytes;      /* of its storage */
	uint64_t parameters; /* whose gradients go through it */
	bool shared;         /* they are views of it: another term counts its bytes */
};

struct gm_zero_sharding {
	enum gm_zero_scheme scheme;
	unsigned stage;
	uint64_t object;
	char *class, *optimizer; /* its class and that of what does the steps; NULL; owned */
	bool has_rank, has_world;
	uint32_t rank, world;
	struct gm_zero_parameter *parameters; /* owned */
	size_t parameter_count;
	uint64_t elements, trainable_elements;
	uint64_t owned, owned_elements; /* parameters and elements, trainable ones */
	bool has_state_per_element;     /* all elements' is the same */
	uint64_t state_per_element;     /* K of the paper, in bytes */
	struct gm_zero_bucket *buckets; /* owned */
	size_t bucket_count;
	bool buckets_unknown; /* there is a DistributedDataParallel whose buckets could not be read
	                       */
	bool layout_unknown;  /* its attributes are those of no version that is known */
	/* parameters that more ranks share than `world`: split by tensor parallelism too; the terms
	 * that are divided have no ideal then */
	uint64_t split_further;
	uint64_t unread; /* objects that should be tensors, and could not be read */
	struct gm_zero_term terms[GM_ZERO_PART_COUNT];
};

/* What a device has next to that. */
struct gm_zero_device {
	int device;
	uint64_t allocated; /* blocks of PyTorch's allocator */
	uint64_t named;     /* storages of the terms */
	uint64_t rounding;  /* of their blocks */
	uint64_t other;     /* all other blocks */
};

struct gm_zero_now {
	char *source; /* "process 4711 (python train.py)", or the core's path; owned */
	struct gm_zero_sharding *shardings; /* owned */
	size_t sharding_count;
	struct gm_zero_device *devices; /* owned */
	size_t device_count;
	struct gm_pause pause;
};

#endif
