/*
 * The tensors that a subclass of TensorImpl has as members.
 */
#include <stddef.h>
#include <string.h>

#include "torch/members.h"

/* Members after those of TensorImpl, by their word (2.4 to 2.15: aten/src/ATen/SparseTensorImpl.h,
 * SparseCsrTensorImpl.h, NestedTensorImpl.h, functorch/BatchedTensorImpl.h,
 * functorch/TensorWrapper.h, quantized/Quantizer.h). */
static const struct part {
	const char *class;
	uint32_t word;
	const char *name;
} parts[] = {
        {"N2at16SparseTensorImplE", 2, "indices"},
        {"N2at16SparseTensorImplE", 3, "values"},
        {"N2at19SparseCsrTensorImplE", 0, "crow_indices"},
        {"N2at19SparseCsrTensorImplE", 1, "col_indices"},
        {"N2at19SparseCsrTensorImplE", 2, "values"},
        {"N2at6native16NestedTensorImplE", 0, "nested_sizes"},
        {"N2at6native16NestedTensorImplE", 1, "nested_strides"},
        {"N2at6native16NestedTensorImplE", 2, "storage_offsets"},
        {"N2at9functorch17BatchedTensorImplE", 0, "value"},
        {"N2at9functorch13TensorWrapperE", 0, "value"},
};

const char *gm_torch_part_name(const char *linkage_name, uint32_t word)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (parts[i].word == word && strcmp(parts[i].class, linkage_name) == 0)
			return parts[i].name;
	return NULL;
}
