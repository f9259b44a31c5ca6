/*
 * Layouts of PyTorch's C++ objects, one table per range of versions. Internal to core/torch.
 *
 * Everything here is a byte offset into an object of the target. `gpumem learn` finds them in a
 * live process (docs/learning.md). The classes that PyTorch publishes are in its headers too:
 * tests/tools/torch_offsets.cpp prints them from an installed wheel. The allocator's own structs
 * (c10/cuda/CUDACachingAllocator.cpp) are in no header.
 */
#ifndef GM_TORCH_LAYOUT_H
#define GM_TORCH_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ska::flat_hash_map / flat_hash_set (c10/util/flat_hash_map.h, sherwood_v3_table): a pointer to
 * entries, each led by a signed distance byte (< 0: empty); `slots` + 1 + `lookups` entries, the
 * last a sentinel. */
struct gm_flat_hash_layout {
	uint16_t entries; /* pointer */
	uint16_t slots_minus_one;
	uint16_t lookups; /* int8 */
	uint16_t count;
};

struct gm_torch_layout {
	int major, minor_first, minor_last;
	/* built with libstdc++'s std::string of before C++11 (_GLIBCXX_USE_CXX11_ABI=0), which is
	 * shorter */
	bool old_strings;

	/* bit 63 of the packed counts says that there is a Python wrapper, which then owns one
	 * strong count and is itself owned while the count is above 1 (2.10:
	 * c10/util/intrusive_ptr.h, kHasPyObject); before it one of the two owns the other: the low
	 * bit of the wrapper's pointer says that the tensor owns the wrapper (2.4 to 2.9:
	 * c10/core/impl/PyObjectSlot.h, owns_pyobj) */
	bool packed_python_bit;

	struct {
		uint16_t size_of, counts, data, context, device, size_bytes, python;
	} storage; /* c10/core/StorageImpl.h */

	struct {
		uint16_t size_of, counts, storage, autograd_meta, python;
		uint16_t dimensions,
		        sizes; /* SizesAndStrides: size_, then 5 + 5 words or a pointer */
		uint16_t inline_dimensions;
		uint16_t storage_offset, numel, dtype, device;
	} tensor; /* c10/core/TensorImpl.h, c10/core/impl/SizesAndStrides.h */

	struct {
		uint16_t size_of, grad, grad_fn, grad_accumulator, requires_grad;
		uint16_t view_size_of, view_backward,
		        view_backward_set; /* DifferentiableViewMeta */
		uint16_t view_forward, view_forward_set;
	} meta; /* torch/csrc/autograd/variable.h */

	struct {
		uint16_t size_of;
		uint16_t counts; /* from 2.13 on an intrusive_ptr_target, counted as tensors are; 0:
		                    not so */
		uint16_t self, control; /* until 2.12 std::enable_shared_from_this; else 0 */
		uint16_t next_edges, edge_size;
		/* its Python object: where the node has counts, they own each other as a tensor and
		 * its wrapper do; before, the node owns nothing of it */
		uint16_t python;
		uint16_t accumulate_variable; /* AccumulateGrad::variable */
		uint16_t python_object; /* until 2.12 PyNode::obj, which it owns; 0: `python` is
		                           that */
	} node;                         /* torch/csrc/autograd/function.h, from 2.13 on node.h */

	struct {
		uint16_t size_of;
	} saved; /* torch/csrc/autograd/saved_variable.h */

	/* what PyTorch's C++ objects own of Python, through small objects of their own; a vtable
	 * comes first */
	struct {
		uint16_t
		        dict; /* PyFunctionPreHook and its kin: torch/csrc/autograd/python_hook.h */
		uint16_t metadata_dict; /* PyAnomalyMetadata::dict_: python_anomaly_mode.h,
		                           anomaly_mode.h */
		/* PySavedVariableHooks::pack_hook_, unpack_hook_, data_:
		 * python_saved_variable_hooks.h */
		uint16_t saved_pack, saved_unpack, saved_data;
	} hooks;

	/* c10::InefficientStdFunctionContext: the memory first, then a std::function
	 * (c10/core/Allocator.h) */
	struct {
		uint16_t size_of, function;
	} lender;

	/* c10d::Reducer, which has no vtable, and its Bucket
	 * (torch/csrc/distributed/c10d/reducer.hpp) */
	struct {
		uint16_t parameters; /* Reducer::params_ */
		uint16_t bucket_size_of, gradients, views_in, views_out, variables, future_work,
		        sparse_indices;
	} reducer;

	struct {
		uint16_t tensor_cdata, tensor_hooks, tensor_post_hooks; /* THPVariable */
		bool tensor_maybe_owned; /* cdata is a c10::MaybeOwned<Tensor>: a flag word first */
		uint16_t storage_cdata;  /* THPStorage, behind the flag where it has one */
		uint16_t function_cdata; /* THPCppFunction: std::shared_ptr<Node> */
		uint16_t pyfunction_saved; /* THPFunction::saved_variables,
		                              std::vector<SavedVariable> */
		uint16_t pyfunction_cdata;
	} python;

	struct gm_torch_block {
		uint16_t size_of, device, stream, stream_uses, size, requested, pool, address;
		uint16_t allocated, mapped, previous, next, event_count;
		uint16_t expandable; /* ExpandableSegment *; 0: not in this table */
	} block;                     /* struct Block */

	struct {
		uint32_t devices; /* NativeCachingAllocator::device_allocator, std::vector */
		uint32_t stats_allocated, stats_reserved, stats_requested,
		        stats_active;          /* .current of all */
		uint32_t stats_max_split;      /* DeviceStats::max_split_size */
		uint32_t large, small, active; /* DeviceCachingAllocator */
		uint32_t graph_pools;
		uint16_t graph_entry_size, graph_entry_pool;
		uint16_t active_entry_size, active_entry_block;
		/* BlockPool: std::set<Block*>; behind the second bool is_small, PrivatePool *owner.
		 * From 2.13 on there is a third set between the two, of the same blocks in another
		 * order. */
		uint16_t pool_blocks, pool_unmapped;
		uint16_t private_large, private_small; /* PrivatePool */
		uint16_t set_header, set_count;        /* std::set: header node, size */
		uint16_t set_node_value;
		struct gm_flat_hash_layout hash;
		/* DeviceCachingAllocator; 0: not in this table, and then not known of that
		 * version */
		uint32_t properties_total; /* cudaDeviceProp.totalGlobalMem */
		uint32_t limit;            /* std::optional<size_t> allowed_memory_maximum */
		bool limit_is_plain;       /* until 2.9 a size_t, 0: none */
		/* RingBuffer<TraceEntry>: the next place, and a pointer to the vector */
		uint32_t trace_next, trace_entries;
	} allocator;

	struct {
		uint16_t size_of; /* 0: not in this table */
		uint16_t action, address, context, stream, size;
	} trace; /* TraceEntry */
};

#endif
