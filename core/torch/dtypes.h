/* PyTorch's dtypes by number: c10::ScalarType. Includes nothing, as the agent uses it inside the
 * program. */
#ifndef GM_TORCH_DTYPES_H
#define GM_TORCH_DTYPES_H

/* "float32" for c10::ScalarType 6; NULL beyond the table. */
const char *gm_torch_dtype_name(unsigned scalar_type);
/* Bits per element, 0 where unknown. */
unsigned gm_torch_dtype_bits(unsigned scalar_type);
/* "float16" for "half", and without "torch." in front: PyTorch's other names of its dtypes
 * (torch/csrc/utils/tensor_dtypes.cpp); else the text itself. */
const char *gm_torch_dtype_meant(const char *text);

#endif
