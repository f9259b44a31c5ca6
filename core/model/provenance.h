/* Provenance: what the frames of a stack say about an allocation made there. Internal to
 * core/model. */
#ifndef GM_MODEL_PROVENANCE_H
#define GM_MODEL_PROVENANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "log/log.h"

enum gm_provenance {
	GM_FROM_APPLY = 1 << 0,       /* Module.to(), .cuda(), .half(): a parameter or a buffer */
	GM_FROM_MODULE_INIT = 1 << 1, /* a module's constructor */
	GM_FROM_BUFFER = 1 << 2,      /* register_buffer() */
	GM_FROM_LOADING = 1 << 3,     /* a checkpoint is being loaded into a module */
	GM_FROM_OPTIMIZER = 1 << 4,
	GM_FROM_COLLECTIVE = 1 << 5, /* torch.distributed moves it */
	GM_FROM_SHARDING = 1 << 6,   /* FSDP makes its flat or sharded parameters */
	GM_FROM_CACHE = 1 << 7,      /* a key-value cache of a language model */
	GM_FROM_WORKSPACE = 1 << 8,  /* cuBLAS's or cuDNN's */
	GM_FROM_DATA_LOADER = 1 << 9,
	GM_FROM_REDUCE = 1 << 10,      /* FSDP's reduce-scatter: what it leaves is a gradient */
	GM_FROM_MODULE_CALL = 1 << 11, /* a module is being called */
	GM_FROM_AUTOCAST = 1 << 12,    /* autocast converts a tensor, which it may keep */
	GM_FROM_ATEN = 1 << 13,        /* an operator of PyTorch is running */
	GM_FROM_BLAS = 1 << 14,        /* it calls cuBLAS, cuBLASLt or cuDNN */
};

/* The flags of a Python stack; *ret_apply_line: the line of Module._apply that called, 0: none. */
uint32_t gm_provenance_python(const struct gm_log *log, uint32_t stack, uint32_t *ret_apply_line);
/* The flags of a native stack: by the names of its functions, where the record has them. */
uint32_t gm_provenance_native(const struct gm_log *log, uint32_t stack);

#endif
