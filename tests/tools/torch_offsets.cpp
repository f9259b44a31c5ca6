/*
 * Where the fields of PyTorch's C++ objects lie, from the headers of an installed wheel: another source than
 * learning, with which the rows are compared. Only compiled, never linked or run: each offset is an immediate in the assembler's
 * input, marked with "->". Run it with tests/tools/torch_offsets.sh PYTHON.
 */
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/python_anomaly_mode.h>
#include <torch/csrc/autograd/python_hook.h>
#include <torch/csrc/autograd/python_saved_variable_hooks.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/version.h>
#if __has_include(<c10/core/CachingDeviceAllocator.h>)
#include <c10/core/CachingDeviceAllocator.h>
using c10::CachingDeviceAllocator::DeviceStats;
#else
#include <c10/cuda/CUDACachingAllocator.h>
using c10::cuda::CUDACachingAllocator::DeviceStats;
#endif
#include <cstddef>

using namespace torch::autograd;

#define OFFSET(type, field)                                                                        \
	asm volatile("\n->" #type "." #field " %c0" ::"i"(__builtin_offsetof(type, field)))
#define SIZE(type) asm volatile("\n->sizeof " #type " %c0" ::"i"(sizeof(type)))

/* from 2.10 on the strong count is the low half of one word; before it, a member of its own, the weak one behind it */
#if TORCH_VERSION_MINOR >= 10
#define refcounts_ combined_refcount_
#else
#define refcounts_ refcount_
#endif

/* Fields that came or went with a version: printed of the versions that have them. */
#define IF_THERE(function, type, field)                                           \
	template <typename Class> void function()                                \
	{                                                                        \
		if constexpr (requires(Class object) { object.field; })          \
			asm volatile("\n->" #type "." #field " %c0" ::"i"(       \
			        __builtin_offsetof(Class, field)));              \
	}
IF_THERE(node_python, Node, pyobj_)
IF_THERE(node_python_slot, Node, pyobj_slot_.pyobj_)
IF_THERE(node_counts, Node, combined_refcount_)
IF_THERE(python_node, PyNode, obj)
int main()
{
	SIZE(c10::StorageImpl);
	OFFSET(c10::StorageImpl, refcounts_);
#if TORCH_VERSION_MINOR < 10
	OFFSET(c10::StorageImpl, weakcount_);
#endif
	OFFSET(c10::StorageImpl, data_ptr_.ptr_.data_);
	OFFSET(c10::StorageImpl, data_ptr_.ptr_.ctx_);
	OFFSET(c10::StorageImpl, data_ptr_.device_);
	OFFSET(c10::StorageImpl, size_bytes_);
	OFFSET(c10::StorageImpl, pyobj_slot_.pyobj_);

	SIZE(c10::TensorImpl);
	OFFSET(c10::TensorImpl, refcounts_);
	OFFSET(c10::TensorImpl, storage_);
	OFFSET(c10::TensorImpl, autograd_meta_);
	OFFSET(c10::TensorImpl, pyobj_slot_.pyobj_);
	OFFSET(c10::TensorImpl, sizes_and_strides_.size_);
	OFFSET(c10::TensorImpl, sizes_and_strides_.outOfLineStorage_);
	OFFSET(c10::TensorImpl, storage_offset_);
	OFFSET(c10::TensorImpl, numel_);
	OFFSET(c10::TensorImpl, data_type_);
	OFFSET(c10::TensorImpl, device_opt_);

	SIZE(AutogradMeta);
	OFFSET(AutogradMeta, grad_);
	OFFSET(AutogradMeta, grad_fn_);
	OFFSET(AutogradMeta, grad_accumulator_);
	OFFSET(AutogradMeta, requires_grad_);
	SIZE(DifferentiableViewMeta);
	OFFSET(DifferentiableViewMeta, backward_info_);
	OFFSET(DifferentiableViewMeta, forward_info_);
	SIZE(ViewInfo); /* in a std::optional the flag follows it */
	OFFSET(ViewInfo, base_);

	SIZE(Node);
	OFFSET(Node, next_edges_);
	node_python<Node>();
	node_python_slot<Node>(); /* a Node with counts of its own: 2.14 on */
	node_counts<Node>();
	SIZE(Edge);
	OFFSET(AccumulateGrad, variable);
	python_node<PyNode>();
	SIZE(PyNode);

	SIZE(SavedVariable);

	OFFSET(PyFunctionTensorPreHook, dict);
	OFFSET(PyFunctionPreHook, dict);
	OFFSET(PyFunctionPostHook, dict);
	OFFSET(PyAnomalyMetadata, dict_);
	/* from 2.15 on each a std::optional of a pointer and more */
	OFFSET(PySavedVariableHooks, pack_hook_);
	OFFSET(PySavedVariableHooks, unpack_hook_);
	OFFSET(PySavedVariableHooks, data_);
	SIZE(c10::InefficientStdFunctionContext);
	OFFSET(c10::InefficientStdFunctionContext, deleter_);
	OFFSET(c10d::Reducer, params_);
	SIZE(c10d::Reducer::Bucket);
	OFFSET(c10d::Reducer::Bucket, gradients);
	OFFSET(c10d::Reducer::Bucket, bucket_views_in);
	OFFSET(c10d::Reducer::Bucket, bucket_views_out);
	OFFSET(c10d::Reducer::Bucket, variables);
	OFFSET(c10d::Reducer::Bucket, future_work);
	OFFSET(c10d::Reducer::Bucket, sparse_tensor_indices);

	OFFSET(DeviceStats, allocated_bytes);
	OFFSET(DeviceStats, reserved_bytes);
	OFFSET(DeviceStats, active_bytes);
	OFFSET(DeviceStats, requested_bytes);
	OFFSET(DeviceStats, max_split_size);

	OFFSET(THPVariable, cdata);
	OFFSET(THPVariable, backward_hooks);
	OFFSET(THPVariable, post_accumulate_grad_hooks);
	OFFSET(THPStorage, cdata);
	OFFSET(THPCppFunction, cdata);
	OFFSET(THPFunction, saved_variables);
	OFFSET(THPFunction, cdata);
}
