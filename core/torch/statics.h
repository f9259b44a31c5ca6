/*
 * What PyTorch's C++ keeps in static variables, where no tensor of Python's and no object of the
 * program leads to it: the workspaces of cuBLAS, the weights that autocast has cast, what was sent
 * to other processes. Found by the names of these variables in the symbol tables.
 */
#ifndef GM_TORCH_STATICS_H
#define GM_TORCH_STATICS_H

#include "torch/torch.h"

enum gm_torch_static {
	GM_STATIC_CUBLAS,   /* the address of a block */
	GM_STATIC_CUBLASLT, /* the address of a block */
	GM_STATIC_SENT,     /* the address of memory that another process may still use */
	GM_STATIC_AUTOCAST, /* the address of a TensorImpl, of which it owns a count */
};

typedef void (*gm_torch_static_visit)(
        void *context, enum gm_torch_static kind, uint64_t address, uint64_t word);
/* `word` is where the address was read from. */
void gm_torch_statics(struct gm_torch *torch, gm_torch_static_visit visit, void *context);
/* Of these GM_STATIC_AUTOCAST alone. */
void gm_torch_autocast(struct gm_torch *torch, gm_torch_static_visit visit, void *context);

#endif
