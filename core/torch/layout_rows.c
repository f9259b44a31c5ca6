/* The layouts of all versions, from core/torch/tables, where make_rows generates them. A layout
 * that several versions share appears once, under the name of the first of them. */
/* clang-format off */
#include "torch/layout_rows.h"

#define STORAGE \
	.counts = 8, .data = 16, .context = 24, .device = 40, .size_bytes = 48, .python = 80
#define STORAGE_2_4 \
	.size_of = 88
#define STORAGE_2_6 \
	.size_of = 96
#define TENSOR \
	.counts = 8, .storage = 16, .autograd_meta = 24, .inline_dimensions = 5
#define TENSOR_2_4 \
	.size_of = 184, .python = 56, .dimensions = 64, .sizes = 72, .storage_offset = 152, .numel = 160, .dtype = 168, \
	.device = 170
#define TENSOR_2_13 \
	.size_of = 176, .python = 48, .dimensions = 56, .sizes = 64, .storage_offset = 144, .numel = 152, .dtype = 160, \
	.device = 162
#define META_2_4 \
	.size_of = 168, .grad = 16, .grad_fn = 24, .grad_accumulator = 40, .requires_grad = 120, .view_size_of = 296, \
	.view_backward = 168, .view_backward_set = 216, .view_forward = 224, .view_forward_set = 272
#define META_2_7 \
	.size_of = 192, .grad = 40, .grad_fn = 48, .grad_accumulator = 64, .requires_grad = 144, .view_size_of = 320, \
	.view_backward = 192, .view_backward_set = 240, .view_forward = 248, .view_forward_set = 296
#define META_2_10 \
	.size_of = 200, .grad = 40, .grad_fn = 48, .grad_accumulator = 64, .requires_grad = 144, .view_size_of = 328, \
	.view_backward = 200, .view_backward_set = 248, .view_forward = 256, .view_forward_set = 304
#define META_2_13 \
	.size_of = 184, .grad = 40, .grad_fn = 48, .grad_accumulator = 56, .requires_grad = 128, .view_size_of = 312, \
	.view_backward = 184, .view_backward_set = 232, .view_forward = 240, .view_forward_set = 288
#define NODE_2_4 \
	.size_of = 472, .self = 8, .control = 16, .next_edges = 96, .edge_size = 24, .python = 120, \
	.accumulate_variable = 472, .python_object = 472
#define NODE_2_13 \
	.size_of = 464, .counts = 8, .next_edges = 88, .edge_size = 16, .python = 112, .accumulate_variable = 464
#define SAVED_2_4 \
	.size_of = 112
#define SAVED_2_5 \
	.size_of = 104
#define SAVED_2_13 \
	.size_of = 80
#define HOOKS \
	.dict = 8, .saved_pack = 8
#define HOOKS_2_4 \
	.metadata_dict = 32, .saved_unpack = 16, .saved_data = 24
#define HOOKS_2_7 \
	.metadata_dict = 56, .saved_unpack = 16, .saved_data = 24
#define HOOKS_2_13 \
	.metadata_dict = 48, .saved_unpack = 16, .saved_data = 24
#define HOOKS_2_15 \
	.metadata_dict = 48, .saved_unpack = 32, .saved_data = 56
#define LENDER \
	.size_of = 40, .function = 8
#define REDUCER \
	.parameters = 40, .views_in = 8, .views_out = 32, .variables = 56, .future_work = 184
#define REDUCER_2_4 \
	.bucket_size_of = 216, .sparse_indices = 200
#define REDUCER_2_12 \
	.bucket_size_of = 240, .sparse_indices = 200
#define REDUCER_2_15 \
	.bucket_size_of = 248, .sparse_indices = 208
#define PYTHON \
	.tensor_cdata = 16, .function_cdata = 16
#define PYTHON_2_4 \
	.tensor_hooks = 32, .tensor_post_hooks = 40, .tensor_maybe_owned = 1, .storage_cdata = 24, \
	.pyfunction_saved = 136, .pyfunction_cdata = 216
#define PYTHON_2_10 \
	.tensor_hooks = 24, .tensor_post_hooks = 32, .storage_cdata = 16, .pyfunction_saved = 136, \
	.pyfunction_cdata = 216
#define PYTHON_2_14 \
	.tensor_hooks = 24, .tensor_post_hooks = 32, .storage_cdata = 16, .pyfunction_saved = 192, \
	.pyfunction_cdata = 280
#define BLOCK \
	.stream = 8, .stream_uses = 16
#define BLOCK_2_4 \
	.size_of = 160, .size = 48, .requested = 56, .pool = 64, .address = 72, .allocated = 80, .mapped = 81, \
	.previous = 88, .next = 96, .event_count = 104, .expandable = 152
#define BLOCK_2_11 \
	.size_of = 168, .size = 56, .requested = 64, .pool = 72, .address = 80, .allocated = 88, .mapped = 89, \
	.previous = 96, .next = 104, .event_count = 112, .expandable = 160
#define ALLOCATOR \
	.stats_allocated = 424, .stats_reserved = 520, .graph_entry_size = 32, .graph_entry_pool = 24, \
	.active_entry_size = 16, .active_entry_block = 8, .set_header = 8, .set_count = 40, .set_node_value = 32, \
	.hash.slots_minus_one = 8, .hash.lookups = 17, .hash.count = 24
#define ALLOCATOR_2_4 \
	.devices = 22512, .stats_requested = 808, .stats_active = 616, .stats_max_split = 1008, .large = 1016, \
	.small = 1136, .active = 1256, .graph_pools = 1480, .pool_unmapped = 48, .private_large = 8, \
	.private_small = 128, .limit = 1376, .limit_is_plain = 1, .trace_next = 1448, .trace_entries = 1472
#define ALLOCATOR_2_5 \
	.devices = 22584, .stats_requested = 808, .stats_active = 616, .stats_max_split = 1008, .large = 1016, \
	.small = 1136, .active = 1256, .graph_pools = 1520, .pool_unmapped = 48, .private_large = 8, \
	.private_small = 128, .limit = 1376, .limit_is_plain = 1, .trace_next = 1504, .trace_entries = 1512
#define ALLOCATOR_2_8 \
	.devices = 22584, .stats_requested = 808, .stats_active = 616, .stats_max_split = 1008, .large = 1016, \
	.small = 1136, .active = 1256, .graph_pools = 1552, .pool_unmapped = 48, .private_large = 32, \
	.private_small = 152, .limit = 1408, .limit_is_plain = 1, .trace_next = 1536, .trace_entries = 1544
#define ALLOCATOR_2_9 \
	.devices = 22584, .stats_requested = 808, .stats_active = 616, .stats_max_split = 1008, .large = 1016, \
	.small = 1136, .active = 1256, .graph_pools = 1560, .pool_unmapped = 48, .private_large = 32, \
	.private_small = 152, .limit = 1416, .limit_is_plain = 1, .trace_next = 1544, .trace_entries = 1552
#define ALLOCATOR_2_10 \
	.devices = 22584, .stats_requested = 808, .stats_active = 616, .stats_max_split = 1008, .large = 1024, \
	.small = 1144, .active = 1264, .graph_pools = 2704, .pool_unmapped = 48, .private_large = 32, \
	.private_small = 152, .properties_total = 1808, .limit = 2552, .trace_next = 2688, .trace_entries = 2696
#define ALLOCATOR_2_11 \
	.devices = 22584, .stats_requested = 808, .stats_active = 616, .stats_max_split = 1008, .large = 1024, \
	.small = 1144, .active = 1264, .graph_pools = 2736, .pool_unmapped = 48, .private_large = 40, \
	.private_small = 160, .properties_total = 1808, .limit = 2528, .trace_next = 2720, .trace_entries = 2728
#define ALLOCATOR_2_12 \
	.devices = 22584, .stats_requested = 808, .stats_active = 616, .stats_max_split = 1016, .large = 1032, \
	.small = 1152, .active = 1272, .graph_pools = 2744, .pool_unmapped = 48, .private_large = 40, \
	.private_small = 160, .properties_total = 1816, .limit = 2536, .trace_next = 2728, .trace_entries = 2736
#define ALLOCATOR_2_13 \
	.devices = 22584, .stats_requested = 840, .stats_active = 648, .stats_max_split = 1048, .large = 1064, \
	.small = 1232, .active = 1400, .graph_pools = 2880, .pool_unmapped = 96, .private_large = 40, \
	.private_small = 208, .properties_total = 1952, .limit = 2672, .trace_next = 2864, .trace_entries = 2872
#define TRACE \
	.address = 8, .context = 16, .stream = 32, .size = 40
#define TRACE_2_4 \
	.size_of = 56
#define TRACE_2_8 \
	.size_of = 104
#define TRACE_2_10 \
	.size_of = 136
#define TRACE_2_15 \
	.size_of = 168

const struct gm_torch_layout gm_torch_layouts[] = {
	{
		.major = 2, .minor_first = 4, .minor_last = 4, .old_strings = true,
		.storage = {STORAGE, STORAGE_2_4},
		.tensor = {TENSOR, TENSOR_2_4},
		.meta = {META_2_4},
		.node = {NODE_2_4},
		.saved = {SAVED_2_4},
		.hooks = {HOOKS, HOOKS_2_4},
		.lender = {LENDER},
		.reducer = {REDUCER, REDUCER_2_4},
		.python = {PYTHON, PYTHON_2_4},
		.block = {BLOCK, BLOCK_2_4},
		.allocator = {ALLOCATOR, ALLOCATOR_2_4},
		.trace = {TRACE, TRACE_2_4},
	},
	{
		.major = 2, .minor_first = 5, .minor_last = 5, .old_strings = true,
		.storage = {STORAGE, STORAGE_2_4},
		.tensor = {TENSOR, TENSOR_2_4},
		.meta = {META_2_4},
		.node = {NODE_2_4},
		.saved = {SAVED_2_5},
		.hooks = {HOOKS, HOOKS_2_4},
		.lender = {LENDER},
		.reducer = {REDUCER, REDUCER_2_4},
		.python = {PYTHON, PYTHON_2_4},
		.block = {BLOCK, BLOCK_2_4},
		.allocator = {ALLOCATOR, ALLOCATOR_2_5},
		.trace = {TRACE, TRACE_2_4},
	},
	{
		.major = 2, .minor_first = 6, .minor_last = 6, .old_strings = true,
		.storage = {STORAGE, STORAGE_2_6},
		.tensor = {TENSOR, TENSOR_2_4},
		.meta = {META_2_4},
		.node = {NODE_2_4},
		.saved = {SAVED_2_5},
		.hooks = {HOOKS, HOOKS_2_4},
		.lender = {LENDER},
		.reducer = {REDUCER, REDUCER_2_4},
		.python = {PYTHON, PYTHON_2_4},
		.block = {BLOCK, BLOCK_2_4},
		.allocator = {ALLOCATOR, ALLOCATOR_2_5},
		.trace = {TRACE, TRACE_2_4},
	},
	{
		.major = 2, .minor_first = 6, .minor_last = 7,
		.storage = {STORAGE, STORAGE_2_6},
		.tensor = {TENSOR, TENSOR_2_4},
		.meta = {META_2_7},
		.node = {NODE_2_4},
		.saved = {SAVED_2_5},
		.hooks = {HOOKS, HOOKS_2_7},
		.lender = {LENDER},
		.reducer = {REDUCER, REDUCER_2_4},
		.python = {PYTHON, PYTHON_2_4},
		.block = {BLOCK, BLOCK_2_4},
		.allocator = {ALLOCATOR, ALLOCATOR_2_5},
		.trace = {TRACE, TRACE_2_4},
	},
	{
		.major = 2, .minor_first = 8, .minor_last = 8,
		.storage = {STORAGE, STORAGE_2_6},
		.tensor = {TENSOR, TENSOR_2_4},
		.meta = {META_2_7},
		.node = {NODE_2_4},
		.saved = {SAVED_2_5},
		.hooks = {HOOKS, HOOKS_2_7},
		.lender = {LENDER},
		.reducer = {REDUCER, REDUCER_2_4},
		.python = {PYTHON, PYTHON_2_4},
		.block = {BLOCK, BLOCK_2_4},
		.allocator = {ALLOCATOR, ALLOCATOR_2_8},
		.trace = {TRACE, TRACE_2_8},
	},
	{
		.major = 2, .minor_first = 9, .minor_last = 9,
		.storage = {STORAGE, STORAGE_2_6},
		.tensor = {TENSOR, TENSOR_2_4},
		.meta = {META_2_7},
		.node = {NODE_2_4},
		.saved = {SAVED_2_5},
		.hooks = {HOOKS, HOOKS_2_7},
		.lender = {LENDER},
		.reducer = {REDUCER, REDUCER_2_4},
		.python = {PYTHON, PYTHON_2_4},
		.block = {BLOCK, BLOCK_2_4},
		.allocator = {ALLOCATOR, ALLOCATOR_2_9},
		.trace = {TRACE, TRACE_2_8},
	},
	{
		.major = 2, .minor_first = 10, .minor_last = 10, .packed_python_bit = true,
		.storage = {STORAGE, STORAGE_2_6},
		.tensor = {TENSOR, TENSOR_2_4},
		.meta = {META_2_10},
		.node = {NODE_2_4},
		.saved = {SAVED_2_5},
		.hooks = {HOOKS, HOOKS_2_7},
		.lender = {LENDER},
		.reducer = {REDUCER, REDUCER_2_4},
		.python = {PYTHON, PYTHON_2_10},
		.block = {BLOCK, BLOCK_2_4},
		.allocator = {ALLOCATOR, ALLOCATOR_2_10},
		.trace = {TRACE, TRACE_2_10},
	},
	{
		.major = 2, .minor_first = 11, .minor_last = 11, .packed_python_bit = true,
		.storage = {STORAGE, STORAGE_2_6},
		.tensor = {TENSOR, TENSOR_2_4},
		.meta = {META_2_10},
		.node = {NODE_2_4},
		.saved = {SAVED_2_5},
		.hooks = {HOOKS, HOOKS_2_7},
		.lender = {LENDER},
		.reducer = {REDUCER, REDUCER_2_4},
		.python = {PYTHON, PYTHON_2_10},
		.block = {BLOCK, BLOCK_2_11},
		.allocator = {ALLOCATOR, ALLOCATOR_2_11},
		.trace = {TRACE, TRACE_2_10},
	},
	{
		.major = 2, .minor_first = 12, .minor_last = 12, .packed_python_bit = true,
		.storage = {STORAGE, STORAGE_2_6},
		.tensor = {TENSOR, TENSOR_2_4},
		.meta = {META_2_10},
		.node = {NODE_2_4},
		.saved = {SAVED_2_5},
		.hooks = {HOOKS, HOOKS_2_7},
		.lender = {LENDER},
		.reducer = {REDUCER, REDUCER_2_12},
		.python = {PYTHON, PYTHON_2_10},
		.block = {BLOCK, BLOCK_2_11},
		.allocator = {ALLOCATOR, ALLOCATOR_2_12},
		.trace = {TRACE, TRACE_2_10},
	},
	{
		.major = 2, .minor_first = 13, .minor_last = 13, .packed_python_bit = true,
		.storage = {STORAGE, STORAGE_2_6},
		.tensor = {TENSOR, TENSOR_2_13},
		.meta = {META_2_13},
		.node = {NODE_2_13},
		.saved = {SAVED_2_13},
		.hooks = {HOOKS, HOOKS_2_13},
		.lender = {LENDER},
		.reducer = {REDUCER, REDUCER_2_12},
		.python = {PYTHON, PYTHON_2_10},
		.block = {BLOCK, BLOCK_2_11},
		.allocator = {ALLOCATOR, ALLOCATOR_2_13},
		.trace = {TRACE, TRACE_2_10},
	},
	{
		.major = 2, .minor_first = 14, .minor_last = 14, .packed_python_bit = true,
		.storage = {STORAGE, STORAGE_2_6},
		.tensor = {TENSOR, TENSOR_2_13},
		.meta = {META_2_13},
		.node = {NODE_2_13},
		.saved = {SAVED_2_13},
		.hooks = {HOOKS, HOOKS_2_13},
		.lender = {LENDER},
		.reducer = {REDUCER, REDUCER_2_12},
		.python = {PYTHON, PYTHON_2_14},
		.block = {BLOCK, BLOCK_2_11},
		.allocator = {ALLOCATOR, ALLOCATOR_2_13},
		.trace = {TRACE, TRACE_2_10},
	},
	{
		.major = 2, .minor_first = 15, .minor_last = 15, .packed_python_bit = true,
		.storage = {STORAGE, STORAGE_2_6},
		.tensor = {TENSOR, TENSOR_2_13},
		.meta = {META_2_13},
		.node = {NODE_2_13},
		.saved = {SAVED_2_13},
		.hooks = {HOOKS, HOOKS_2_15},
		.lender = {LENDER},
		.reducer = {REDUCER, REDUCER_2_15},
		.python = {PYTHON, PYTHON_2_14},
		.block = {BLOCK, BLOCK_2_11},
		.allocator = {ALLOCATOR, ALLOCATOR_2_13},
		.trace = {TRACE, TRACE_2_15},
	},
};
const size_t gm_torch_layout_count = sizeof(gm_torch_layouts) / sizeof(gm_torch_layouts[0]);
const char gm_torch_layout_range[] = "2.4 to 2.15; 2.4 and 2.5 as the package index has them";
