/*
 * The tensor that fills a storage: which one a storage is resized for. The storage alone does not
 * tell dtype and shape; a tensor that is in it does, if it has all of its bytes. Candidates are
 * what the resizing function has at hand. The agent uses this inside the program: it needs no
 * library.
 */
#ifndef GM_TORCH_FILLING_TENSOR_H
#define GM_TORCH_FILLING_TENSOR_H

#include "torch/layout.h"
#include "torch/tensor_fields.h"

/* A search: all but the last two are set by who asks. */
struct gm_filled {
	const struct gm_torch_layout *layout;
	gm_read_program read;
	const void *context;
	uint64_t sp;      /* of the function that resizes: words of its stack are examined too */
	uint64_t storage; /* StorageImpl */
	uint64_t bytes;   /* its size is going to be; not 0 */

	unsigned count;             /* tensors that were found */
	struct gm_new_tensor found; /* the first of them; bytes 0: another one differs */
};

/* Takes the TensorImpl at `impl`, if there is one that has all elements of the storage, from its
 * first byte to its last. Any address may be asked about. */
void gm_filled_try(struct gm_filled *filled, uint64_t impl);
/* The same for a Python object, which is a tensor where the TensorImpl knows it as its own. */
void gm_filled_try_python(struct gm_filled *filled, uint64_t python_object);

enum {
	GM_FILLED_REGISTERS = 6, /* rbx, rbp, r12 to r15: those that a caller keeps values in */
	GM_FILLED_FRAMES = 4,    /* Python's, innermost ones */
};

/* Tries the local variables of the Python frame at `depth`, 0: the innermost one. False: there is
 * no such frame. */
typedef bool gm_filled_locals(void *context, uint32_t depth, struct gm_filled *filled);

/* Tries what a resizing function has at hand, until something is found: its caller's registers,
 * local variables of the innermost Python functions, and the words of its own stack, where the
 * TensorImpl's address is when no register is left for it. */
void gm_filled_search(struct gm_filled *filled, const uint64_t registers[GM_FILLED_REGISTERS],
        gm_filled_locals *locals, void *context);

#endif
