/*
 * The tensor that fills a storage: which one a storage is resized for. The storage alone does not
 * tell dtype and shape; a tensor that lies in it does, if it has all of its bytes. Candidates are
 * what the resizing function has at hand. The agent uses this inside the program: it needs no
 * library.
 */
#ifndef GM_TORCH_FILLING_TENSOR_H
#define GM_TORCH_FILLING_TENSOR_H

#include "torch/layout.h"
#include "torch/new_tensor.h"

/* Copies memory of the program; false: it is not there. */
typedef bool (*gm_read_program)(
        const void *context, uint64_t address, void *ret_bytes, size_t size);

/* A search: all but the last two are set by who asks. */
struct gm_filled {
	const struct gm_torch_layout *layout;
	gm_read_program read;
	const void *context;
	uint64_t sp;      /* of the function that resizes: words of its stack are looked at too */
	uint64_t storage; /* StorageImpl */
	uint64_t bytes;   /* its size is going to be; not 0 */

	unsigned count;             /* tensors that were found */
	struct gm_new_tensor found; /* the first of them; bytes 0: another one differs */
};

/* Takes the TensorImpl at `impl`, if there is one that has all elements of the storage, from its
 * first byte to its last. Any address may be asked about. */
void gm_filled_try(struct gm_filled *filled, uint64_t impl);
/* The same of a Python object, which is a tensor where the TensorImpl knows it as its own. */
void gm_filled_try_python(struct gm_filled *filled, uint64_t python_object);

/* The words of the resizing function's own stack: it keeps the TensorImpl's address there where it
 * has no register for it. */
void gm_filled_try_stack(struct gm_filled *filled);

#endif
