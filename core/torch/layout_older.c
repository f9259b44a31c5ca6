/*
 * The tables of torch 2.4 to 2.14. Most of them is the same from version to version, so a part that several share is
 * written once, named by the versions that have it; a row puts its parts together.
 *
 * The wheels of 2.4 to 2.6 on the package index have libstdc++'s old std::string; builds of 2.4 and 2.5 with the new
 * one are not here, as none was at hand to test.
 *
 * Published classes: tests/tools/torch_offsets.sh against the wheels 2.4.1, 2.5.1, 2.6.0, 2.7.1, 2.8.0, 2.9.1,
 * 2.10.0, 2.11.0, 2.12.1, 2.13.0 and 2.14.1. The allocator's: tests/tools/torch_allocator.py in a process of each.
 */
#include "torch/layout.h"

/* c10/core/StorageImpl.h. Until 2.9 the strong count is a member of its own and the weak one follows it: the
 * same two halves of a word as the packed counts of 2.10. */
#define STORAGE(bytes)                                                                  \
	{                                                                               \
		.size_of = bytes, .counts = 8, .data = 16, .context = 24, .device = 40, \
		.size_bytes = 48, .size_is_heap = 56, .allocator = 64, .python = 80,    \
	}

#define STORAGE_2_13                                                                 \
	{                                                                            \
		.size_of = 96, .counts = 8, .data = 16, .context = 24, .device = 40, \
		.size_bytes = 48, .size_is_heap = 56, .allocator = 72, .python = 80, \
	}

/* c10/core/TensorImpl.h: until 2.12 PyObjectSlot begins with the interpreter's pointer, 8 bytes more */
#define TENSOR_FROM(python_at)                                                                    \
	{                                                                                         \
		.size_of = (python_at) + 128, .counts = 8, .storage = 16, .autograd_meta = 24,    \
		.extra_meta = 32, .version = 40, .python = python_at,                             \
		.dimensions = (python_at) + 8, .sizes = (python_at) + 16, .inline_dimensions = 5, \
		.storage_offset = (python_at) + 96, .numel = (python_at) + 104,                   \
		.dtype = (python_at) + 112, .device = (python_at) + 114,                          \
	}
#define TENSOR TENSOR_FROM(56)
#define TENSOR_2_13 TENSOR_FROM(48)

/* torch/csrc/autograd/variable.h: a std::string comes first, of 8 bytes in the old ABI and 32 in the new, so that all
 * the rest begins at 16 or 40; 2.10 added 8 bytes at the end */
#define META(first, bytes)                                                        \
	{                                                                         \
		.size_of = bytes, .grad = first, .grad_fn = (first) + 8,          \
		.grad_accumulator = (first) + 24, .requires_grad = (first) + 104, \
		.hooks = (first) + 56, .post_accumulate_hooks = (first) + 96,     \
		.view_size_of = (bytes) + 128, .view_backward = bytes,            \
		.view_backward_set = (bytes) + 48, .view_forward = (bytes) + 56,  \
		.view_forward_set = (bytes) + 104,                                \
	}
#define META_OLD_STRINGS META(16, 168)
#define META_2_4_TO_2_9 META(40, 192)
#define META_2_10 META(40, 200)
/* from 2.13 on references to nodes are c10::intrusive_ptr, 8 bytes each instead of std::shared_ptr's 16 */
#define META_2_13                                                                    \
	{                                                                            \
		.size_of = 184, .grad = 40, .grad_fn = 48, .grad_accumulator = 56,   \
		.requires_grad = 128, .hooks = 80, .post_accumulate_hooks = 120,     \
		.view_size_of = 312, .view_backward = 184, .view_backward_set = 232, \
		.view_forward = 240, .view_forward_set = 288,                        \
	}

/* torch/csrc/autograd/node.h */
#define NODE_2_13                                                                              \
	{                                                                                      \
		.size_of = 464, .counts = 8, .next_edges = 88, .edge_size = 16, .python = 112, \
		.accumulate_variable = 464,                                                    \
	}
/* torch/csrc/autograd/function.h, 2.4 to 2.12 */
#define NODE                                                                                 \
	{                                                                                    \
		.size_of = 472, .self = 8, .control = 16, .next_edges = 96, .edge_size = 24, \
		.python = 120, .accumulate_variable = 472, .python_object = 472,             \
	}

/* torch/csrc/autograd/saved_variable.h: in 2.4 the flags and what follows stand 8 bytes later */
#define SAVED(later)                                                                       \
	{                                                                                  \
		.size_of = 104 + (later), .data = 0, .saved_original = 50 + (later),       \
		.is_leaf = 51 + (later), .is_output = 52 + (later), .hooks = 56 + (later), \
		.grad_fn = 64 + (later), .grad_accumulator = 80 + (later),                 \
	}

#define SAVED_2_13                                                                              \
	{                                                                                       \
		.size_of = 80, .data = 0, .saved_original = 42, .is_leaf = 43, .is_output = 44, \
		.hooks = 48, .grad_fn = 56, .grad_accumulator = 64,                             \
	}

/* torch/csrc/autograd/python_hook.h, python_anomaly_mode.h (behind the std::string and the parent: until 2.12 a
 * std::shared_ptr of two words, then an intrusive_ptr of one), python_saved_variable_hooks.h */
#define HOOKS(metadata)                    \
	.hooks = {.dict = 8,               \
	        .metadata_dict = metadata, \
	        .saved_pack = 8,           \
	        .saved_unpack = 16,        \
	        .saved_data = 24}
/* c10/core/Allocator.h; torch/csrc/distributed/c10d/reducer.hpp */
#define LENDER .lender = {.size_of = 40, .function = 8}
#define REDUCER(bucket)                   \
	.reducer = {.parameters = 40,     \
	        .bucket_size_of = bucket, \
	        .gradients = 0,           \
	        .views_in = 8,            \
	        .views_out = 32,          \
	        .variables = 56,          \
	        .future_work = 184,       \
	        .sparse_indices = 200}

/* torch/csrc/autograd/python_variable.h, torch/csrc/Storage.h. Until 2.9 a wrapper has a c10::MaybeOwned, whose flag
 * comes before the pointer. */
#define PYTHON_2_4_TO_2_9                                                           \
	{                                                                           \
		.tensor_cdata = 16, .tensor_maybe_owned = true, .tensor_hooks = 32, \
		.tensor_post_hooks = 40, .storage_cdata = 24, .function_cdata = 16, \
		.pyfunction_saved = 136, .pyfunction_cdata = 216,                   \
	}
#define PYTHON_2_10                                                                 \
	{                                                                           \
		.tensor_cdata = 16, .tensor_hooks = 24, .tensor_post_hooks = 32,    \
		.storage_cdata = 16, .function_cdata = 16, .pyfunction_saved = 136, \
		.pyfunction_cdata = 216,                                            \
	}
/* 2.14: more flags and vectors before what a context saved */
#define PYTHON_2_14                                                                 \
	{                                                                           \
		.tensor_cdata = 16, .tensor_hooks = 24, .tensor_post_hooks = 32,    \
		.storage_cdata = 16, .function_cdata = 16, .pyfunction_saved = 192, \
		.pyfunction_cdata = 280,                                            \
	}

/* struct Block, 2.4 to 2.10 */
#define BLOCK                                                                                 \
	{                                                                                     \
		.size_of = 0xa0, .device = 0, .stream = 8, .stream_uses = 0x10, .size = 0x30, \
		.requested = 0x38, .pool = 0x40, .address = 0x48, .allocated = 0x50,          \
		.mapped = 0x51, .previous = 0x58, .next = 0x60, .event_count = 0x68,          \
		.expandable = 0x98,                                                           \
	}

#define BLOCK_2_11                                                                            \
	{                                                                                     \
		.size_of = 0xa8, .device = 0, .stream = 8, .stream_uses = 0x10, .size = 0x38, \
		.requested = 0x40, .pool = 0x48, .address = 0x50, .allocated = 0x58,          \
		.mapped = 0x59, .previous = 0x60, .next = 0x68, .event_count = 0x70,          \
		.expandable = 0xa0,                                                           \
	}

/* What the allocator has in the same place in all versions: the containers of libstdc++ (std::set, bits/stl_tree.h) and
 * c10 (c10/util/flat_hash_map.h). */
#define CONTAINERS                                                                   \
	.graph_entry_size = 32, .graph_entry_pool = 24, .active_entry_size = 16,     \
	.active_entry_block = 8, .pool_blocks = 0, .set_header = 8, .set_first = 24, \
	.set_count = 40, .set_node_value = 32,                                       \
	.hash = {.entries = 0, .slots_minus_one = 8, .lookups = 17, .count = 24}
/* DeviceStats: 2.12 counts rejections before max_split_size, 2.13 has a table behind the reserved bytes; and a pool got
 * a third set in 2.13 */
#define STATS_FROM_ACTIVE(active, after)                                           \
	.stats_allocated = 0x1a8, .stats_reserved = 0x208, .stats_active = active, \
	.stats_requested = (active) + 0xc0, .stats_max_split = (active) + 0x188 + (after)
#define ALLOCATOR_COMMON STATS_FROM_ACTIVE(0x268, 0), .pool_unmapped = 0x30, CONTAINERS
#define ALLOCATOR_COMMON_2_12 STATS_FROM_ACTIVE(0x268, 8), .pool_unmapped = 0x30, CONTAINERS
#define ALLOCATOR_COMMON_2_13 STATS_FROM_ACTIVE(0x288, 8), .pool_unmapped = 0x60, CONTAINERS
/* DeviceCachingAllocator's pools and table of active blocks */
#define POOLS_2_4_TO_2_9 .large = 0x3f8, .small = 0x470, .active = 0x4e8
#define POOLS_2_10 .large = 0x400, .small = 0x478, .active = 0x4f0
#define POOLS_2_12 .large = 0x408, .small = 0x480, .active = 0x4f8
#define POOLS_2_13 .large = 0x428, .small = 0x4d0, .active = 0x578
/* PrivatePool: from 2.8 on it names itself and its allocator first */
#define PRIVATE_2_4_TO_2_7 .private_large = 8, .private_small = 0x80
#define PRIVATE_2_8_TO_2_10 .private_large = 0x20, .private_small = 0x98
#define PRIVATE_2_11 .private_large = 0x28, .private_small = 0xa0
#define PRIVATE_2_13 .private_large = 0x28, .private_small = 0xd0

/* struct TraceEntry (c10/cuda/CUDACachingAllocator.h; from 2.11 on c10/core/CachingDeviceAllocator.h): it only grew */
#define TRACE(bytes)                                                                       \
	{                                                                                  \
		.size_of = bytes, .action = 0, .device = 4, .address = 8, .context = 0x10, \
		.stream = 0x20, .size = 0x28                                               \
	}

const struct gm_torch_layout gm_torch_layouts_older[GM_TORCH_LAYOUTS_OLDER] = {
        {
                .major = 2,
                .minor_first = 4,
                .minor_last = 4,
                .old_strings = true,
                .storage = STORAGE(88),
                .tensor = TENSOR,
                .meta = META_OLD_STRINGS,
                .node = NODE,
                .saved = SAVED(8),
                .python = PYTHON_2_4_TO_2_9,
                HOOKS(32),
                LENDER,
                REDUCER(216),
                .block = BLOCK,
                .trace = TRACE(0x38),
                .allocator = {.devices = 0x57f0,
                        .graph_pools = 0x5c8,
                        .limit = 0x560,
                        .limit_is_plain = true,
                        .trace_next = 0x5a8,
                        .trace_entries = 0x5c0,
                        POOLS_2_4_TO_2_9,
                        PRIVATE_2_4_TO_2_7,
                        ALLOCATOR_COMMON},
        },
        {
                .major = 2,
                .minor_first = 5,
                .minor_last = 5,
                .old_strings = true,
                .storage = STORAGE(88),
                .tensor = TENSOR,
                .meta = META_OLD_STRINGS,
                .node = NODE,
                .saved = SAVED(0),
                .python = PYTHON_2_4_TO_2_9,
                HOOKS(32),
                LENDER,
                REDUCER(216),
                .block = BLOCK,
                .trace = TRACE(0x38),
                .allocator = {.devices = 0x5838,
                        .graph_pools = 0x5f0,
                        .limit = 0x560,
                        .limit_is_plain = true,
                        .trace_next = 0x5e0,
                        .trace_entries = 0x5e8,
                        POOLS_2_4_TO_2_9,
                        PRIVATE_2_4_TO_2_7,
                        ALLOCATOR_COMMON},
        },
        {
                .major = 2,
                .minor_first = 6,
                .minor_last = 6,
                .old_strings = true,
                .storage = STORAGE(96),
                .tensor = TENSOR,
                .meta = META_OLD_STRINGS,
                .node = NODE,
                .saved = SAVED(0),
                .python = PYTHON_2_4_TO_2_9,
                HOOKS(32),
                LENDER,
                REDUCER(216),
                .block = BLOCK,
                .trace = TRACE(0x38),
                .allocator = {.devices = 0x5838,
                        .graph_pools = 0x5f0,
                        .limit = 0x560,
                        .limit_is_plain = true,
                        .trace_next = 0x5e0,
                        .trace_entries = 0x5e8,
                        POOLS_2_4_TO_2_9,
                        PRIVATE_2_4_TO_2_7,
                        ALLOCATOR_COMMON},
        },
        {
                .major = 2,
                .minor_first = 6,
                .minor_last = 7,
                .storage = STORAGE(96),
                .tensor = TENSOR,
                .meta = META_2_4_TO_2_9,
                .node = NODE,
                .saved = SAVED(0),
                .python = PYTHON_2_4_TO_2_9,
                HOOKS(56),
                LENDER,
                REDUCER(216),
                .block = BLOCK,
                .trace = TRACE(0x38),
                .allocator = {.devices = 0x5838,
                        .graph_pools = 0x5f0,
                        .limit = 0x560,
                        .limit_is_plain = true,
                        .trace_next = 0x5e0,
                        .trace_entries = 0x5e8,
                        POOLS_2_4_TO_2_9,
                        PRIVATE_2_4_TO_2_7,
                        ALLOCATOR_COMMON},
        },
        {
                .major = 2,
                .minor_first = 8,
                .minor_last = 8,
                .storage = STORAGE(96),
                .tensor = TENSOR,
                .meta = META_2_4_TO_2_9,
                .node = NODE,
                .saved = SAVED(0),
                .python = PYTHON_2_4_TO_2_9,
                HOOKS(56),
                LENDER,
                REDUCER(216),
                .block = BLOCK,
                .trace = TRACE(0x68),
                .allocator = {.devices = 0x5838,
                        .graph_pools = 0x610,
                        .limit = 0x580,
                        .limit_is_plain = true,
                        .trace_next = 0x600,
                        .trace_entries = 0x608,
                        POOLS_2_4_TO_2_9,
                        PRIVATE_2_8_TO_2_10,
                        ALLOCATOR_COMMON},
        },
        {
                .major = 2,
                .minor_first = 9,
                .minor_last = 9,
                .storage = STORAGE(96),
                .tensor = TENSOR,
                .meta = META_2_4_TO_2_9,
                .node = NODE,
                .saved = SAVED(0),
                .python = PYTHON_2_4_TO_2_9,
                HOOKS(56),
                LENDER,
                REDUCER(216),
                .block = BLOCK,
                .trace = TRACE(0x68),
                .allocator = {.devices = 0x5838,
                        .graph_pools = 0x618,
                        .limit = 0x588,
                        .limit_is_plain = true,
                        .trace_next = 0x608,
                        .trace_entries = 0x610,
                        POOLS_2_4_TO_2_9,
                        PRIVATE_2_8_TO_2_10,
                        ALLOCATOR_COMMON},
        },
        {
                .major = 2,
                .minor_first = 10,
                .minor_last = 10,
                .packed_python_bit = true,
                .storage = STORAGE(96),
                .tensor = TENSOR,
                .meta = META_2_10,
                .node = NODE,
                .saved = SAVED(0),
                .python = PYTHON_2_10,
                HOOKS(56),
                LENDER,
                REDUCER(216),
                .block = BLOCK,
                .trace = TRACE(0x88),
                .allocator = {.devices = 0x5838,
                        .graph_pools = 0xa90,
                        .properties_total = 0x710,
                        .limit = 0x9f8,
                        .trace_next = 0xa80,
                        .trace_entries = 0xa88,
                        POOLS_2_10,
                        PRIVATE_2_8_TO_2_10,
                        ALLOCATOR_COMMON},
        },
        {
                .major = 2,
                .minor_first = 11,
                .minor_last = 11,
                .packed_python_bit = true,
                .storage = STORAGE(96),
                .tensor = TENSOR,
                .meta = META_2_10,
                .node = NODE,
                .saved = SAVED(0),
                .python = PYTHON_2_10,
                HOOKS(56),
                LENDER,
                REDUCER(216),
                .block = BLOCK_2_11,
                .trace = TRACE(0x88),
                .allocator = {.devices = 0x5838,
                        .graph_pools = 0xab0,
                        .properties_total = 0x710,
                        .limit = 0x9e0,
                        .trace_next = 0xaa0,
                        .trace_entries = 0xaa8,
                        POOLS_2_10,
                        PRIVATE_2_11,
                        ALLOCATOR_COMMON},
        },
        {
                .major = 2,
                .minor_first = 12,
                .minor_last = 12,
                .packed_python_bit = true,
                .storage = STORAGE(96),
                .tensor = TENSOR,
                .meta = META_2_10,
                .node = NODE,
                .saved = SAVED(0),
                .python = PYTHON_2_10,
                HOOKS(56),
                LENDER,
                REDUCER(240),
                .block = BLOCK_2_11,
                .trace = TRACE(0x88),
                .allocator = {.devices = 0x5838,
                        .graph_pools = 0xab8,
                        .properties_total = 0x718,
                        .limit = 0x9e8,
                        .trace_next = 0xaa8,
                        .trace_entries = 0xab0,
                        POOLS_2_12,
                        PRIVATE_2_11,
                        ALLOCATOR_COMMON_2_12},
        },
        {
                .major = 2,
                .minor_first = 13,
                .minor_last = 13,
                .packed_python_bit = true,
                .storage = STORAGE_2_13,
                .tensor = TENSOR_2_13,
                .meta = META_2_13,
                .node = NODE_2_13,
                .saved = SAVED_2_13,
                .python = PYTHON_2_10,
                HOOKS(48),
                LENDER,
                REDUCER(240),
                .block = BLOCK_2_11,
                .trace = TRACE(0x88),
                .allocator = {.devices = 0x5838,
                        .graph_pools = 0xb40,
                        .properties_total = 0x7a0,
                        .limit = 0xa70,
                        .trace_next = 0xb30,
                        .trace_entries = 0xb38,
                        POOLS_2_13,
                        PRIVATE_2_13,
                        ALLOCATOR_COMMON_2_13},
        },
        {
                .major = 2,
                .minor_first = 14,
                .minor_last = 14,
                .packed_python_bit = true,
                .storage = STORAGE_2_13,
                .tensor = TENSOR_2_13,
                .meta = META_2_13,
                .node = NODE_2_13,
                .saved = SAVED_2_13,
                .python = PYTHON_2_14,
                HOOKS(48),
                LENDER,
                REDUCER(240),
                .block = BLOCK_2_11,
                .trace = TRACE(0x88),
                .allocator = {.devices = 0x5838,
                        .graph_pools = 0xb40,
                        .properties_total = 0x7a0,
                        .limit = 0xa70,
                        .trace_next = 0xb30,
                        .trace_entries = 0xb38,
                        POOLS_2_13,
                        PRIVATE_2_13,
                        ALLOCATOR_COMMON_2_13},
        },
};
