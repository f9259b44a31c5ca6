/*
 * Places in PyTorch's C++ objects that are the same in every version that is known, and need no row
 * of a table (layout.h has those that differ). In bytes from the object's beginning, but where it
 * says words. Internal to core/torch and core/holders. Compared with the headers of 2.4 to 2.15.
 */
#ifndef GM_TORCH_MEMBERS_H
#define GM_TORCH_MEMBERS_H

#include <stdint.h>

enum {
	/* struct instance (pybind11/detail/common.h): the C++ object, behind the head of the Python
	   object */
	GM_PYBIND_POINTER = 16,
	/* ViewInfo (torch/csrc/autograd/variable.h): base_, view_fn_, then rev_view_fn_, a
	   std::function */
	GM_TORCH_VIEW_FUNCTION = 16,
	/* ForwardGrad (torch/csrc/autograd/forward_grad.h): content_, a std::unordered_map whose
	 * first node is its third word (libstdc++ <bits/hashtable.h>); a node is next, key, value
	 */
	GM_TORCH_TANGENTS_FIRST = 16,
	GM_TORCH_TANGENT_NEXT = 0,
	GM_TORCH_TANGENT_VALUE = 16,
	/* c10::IValue (aten/src/ATen/core/ivalue.h): payload, tag */
	GM_TORCH_IVALUE_BYTES = 16,
	/* c10::detail::ListImpl (aten/src/ATen/core/List.h): counts, then a std::vector of
	 * IValues */
	GM_TORCH_LIST_ITEMS = 16,
	/* DLManagedTensor.manager_ctx behind the DLTensor; DLManagedTensorVersioned.manager_ctx
	 * behind the version; a deleter follows either (dlpack/dlpack.h) */
	GM_DLPACK_CONTEXT = 48,
	GM_DLPACK_VERSIONED_CONTEXT = 8,
};

/*
 * What a subclass of TensorImpl calls a member that is a tensor: "indices". `linkage_name` is the
 * class's, `word` which word behind TensorImpl it is. NULL: not known. Static.
 */
const char *gm_torch_part_name(const char *linkage_name, uint32_t word);

#endif
