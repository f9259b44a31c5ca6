/*
 * The names that PyTorch's functions, variables and classes have in its libraries (Itanium C++
 * ABI), for any room that looks for one. Includes nothing, as the agent uses it inside the program.
 * A class's name is the one in its type information.
 */
#ifndef GM_TORCH_NAMES_H
#define GM_TORCH_NAMES_H

/* libc10.so: what the allocators report (c10/core/CPUAllocator.h, c10/core/Allocator.h) */
#define GM_TORCH_REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define GM_TORCH_REPORT_OOM "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"
#define GM_TORCH_CPU_NEW "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm"
#define GM_TORCH_CPU_DELETE "_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv"
/* and whether autograd records in the thread (c10/core/GradMode.h) */
#define GM_TORCH_GRAD_ENABLED "_ZN3c108GradMode10is_enabledEv"
/* libc10_cuda.so: the variable that has the allocator */
#define GM_TORCH_ALLOCATOR "_ZN3c104cuda20CUDACachingAllocator9allocatorE"
/* libtorch_cuda.so; in 2.4 libtorch_python.so */
#define GM_TORCH_CHANGE_ALLOCATOR                                                      \
	"_ZN5torch4cuda22CUDAPluggableAllocator22changeCurrentAllocatorERKSt10shared_" \
	"ptrIN3c104cuda20CUDACachingAllocator13CUDAAllocatorEE"

/* libtorch_cpu.so: what makes nearly every tensor with memory of its own (ATen/EmptyTensor.h) */
#define GM_TORCH_EMPTY                                                        \
	"_ZN2at6detail13empty_genericEN3c108ArrayRefIlEEPNS1_9AllocatorENS1_" \
	"14DispatchKeySetENS1_10ScalarTypeESt8optionalINS1_12MemoryFormatEE"
#define GM_TORCH_EMPTY_STRIDED                                                           \
	"_ZN2at6detail21empty_strided_genericEN3c108ArrayRefIlEES3_PNS1_9AllocatorENS1_" \
	"14DispatchKeySetENS1_10ScalarTypeE"
/* libtorch_cuda.so, libtorch_cpu.so: another size for a storage (ATen/native/cuda/Resize.h,
 * ATen/native/Resize.h) */
#define GM_TORCH_RESIZE_CUDA "_ZN2at6native17resize_bytes_cudaEPN3c1011StorageImplEm"
#define GM_TORCH_RESIZE_CPU "_ZN2at6native16resize_bytes_cpuEPN3c1011StorageImplEm"
/* c10::MemoryFormat (torch/headeronly/core/MemoryFormat.h) */
enum { GM_TORCH_CHANNELS_LAST = 2, GM_TORCH_CHANNELS_LAST_3D = 3 };

/* libtorch_cpu.so: what GradScaler calls (torch/amp/grad_scaler.py), as libtorch_python.so imports
 * it (ATen/ops/_amp_foreach_non_finite_check_and_unscale_ops.h, _amp_update_scale_ops.h,
 * item_ops.h) */
#define GM_TORCH_UNSCALE                                                               \
	"_ZN2at4_ops42_amp_foreach_non_finite_check_and_unscale_4callEN3c108ArrayRefI" \
	"NS_6TensorEEERS4_RKS4_"
#define GM_TORCH_UPDATE_SCALE "_ZN2at4_ops18_amp_update_scale_4callERNS_6TensorES3_RKS2_ddl"
#define GM_TORCH_ITEM "_ZN2at4_ops4item4callERKNS_6TensorE"
/* and where a tensor's elements are, of dtype float32 and int32 */
#define GM_TORCH_DATA_OF_FLOATS "_ZNK2at10TensorBase8data_ptrIfEEPT_v"
#define GM_TORCH_DATA_OF_INTS "_ZNK2at10TensorBase8data_ptrIiEEPT_v"

/* libtorch_cpu.so: autocast's cast of an argument (ATen/autocast_mode.h) */
#define GM_TORCH_CACHED_CAST \
	"_ZN2at8autocast11cached_castEN3c1010ScalarTypeERKNS_6TensorENS1_10DeviceTypeE"

/* libtorch_cpu.so: record_function (ATen/record_function.h) */
#define GM_TORCH_ADD_CALLBACK "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE"
#define GM_TORCH_REMOVE_CALLBACK "_ZN2at14removeCallbackEm"
#define GM_TORCH_RECORD_NAME "_ZNK2at14RecordFunction4nameEv"
#define GM_TORCH_RECORD_IS_ASYNC "_ZNK2at14RecordFunction7isAsyncEv"
/* given to it by value: at::RecordFunctionCallback, of at::RecordScope the number and the one of
 * users' ranges */
enum { GM_TORCH_SCOPES = 10, GM_TORCH_USER_SCOPE = 7 };
struct gm_torch_record_callback {
	void *(*start)(void **ret_context, const void *function);
	void (*end)(const void *function, void *context);
	double probability;
	_Bool scopes[GM_TORCH_SCOPES], needs_inputs, needs_outputs, needs_ids;
};
/* and autograd (torch/csrc/autograd/anomaly_mode.h, engine.h, function.h) */
#define GM_TORCH_ANOMALY_ENABLED "_ZN5torch8autograd11AnomalyMode8_enabledE"
#define GM_TORCH_CURRENT_NODE "_ZN5torch8autograd16get_current_nodeEv"
#define GM_TORCH_CURRENT_TASK "_ZN5torch8autograd25get_current_graph_task_idEv"

/* Classes */
#define GM_TORCH_TENSOR_CLASS "N3c1010TensorImplE"
#define GM_TORCH_AUTOGRAD_SCOPE "N5torch8autograd"
#define GM_TORCH_METADATA_CLASS "N5torch8autograd17PyAnomalyMetadataE"
#define GM_TORCH_SAVED_HOOKS_CLASS "N5torch8autograd20PySavedVariableHooksE"
#define GM_TORCH_SCRIPT_OBJECT_CLASS "N3c106ivalue6ObjectE"
#define GM_TORCH_NCCL_GROUP_CLASS \
	"16ProcessGroupNCCLE" /* how it ends: of c10d, from 2.15 on of c10d::nccl2 */
#define GM_TORCH_SHELF_CLASS \
	"TensorShelfE" /* how it ends: N4c10d11…, N4c10d5nccl28WorkNCCL16Input… */

#endif
