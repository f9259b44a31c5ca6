#include "torch/fields.h"

#include <string.h>

enum {
	OBJECT = 512,        /* objects.c reads them completely (MAX_OBJECT) */
	BLOCK = 256,         /* blocks.c (MAX_BLOCK) */
	FAR = 1 << 14,       /* a word in an object that is read separately */
	ALLOCATOR = 1 << 20, /* the allocator's own objects */
	ENTRY = 64,          /* blocks.c: of a table */
	TRACE = 1 << 10,     /* an entry of the trace */
};

#define AT(part) offsetof(struct gm_torch_layout, part)
#define WIDTH(part) sizeof(((struct gm_torch_layout *)0)->part)
#define FIELD(part, bytes, within, most)                                 \
	{                                                                \
#part, AT(part), WIDTH(part), bytes, within, most, false \
	}
#define MAYBE(part, bytes, within, most)                                \
	{                                                               \
#part, AT(part), WIDTH(part), bytes, within, most, true \
	}
#define HASH(part)                                                                                 \
	{                                                                                          \
		"hash." #part, AT(allocator.hash.part), WIDTH(allocator.hash.part), 0, 0, 24, true \
	}

#define STORAGE AT(storage.size_of)
#define TENSOR AT(tensor.size_of)
#define META AT(meta.size_of)
#define VIEW AT(meta.view_size_of)
#define NODE AT(node.size_of)
#define OF_BLOCK AT(block.size_of)
#define OF_TRACE AT(trace.size_of)

/* clang-format off: a line a field */
const struct gm_torch_field gm_torch_fields[] = {
        MAYBE(old_strings, 0, 0, 1),
        MAYBE(packed_python_bit, 0, 0, 1),

        FIELD(storage.size_of, 0, 0, OBJECT),
        FIELD(storage.counts, 8, STORAGE, OBJECT),
        FIELD(storage.data, 8, STORAGE, OBJECT),
        MAYBE(storage.context, 8, STORAGE, OBJECT),
        FIELD(storage.device, 2, STORAGE, OBJECT),
        FIELD(storage.size_bytes, 8, STORAGE, OBJECT),
        FIELD(storage.python, 8, STORAGE, OBJECT),

        FIELD(tensor.size_of, 0, 0, OBJECT),
        FIELD(tensor.counts, 8, TENSOR, OBJECT),
        FIELD(tensor.storage, 8, TENSOR, OBJECT),
        FIELD(tensor.autograd_meta, 8, TENSOR, OBJECT),
        FIELD(tensor.python, 8, TENSOR, OBJECT),
        FIELD(tensor.dimensions, 8, TENSOR, OBJECT),
        FIELD(tensor.sizes, 8, TENSOR, OBJECT),
        FIELD(tensor.inline_dimensions, 0, 0, 16),
        FIELD(tensor.storage_offset, 8, TENSOR, OBJECT),
        FIELD(tensor.numel, 8, TENSOR, OBJECT),
        FIELD(tensor.dtype, 2, TENSOR, OBJECT),
        FIELD(tensor.device, 2, TENSOR, OBJECT),

        FIELD(meta.size_of, 0, 0, OBJECT),
        FIELD(meta.grad, 8, META, OBJECT),
        FIELD(meta.grad_fn, 8, META, OBJECT),
        FIELD(meta.grad_accumulator, 8, META, OBJECT),
        FIELD(meta.requires_grad, 1, META, OBJECT),
        FIELD(meta.view_size_of, 0, 0, OBJECT),
        FIELD(meta.view_backward, 8, VIEW, OBJECT),
        FIELD(meta.view_backward_set, 1, VIEW, OBJECT),
        MAYBE(meta.view_forward, 8, VIEW, OBJECT),
        MAYBE(meta.view_forward_set, 1, VIEW, OBJECT),

        FIELD(node.size_of, 0, 0, OBJECT),
        MAYBE(node.counts, 8, NODE, OBJECT),
        MAYBE(node.self, 8, NODE, OBJECT),
        MAYBE(node.control, 8, NODE, OBJECT),
        FIELD(node.next_edges, 8, NODE, OBJECT - 8),
        FIELD(node.edge_size, 0, 0, 64),
        FIELD(node.python, 8, NODE, OBJECT),
        FIELD(node.accumulate_variable, 8, 0, FAR),
        MAYBE(node.python_object, 8, 0, FAR),

        FIELD(saved.size_of, 0, 0, OBJECT),

        MAYBE(hooks.dict, 8, 0, FAR),
        MAYBE(hooks.metadata_dict, 8, 0, FAR),
        MAYBE(hooks.saved_pack, 8, 0, FAR),
        MAYBE(hooks.saved_unpack, 8, 0, FAR),
        MAYBE(hooks.saved_data, 8, 0, FAR),

        MAYBE(lender.size_of, 0, 0, OBJECT),
        MAYBE(lender.function, 8, AT(lender.size_of), OBJECT),

        MAYBE(reducer.parameters, 8, 0, FAR),
        MAYBE(reducer.bucket_size_of, 8, 0, OBJECT),
        MAYBE(reducer.gradients, 8, AT(reducer.bucket_size_of), OBJECT),
        MAYBE(reducer.views_in, 8, AT(reducer.bucket_size_of), OBJECT),
        MAYBE(reducer.views_out, 8, AT(reducer.bucket_size_of), OBJECT),
        MAYBE(reducer.variables, 8, AT(reducer.bucket_size_of), OBJECT),
        MAYBE(reducer.future_work, 8, AT(reducer.bucket_size_of), OBJECT),
        MAYBE(reducer.sparse_indices, 8, AT(reducer.bucket_size_of), OBJECT),

        FIELD(python.tensor_cdata, 8, 0, FAR),
        FIELD(python.tensor_hooks, 8, 0, FAR),
        FIELD(python.tensor_post_hooks, 8, 0, FAR),
        MAYBE(python.tensor_maybe_owned, 0, 0, 1),
        FIELD(python.storage_cdata, 8, 0, FAR),
        FIELD(python.function_cdata, 8, 0, FAR),
        FIELD(python.pyfunction_saved, 8, 0, FAR),
        MAYBE(python.pyfunction_cdata, 8, 0, FAR),

        FIELD(block.size_of, 0, 0, BLOCK),
        MAYBE(block.device, 1, OF_BLOCK, BLOCK),
        FIELD(block.stream, 8, OF_BLOCK, BLOCK),
        FIELD(block.stream_uses, 8, OF_BLOCK, BLOCK - 32),
        FIELD(block.size, 8, OF_BLOCK, BLOCK),
        FIELD(block.requested, 8, OF_BLOCK, BLOCK),
        FIELD(block.pool, 8, OF_BLOCK, BLOCK),
        FIELD(block.address, 8, OF_BLOCK, BLOCK),
        FIELD(block.allocated, 1, OF_BLOCK, BLOCK),
        FIELD(block.mapped, 1, OF_BLOCK, BLOCK),
        FIELD(block.previous, 8, OF_BLOCK, BLOCK),
        FIELD(block.next, 8, OF_BLOCK, BLOCK),
        FIELD(block.event_count, 4, OF_BLOCK, BLOCK),
        MAYBE(block.expandable, 8, OF_BLOCK, BLOCK),

        FIELD(allocator.devices, 8, 0, ALLOCATOR),
        FIELD(allocator.stats_allocated, 8, 0, ALLOCATOR),
        FIELD(allocator.stats_reserved, 8, 0, ALLOCATOR),
        FIELD(allocator.stats_requested, 8, 0, ALLOCATOR),
        FIELD(allocator.stats_active, 8, 0, ALLOCATOR),
        FIELD(allocator.stats_max_split, 8, 0, ALLOCATOR),
        FIELD(allocator.large, 8, 0, ALLOCATOR),
        FIELD(allocator.small, 8, 0, ALLOCATOR),
        FIELD(allocator.active, 8, 0, ALLOCATOR),
        FIELD(allocator.graph_pools, 8, 0, ALLOCATOR),
        FIELD(allocator.graph_entry_size, 0, 0, ENTRY),
        FIELD(allocator.graph_entry_pool, 8, AT(allocator.graph_entry_size), ENTRY),
        FIELD(allocator.active_entry_size, 0, 0, ENTRY),
        FIELD(allocator.active_entry_block, 8, AT(allocator.active_entry_size), ENTRY),
        MAYBE(allocator.pool_blocks, 8, 0, FAR),
        FIELD(allocator.pool_unmapped, 8, 0, FAR),
        FIELD(allocator.private_large, 8, 0, FAR),
        FIELD(allocator.private_small, 8, 0, FAR),
        FIELD(allocator.set_header, 8, 0, ENTRY),
        FIELD(allocator.set_count, 8, 0, ENTRY),
        FIELD(allocator.set_node_value, 8, 0, 32), /* blocks.c reads five words of a node */
        HASH(entries),
        HASH(slots_minus_one),
        HASH(lookups),
        HASH(count),
        MAYBE(allocator.properties_total, 8, 0, ALLOCATOR),
        MAYBE(allocator.limit, 8, 0, ALLOCATOR),
        MAYBE(allocator.limit_is_plain, 0, 0, 1),
        MAYBE(allocator.trace_next, 8, 0, ALLOCATOR),
        MAYBE(allocator.trace_entries, 8, 0, ALLOCATOR),

        MAYBE(trace.size_of, 0, 0, TRACE),
        MAYBE(trace.action, 4, OF_TRACE, TRACE),
        MAYBE(trace.address, 8, OF_TRACE, TRACE),
        MAYBE(trace.context, 8, OF_TRACE, TRACE),
        MAYBE(trace.stream, 8, OF_TRACE, TRACE),
        MAYBE(trace.size, 8, OF_TRACE, TRACE),
};
/* clang-format on */
const size_t gm_torch_field_count = sizeof(gm_torch_fields) / sizeof(gm_torch_fields[0]);

const struct gm_torch_field *gm_torch_field_find(const char *name)
{
	for (size_t i = 0; i < gm_torch_field_count; i++)
		if (strcmp(gm_torch_fields[i].name, name) == 0)
			return &gm_torch_fields[i];
	return NULL;
}

static uint32_t number_at(const struct gm_torch_layout *layout, size_t at, size_t width)
{
	uint32_t value = 0; /* x86-64 is little-endian */
	memcpy(&value, (const char *)layout + at, width);
	return value;
}

uint32_t gm_torch_field_get(
        const struct gm_torch_layout *layout, const struct gm_torch_field *field)
{
	return number_at(layout, field->at, field->width);
}

void gm_torch_field_set(
        struct gm_torch_layout *layout, const struct gm_torch_field *field, uint32_t value)
{
	memcpy((char *)layout + field->at, &value, field->width);
}

const struct gm_torch_field *gm_torch_layout_unsound(
        const struct gm_torch_layout *layout, const char **ret_why)
{
	for (size_t i = 0; i < gm_torch_field_count; i++) {
		const struct gm_torch_field *field = &gm_torch_fields[i];
		uint32_t value = gm_torch_field_get(layout, field);
		*ret_why = NULL;
		if (value > field->most)
			*ret_why = "is too large";
		else if (field->bytes && value % field->bytes)
			*ret_why = "is not aligned";
		else if (field->size_at && value &&
		         value + field->bytes > number_at(layout, field->size_at, 2))
			*ret_why = "lies beyond the object's end";
		/* the first word of an object that is read completely is a vtable or a number; of
		 * Block the device */
		else if (!value && !field->optional)
			*ret_why = "is missing";
		if (*ret_why)
			return field;
	}
	*ret_why = "is missing: a node is counted by itself or by a std::shared_ptr";
	if (!layout->node.counts && (!layout->node.control || !layout->node.self))
		return gm_torch_field_find("node.counts");
	*ret_why = NULL;
	return NULL;
}
