#include "torch/layout.h"

#include <stdio.h>
#include <string.h>

/*
 * The newest; layout_older.c has the others. A row is complete or it is not there. To add a version: run
 * tests/tools/torch_offsets.sh against its wheel for the published classes, and follow docs/torch-layouts.md
 * for the allocator's.
 */
static const struct gm_torch_layout layouts[] = {
        {
                .major = 2,
                .minor_first = 15,
                .minor_last = 15,
                .packed_python_bit = true,
                .storage =
                        {
                                .size_of = 96,
                                .counts = 8,
                                .data = 16,
                                .context = 24,
                                .device = 40,
                                .size_bytes = 48,
                                .size_is_heap = 56,
                                .allocator = 72,
                                .python = 80,
                        },
                .tensor =
                        {
                                .size_of = 176,
                                .counts = 8,
                                .storage = 16,
                                .autograd_meta = 24,
                                .extra_meta = 32,
                                .version = 40,
                                .python = 48,
                                .dimensions = 56,
                                .sizes = 64,
                                .inline_dimensions = 5,
                                .storage_offset = 144,
                                .numel = 152,
                                .dtype = 160,
                                .device = 162,
                        },
                .meta =
                        {
                                .size_of = 184,
                                .grad = 40,
                                .grad_fn = 48,
                                .grad_accumulator = 56,
                                .requires_grad = 128,
                                .hooks = 80,
                                .post_accumulate_hooks = 120,
                                .view_size_of = 312,
                                .view_backward = 184,
                                .view_backward_set = 232,
                                .view_forward = 240,
                                .view_forward_set = 288,
                        },
                .node =
                        {
                                .size_of = 464,
                                .counts = 8,
                                .next_edges = 88,
                                .edge_size = 16,
                                .python = 112,
                                .accumulate_variable = 464,
                        },
                .saved =
                        {
                                .size_of = 80,
                                .data = 0,
                                .saved_original = 42,
                                .is_leaf = 43,
                                .is_output = 44,
                                .hooks = 48,
                                .grad_fn = 56,
                                .grad_accumulator = 64,
                        },
                .python =
                        {
                                .tensor_cdata = 16,
                                .tensor_hooks = 24,
                                .tensor_post_hooks = 32,
                                .tensor_maybe_owned = false,
                                .storage_cdata = 16,
                                .function_cdata = 16,
                                .pyfunction_saved = 192,
                                .pyfunction_cdata = 280,
                        },
                .hooks = {.dict = 8,
                        .metadata_dict = 48,
                        .saved_pack = 8,
                        .saved_unpack = 32,
                        .saved_data = 56},
                .lender = {.size_of = 40, .function = 8},
                .reducer =
                        {
                                .parameters = 40,
                                .bucket_size_of = 248,
                                .gradients = 0,
                                .views_in = 8,
                                .views_out = 32,
                                .variables = 56,
                                .future_work = 184,
                                .sparse_indices = 208,
                        },
                /* Block::~Block, BlockComparatorAddress, BlockComparatorSize, BlockState::BlockState,
		 * try_merge_blocks (prev, next, event_count, mapped; deletes 0xa8 bytes) */
                .block =
                        {
                                .size_of = 0xa8,
                                .device = 0,
                                .stream = 8,
                                .stream_uses = 0x10,
                                .size = 0x38,
                                .requested = 0x40,
                                .pool = 0x48,
                                .address = 0x50,
                                .allocated = 0x58,
                                .mapped = 0x59,
                                .previous = 0x60,
                                .next = 0x68,
                                .event_count = 0x70,
                                .expandable = 0xa0,
                        },
                /* NativeCachingAllocator::initialized (devices), ~DeviceCachingAllocator (pools, sets,
		 * tables, PrivatePool), alloc_found_block's call of the report (stats) */
                .allocator =
                        {
                                .devices = 0x5838,
                                .stats_allocated = 0x1a8,
                                .stats_reserved = 0x208,
                                .stats_active = 0x288,
                                .stats_requested = 0x348,
                                .stats_max_split = 0x418,
                                .large = 0x428,
                                .small = 0x4d0,
                                .active = 0x578,
                                .graph_pools = 0xb40,
                                .graph_entry_size = 32,
                                .graph_entry_pool = 24,
                                .active_entry_size = 16,
                                .active_entry_block = 8,
                                .pool_blocks = 0,
                                .pool_unmapped = 0x60,
                                .private_large = 0x28,
                                .private_small = 0xd0,
                                .set_header = 8,
                                .set_first = 24,
                                .set_count = 40,
                                .set_node_value = 32,
                                .hash = {.entries = 0,
                                        .slots_minus_one = 8,
                                        .lookups = 17,
                                        .count = 24},
                                /* setMemoryFraction (both), recordHistory (ring) */
                                .properties_total = 0x7a0,
                                .limit = 0xa70,
                                .trace_next = 0xb30,
                                .trace_entries = 0xb38,
                        },
                /* c10/core/CachingDeviceAllocator.h, struct TraceEntry */
                .trace =
                        {
                                .size_of = 0xa8,
                                .action = 0,
                                .device = 4,
                                .address = 8,
                                .context = 0x10,
                                .stream = 0x20,
                                .size = 0x28,
                        },
        },
};

static bool covers(const struct gm_torch_layout *layout, int major, int minor, bool old_strings)
{
	return layout->major == major && layout->old_strings == old_strings &&
	       layout->minor_first <= minor && minor <= layout->minor_last;
}

const struct gm_torch_layout *gm_torch_layout_at(size_t index)
{
	size_t newest = sizeof(layouts) / sizeof(layouts[0]);
	if (index < newest)
		return &layouts[newest - 1 - index];
	index -= newest;
	return index < GM_TORCH_LAYOUTS_OLDER
	               ? &gm_torch_layouts_older[GM_TORCH_LAYOUTS_OLDER - 1 - index]
	               : NULL;
}

const struct gm_torch_layout *gm_torch_layout_for(const char *version, bool old_strings)
{
	int major, minor;
	if (sscanf(version, "%d.%d", &major, &minor) != 2)
		return NULL;
	const struct gm_torch_layout *layout;
	for (size_t i = 0; (layout = gm_torch_layout_at(i)); i++)
		if (covers(layout, major, minor, old_strings))
			return layout;
	return NULL;
}

const char *gm_torch_layout_versions(void)
{
	return "2.4 to 2.15; 2.4 and 2.5 as the package index has them";
}

/* torch/headeronly/core/ScalarType.h, AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS: numbers only grow
 * from version to version; the names are those of Python's torch.* */
static const struct {
	const char *name;
	unsigned bits;
} dtypes[] = {
        {"uint8", 8},
        {"int8", 8},
        {"int16", 16},
        {"int32", 32},
        {"int64", 64},
        {"float16", 16},
        {"float32", 32},
        {"float64", 64},
        {"complex32", 32},
        {"complex64", 64},
        {"complex128", 128},
        {"bool", 8},
        {"qint8", 8},
        {"quint8", 8},
        {"qint32", 32},
        {"bfloat16", 16},
        {"quint4x2", 8},
        {"quint2x4", 8},
        {"bits1x8", 8},
        {"bits2x4", 8},
        {"bits4x2", 8},
        {"bits8", 8},
        {"bits16", 16},
        {"float8_e5m2", 8},
        {"float8_e4m3fn", 8},
        {"float8_e5m2fnuz", 8},
        {"float8_e4m3fnuz", 8},
        {"uint16", 16},
        {"uint32", 32},
        {"uint64", 64},
        {"uint1", 8},
        {"uint2", 8},
        {"uint3", 8},
        {"uint4", 8},
        {"uint5", 8},
        {"uint6", 8},
        {"uint7", 8},
        {"int1", 8},
        {"int2", 8},
        {"int3", 8},
        {"int4", 8},
        {"int5", 8},
        {"int6", 8},
        {"int7", 8},
        {"float8_e8m0fnu", 8},
        {"float4_e2m1fn_x2", 8},
        {"bcomplex32", 32},
};

const char *gm_torch_dtype_name(unsigned scalar_type)
{
	return scalar_type < sizeof(dtypes) / sizeof(dtypes[0]) ? dtypes[scalar_type].name : NULL;
}

unsigned gm_torch_dtype_bits(unsigned scalar_type)
{
	return scalar_type < sizeof(dtypes) / sizeof(dtypes[0]) ? dtypes[scalar_type].bits : 0;
}
