/* Prints the table of a version of PyTorch as "part.field offset" lines: torch_layout 2.8, or torch_layout 2.5 old
 * for a build with the old std::string. For tests/e2e/test_versions.py,
 * which compares it with what the recipes find. */
#include <stdio.h>

#include "torch/layout.h"

#define FIELD(part, field) printf(#part "." #field " %u\n", (unsigned)layout->part.field)

int main(int argc, char **argv)
{
	const struct gm_torch_layout *layout =
	        argc >= 2 ? gm_torch_layout_for(argv[1], argc > 2) : NULL;
	if (!layout) {
		fprintf(stderr, "no table: there are those of %s\n", gm_torch_layout_versions());
		return 1;
	}
	printf("rows %d.%d %d.%d\n", layout->major, layout->minor_first, layout->major,
	        layout->minor_last);
	FIELD(storage, size_of);
	FIELD(storage, counts);
	FIELD(storage, data);
	FIELD(storage, context);
	FIELD(storage, device);
	FIELD(storage, size_bytes);
	FIELD(storage, size_is_heap);
	FIELD(storage, allocator);
	FIELD(storage, python);
	FIELD(tensor, size_of);
	FIELD(tensor, counts);
	FIELD(tensor, storage);
	FIELD(tensor, autograd_meta);
	FIELD(tensor, extra_meta);
	FIELD(tensor, version);
	FIELD(tensor, python);
	FIELD(tensor, dimensions);
	FIELD(tensor, sizes);
	FIELD(tensor, storage_offset);
	FIELD(tensor, numel);
	FIELD(tensor, dtype);
	FIELD(tensor, device);
	FIELD(meta, size_of);
	FIELD(meta, grad);
	FIELD(meta, grad_fn);
	FIELD(meta, grad_accumulator);
	FIELD(meta, requires_grad);
	FIELD(meta, hooks);
	FIELD(meta, post_accumulate_hooks);
	FIELD(meta, view_size_of);
	FIELD(meta, view_backward);
	FIELD(meta, view_backward_set);
	FIELD(meta, view_forward);
	FIELD(meta, view_forward_set);
	FIELD(node, size_of);
	FIELD(node, counts);
	FIELD(node, next_edges);
	FIELD(node, edge_size);
	FIELD(node, python);
	FIELD(node, accumulate_variable);
	FIELD(node, python_object);
	FIELD(saved, size_of);
	FIELD(saved, data);
	FIELD(saved, saved_original);
	FIELD(saved, is_leaf);
	FIELD(saved, is_output);
	FIELD(saved, hooks);
	FIELD(saved, grad_fn);
	FIELD(saved, grad_accumulator);
	FIELD(hooks, dict);
	FIELD(hooks, metadata_dict);
	FIELD(hooks, saved_pack);
	FIELD(hooks, saved_unpack);
	FIELD(hooks, saved_data);
	FIELD(lender, size_of);
	FIELD(lender, function);
	FIELD(reducer, parameters);
	FIELD(reducer, bucket_size_of);
	FIELD(reducer, gradients);
	FIELD(reducer, views_in);
	FIELD(reducer, views_out);
	FIELD(reducer, variables);
	FIELD(reducer, future_work);
	FIELD(reducer, sparse_indices);
	FIELD(python, tensor_cdata);
	FIELD(python, tensor_hooks);
	FIELD(python, tensor_post_hooks);
	FIELD(python, function_cdata);
	FIELD(python, pyfunction_saved);
	FIELD(python, pyfunction_cdata);
	FIELD(block, stream);
	FIELD(block, stream_uses);
	FIELD(block, size);
	FIELD(block, requested);
	FIELD(block, pool);
	FIELD(block, address);
	FIELD(block, allocated);
	FIELD(block, mapped);
	FIELD(block, previous);
	FIELD(block, next);
	FIELD(block, event_count);
	FIELD(allocator, devices);
	FIELD(allocator, stats_allocated);
	FIELD(allocator, stats_reserved);
	FIELD(allocator, stats_active);
	FIELD(allocator, stats_requested);
	FIELD(allocator, large);
	FIELD(allocator, small);
	FIELD(allocator, active);
	FIELD(allocator, graph_pools);
	FIELD(allocator, stats_max_split);
	FIELD(allocator, pool_blocks);
	FIELD(allocator, pool_unmapped);
	FIELD(allocator, private_large);
	FIELD(allocator, private_small);
	FIELD(allocator, limit);
	FIELD(allocator, trace_entries);
	FIELD(allocator, trace_next);
	FIELD(trace, size_of);
	return 0;
}
