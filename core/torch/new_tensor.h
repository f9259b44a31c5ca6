/*
 * The tensor that at::detail::empty_generic() or empty_strided_generic() makes
 * (ATen/EmptyTensor.cpp), as its arguments tell it, and the bytes that it will ask its allocator
 * for. The agent uses this inside the program: it needs no library.
 */
#ifndef GM_TORCH_NEW_TENSOR_H
#define GM_TORCH_NEW_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

enum { GM_NEW_TENSOR_DIMENSIONS = 16 /* at most */ };

struct gm_new_tensor {
	uint64_t bytes; /* 0: it has no elements, or its bytes are not known */
	uint32_t dimensions;
	uint8_t type; /* c10::ScalarType */
	bool strided; /* its strides are not those of a contiguous tensor */
	int64_t sizes[GM_NEW_TENSOR_DIMENSIONS], strides[GM_NEW_TENSOR_DIMENSIONS]; /* elements */
};

/* Sets type, dimensions, and no bytes. False: of such a tensor nothing is reported. */
bool gm_new_tensor_init(struct gm_new_tensor *tensor, unsigned type, uint64_t dimensions);
/* Once `sizes` are set: strides where there are no others, and bytes. `format`: c10::MemoryFormat,
 * -1: none was given. */
void gm_new_tensor_put_format(struct gm_new_tensor *tensor, int format);
/* Once `sizes` and `strides` are set: bytes. */
void gm_new_tensor_put_strides(struct gm_new_tensor *tensor);

/* Can a call whose stack pointer was `call_sp` be what called this far, to `sp`? Between such a
 * call and the allocator's report lie some hundred bytes of stack. */
static inline bool gm_new_tensor_is_near(uint64_t call_sp, uint64_t sp)
{
	return sp < call_sp && call_sp - sp < 1 << 16;
}

#endif
