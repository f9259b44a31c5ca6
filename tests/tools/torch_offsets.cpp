#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/python_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/Storage.h>
#include <ATen/core/ivalue.h>
#include <cstdio>
#include <cstddef>
using namespace torch::autograd;
#define O(T, f) asm volatile("\n->" #T "." #f " %c0" ::"i"(__builtin_offsetof(T, f)))
#define S(T) asm volatile("\n->" #T " %c0" ::"i"(sizeof(T)))
int main(){
 S(c10::StorageImpl);O(c10::StorageImpl,combined_refcount_);O(c10::StorageImpl,data_ptr_);O(c10::StorageImpl,data_ptr_.ptr_.data_);O(c10::StorageImpl,data_ptr_.ptr_.ctx_);O(c10::StorageImpl,data_ptr_.device_);O(c10::StorageImpl,size_bytes_);O(c10::StorageImpl,size_bytes_is_heap_allocated_);O(c10::StorageImpl,allocator_);O(c10::StorageImpl,pyobj_slot_);O(c10::StorageImpl,pyobj_slot_.pyobj_);O(c10::StorageImpl,extra_meta_);
 S(c10::TensorImpl);O(c10::TensorImpl,storage_);O(c10::TensorImpl,autograd_meta_);O(c10::TensorImpl,extra_meta_);O(c10::TensorImpl,version_counter_);O(c10::TensorImpl,pyobj_slot_);O(c10::TensorImpl,pyobj_slot_.pyobj_);O(c10::TensorImpl,sizes_and_strides_);O(c10::TensorImpl,sizes_and_strides_.size_);O(c10::TensorImpl,sizes_and_strides_.outOfLineStorage_);O(c10::TensorImpl,storage_offset_);O(c10::TensorImpl,numel_);O(c10::TensorImpl,data_type_);O(c10::TensorImpl,device_opt_);O(c10::TensorImpl,key_set_);
 S(c10::Device);S(std::optional<c10::Device>);S(c10::impl::SizesAndStrides);
 S(AutogradMeta);O(AutogradMeta,name_);O(AutogradMeta,grad_);O(AutogradMeta,grad_fn_);O(AutogradMeta,grad_accumulator_);O(AutogradMeta,fw_grad_);O(AutogradMeta,hooks_);O(AutogradMeta,cpp_hooks_list_);O(AutogradMeta,post_acc_grad_hooks_);O(AutogradMeta,requires_grad_);O(AutogradMeta,retains_grad_);O(AutogradMeta,is_view_);O(AutogradMeta,output_nr_);
 S(DifferentiableViewMeta);O(DifferentiableViewMeta,backward_info_);O(DifferentiableViewMeta,forward_info_);O(DifferentiableViewMeta,shared_view_info_);
 S(ViewInfo);O(ViewInfo,base_);O(ViewInfo,view_fn_);O(ViewInfo,rev_view_fn_);S(std::optional<ViewInfo>);
 S(SavedVariable);O(SavedVariable,data_);O(SavedVariable,fw_grad_);O(SavedVariable,weak_grad_fn_);O(SavedVariable,saved_version_);O(SavedVariable,was_default_constructed_);O(SavedVariable,saved_original_);O(SavedVariable,is_leaf_);O(SavedVariable,is_output_);O(SavedVariable,hooks_);O(SavedVariable,grad_fn_);O(SavedVariable,grad_accumulator_);
 S(Node);O(Node,sequence_nr_);O(Node,topological_nr_);O(Node,next_edges_);O(Node,pyobj_);O(Node,pre_hooks_);O(Node,tensor_pre_hooks_);O(Node,retains_grad_hooks_);O(Node,post_hooks_);O(Node,input_metadata_);S(Edge);S(InputMetadata);
 S(PyNode);O(PyNode,obj);S(AccumulateGrad);O(AccumulateGrad,variable);
 S(THPVariable);O(THPVariable,cdata);O(THPVariable,backward_hooks);O(THPVariable,post_accumulate_grad_hooks);
 S(THPStorage);O(THPStorage,cdata);S(THPCppFunction);O(THPCppFunction,cdata);
 S(THPFunction);O(THPFunction,needs_input_grad);O(THPFunction,to_save);O(THPFunction,non_differentiable);O(THPFunction,dirty_tensors);O(THPFunction,materialize_grads);O(THPFunction,compiled_autograd_backward_state);O(THPFunction,output_info);O(THPFunction,input_info);O(THPFunction,saved_variables);O(THPFunction,is_variable_input);O(THPFunction,saved_for_forward);O(THPFunction,cdata);
 S(std::shared_ptr<Node>);S(std::vector<Edge>);S(std::mutex);
 S(PyFunctionTensorPreHook);O(PyFunctionTensorPreHook,dict);S(GraphTask);O(GraphTask,not_ready_);O(GraphTask,captured_vars_);
 S(c10::IValue);
}
