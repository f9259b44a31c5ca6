/* PyTorch's dtypes by number: c10::ScalarType. Includes nothing, as the agent uses it inside the
 * program. */
#ifndef GM_TORCH_DTYPES_H
#define GM_TORCH_DTYPES_H

/* "float32" for c10::ScalarType 6; NULL beyond the table. */
const char *gm_torch_dtype_name(unsigned scalar_type);
/* Bits per element, 0 where unknown. */
unsigned gm_torch_dtype_bits(unsigned scalar_type);
/* PyTorch's other names of some dtypes, "half" for "float16"; NULL beyond the last. */
const char *gm_torch_dtype_other_name(unsigned i);
/* The dtype that a text names: "float16" for "half" and "torch.half"; else the text itself, without
 * "torch." in front. */
const char *gm_torch_dtype_meant(const char *text);

#endif
